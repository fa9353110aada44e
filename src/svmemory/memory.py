"""The support-vector memory: rows in, reads out, and deletions that leave nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import file
from .centre import prunable
from .contract import Contract
from .digest import digest
from .errors import EmptyMemoryError, FileFormatError, InputError, SVMemoryError
from .exactness import RunningCertificate
from .holding import Holding, Progress
from .inputs import Label, as_matrix, as_points, as_subjects, as_values, listed
from .proofs import Provable
from .reads import kernel_sums, readout
from .results import ForgetResult, PruneResult

if TYPE_CHECKING:
    from .certificate.signer import Signer

Floats = NDArray[np.float64]
Folder = str | os.PathLike[str]


class SupportVectorMemory(Provable):
    """A memory that keeps what is unlike the rest and forgets to the byte.

    Each row has a key, and may have a value, an id and a subject (the person or source that a
    deletion request names). The weights solve the problem of :mod:`svmemory.problem` over the held
    rows at all times; after any history of additions and deletions the memory's :meth:`digest` is
    that of a memory which only ever saw the rows it holds.

    Parameters
    ----------
    gamma : float
        Kernel parameter of ``exp(-gamma |x - y|^2)``, > 0.
    C : float
        Largest weight of one row, > 0. Below ``1/C`` rows every weight is ``1/n`` (warm-up).
    ridge : float, default 1e-8
        Added to the kernel's diagonal: makes the optimum unique. 0 is for comparisons only and
        offers no digest.
    cold : path, optional
        Folder for a nameless file that holds keys and values instead of memory (the cold tier);
        active rows stay in memory as well. Results never differ, and nothing outlives the process.

    Raises
    ------
    ContractError
        If a number is out of range.

    Examples
    --------
    >>> from svmemory import SupportVectorMemory
    >>> m = SupportVectorMemory(gamma=0.5, C=0.5)
    >>> m.add([[0.0], [1.0], [4.0]], values=[0.0, 1.0, 4.0], ids=["a", "b", "c"])
    ['a', 'b', 'c']
    >>> never_saw = SupportVectorMemory(gamma=0.5, C=0.5)
    >>> never_saw.add([[4.0], [0.0]], values=[4.0, 0.0], ids=["c", "a"])
    ['c', 'a']
    >>> m.forget(ids="b").removed
    ['b']
    >>> m.digest() == never_saw.digest()
    True
    """

    def __init__(
        self, gamma: float, C: float, ridge: float = 1e-8, *, cold: Folder | None = None
    ) -> None:
        self._start(Contract.from_cap(gamma, C, ridge), cold)

    @classmethod
    def from_nu(
        cls, nu: float, n0: int, *, gamma: float, ridge: float = 1e-8, cold: Folder | None = None
    ) -> Self:
        """Memory whose cap is ``1/(nu n0)``: about a share ``nu`` of ``n0`` rows may lie outside.

        Parameters
        ----------
        nu : float
            In (0, 1].
        n0 : int
            Declared number of rows, >= 1; used once, whatever is added or forgotten later.
        gamma, ridge, cold
            As in the constructor.
        """
        return cls.from_contract(Contract.from_nu(nu, n0, gamma, ridge), cold=cold)

    @classmethod
    def from_contract(cls, contract: Contract, *, cold: Folder | None = None) -> Self:
        """Memory under an existing contract; ``cold`` as in the constructor."""
        memory = cls.__new__(cls)
        memory._start(contract, cold)
        return memory

    def _start(self, contract: Contract, cold: Folder | None) -> None:
        self._held = Holding(contract, cold)
        self._digest: str | None = None
        self._certificate = RunningCertificate()
        self.header: dict[str, Any] = {}

    def add(
        self,
        keys: ArrayLike,
        values: ArrayLike | None = None,
        ids: Iterable[Label] | None = None,
        subjects: Iterable[Label | None] | None = None,
        progress: Progress | None = None,
    ) -> list[str]:
        """Add rows; the memory ends at the optimum of all held rows.

        Parameters
        ----------
        keys : array_like (n, d)
            Finite numbers; d is fixed by the first rows.
        values : array_like (n, dv) or (n,), optional
            Either all rows of a memory have values or none has.
        ids : sequence of n str or int, optional
            Unique; 1 and "1" are the same id. Without ids, rows are numbered in order of arrival.
        subjects : sequence of n str, int or None, optional
        progress : callable, optional
            Called as ``progress(done, n)`` from time to time.

        Returns
        -------
        list of str
            Ids of the new rows.

        Raises
        ------
        InputError, DuplicateIdError
            The memory is unchanged.
        ConvergenceError
            The optimum was not reached; the memory is unchanged.
        """
        table = self._held.table
        given = None if ids is None else listed(ids, "id")
        matrix = as_matrix(keys, "keys", self.dimension, given)
        n = len(matrix)
        names = table.new_ids(given, n)
        people = as_subjects(subjects, n)
        columns = as_values(values, n, self.value_dimension, names)
        self._digest = None
        with self._certificate.operation(self._held, arriving=n):
            self._held.insert(names, people, matrix, columns, progress)
        return names

    def forget(
        self,
        ids: Iterable[Label] | Label | None = None,
        subject: Label | None = None,
        missing: Literal["error", "ignore"] = "error",
        digests: bool = False,
        progress: Progress | None = None,
        certificate: Signer | None = None,
    ) -> ForgetResult:
        """Delete rows: afterwards the memory is the one that never saw them.

        Parameters
        ----------
        ids : id or sequence of ids, optional
        subject : str or int, optional
            Delete all rows of this subject. Exactly one of ``ids`` and ``subject`` must be given.
        missing : {"error", "ignore"}
            What to do about ids or a subject that are not held.
        digests : bool
            Report the digests before and after; each costs a canonical form.
        progress : callable, optional
            Called as ``progress(done, n)`` from time to time.
        certificate : Signer, optional
            Issue a certificate, docs/audit.md; the memory is unchanged if that fails.

        Raises
        ------
        UnknownIdError
            The memory is unchanged.
        """
        if missing not in ("error", "ignore"):
            raise InputError(f"missing must be 'error' or 'ignore', got {missing!r}")
        if certificate is not None:
            from .certificate import deletion

            return deletion.forget(self, certificate, ids, subject, missing, digests, progress)
        table = self._held.table
        held, slots = table.select(ids, subject, strict=missing == "error")
        before = self.digest() if digests else None
        past = self.stats
        former = self._sets_of(held, slots)
        if held:
            self._digest = None
            with self._certificate.operation(self._held, leaving=held):
                self._held.remove(held, slots, progress)
        work = self.stats.since(past)
        return ForgetResult(
            removed=held,
            former=former,
            events=work.events,
            zero_steps=work.zero_steps,
            corrections=work.corrections,
            refits=work.refits,
            digest_before=before,
            digest_after=self.digest() if digests else None,
        )

    def prune(
        self,
        keep_slack_below: float = 0.0,
        digests: bool = False,
        certificate: Signer | None = None,
    ) -> PruneResult:
        """Remove reserve rows, which carry no weight: every score and readout stays as it is.

        The sets are those of the canonical form (at ridge 0: of the present state). The memory then
        is the one that only ever saw the remaining rows. Rows added or forgotten later might have
        given a pruned row weight: :meth:`exactness` says whether, :meth:`plan` looks ahead.

        Parameters
        ----------
        keep_slack_below : float
            Keep reserve rows with less slack ``g`` than this, in gate-score units, >= 0.
        digests, certificate
            As in :meth:`forget`.
        """
        if certificate is not None:
            from .certificate import deletion

            return deletion.prune(self, certificate, keep_slack_below, digests)
        if self.contract.ridge > 0:
            self.canonicalise()
        before = self.digest() if digests else None
        rows = prunable(self._held, keep_slack_below)
        if rows.names:
            self._digest = None
            with self._certificate.prune(self._held, rows):
                self._held.remove(rows.names, self._held.table.in_order(rows.names), None)
        after = self.digest() if digests else None
        return PruneResult(rows.names, rows.least_slack, before, after)

    def read(self, queries: ArrayLike) -> Floats:
        """Weighted mean of the values near each query.

        Parameters
        ----------
        queries : array_like (q, d)

        Returns
        -------
        (q, dv) array
            ``sum_i p_i v_i`` with p the softmax of ``log a_i - gamma |q - x_i|^2`` over active
            rows.

        Raises
        ------
        EmptyMemoryError
            If there are no rows, or the rows have no values.
        """
        self._held.need("cannot be read")
        if not self._held.table.value_width:
            raise EmptyMemoryError("this memory holds no values to read; add rows with values")
        points = as_points(queries, "queries", self.dimension)
        near, weights, values, _ = self._held.support()
        return np.asarray(readout(near, np.log(weights), values, points, self.contract.gamma))

    def score(self, points: ArrayLike) -> Floats:
        """Gate score ``2 sum_i a_i k(x, x_i) - rho`` of each point; (q,). Larger is more typical.

        Raises
        ------
        EmptyMemoryError
            If there are no rows.
        """
        self._held.need("cannot score")
        matrix = as_points(points, "points", self.dimension)
        near, weights, *_ = self._held.support()
        return np.asarray(
            2.0 * kernel_sums(near, weights, matrix, self.contract.gamma) - self.offset
        )

    def digest(self) -> str:
        """SHA-256 over contract, rows and canonical weights in hex: equal for equal rows.

        Puts the state in canonical form, and raises what :meth:`canonicalise` raises.
        """
        self.canonicalise()
        if self._digest is None:
            rows = self._held.in_id_order() if len(self) else None
            self._digest = digest(self.contract, rows)
        return self._digest

    def copy(self) -> Self:
        """An independent memory in the same state."""
        twin = type(self).from_contract(self.contract)
        twin._held = self._held.copy()
        twin._digest = self._digest
        twin._certificate = self._certificate.copy()
        twin.header = deepcopy(self.header)
        return twin

    __copy__ = copy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the memory to a file whose bytes are a function of its rows and header.

        The old file, if any, stays until the new one is complete. The format is described in
        :mod:`svmemory.file`. At ridge 0 the present weights are written, without a digest.

        Raises
        ------
        InputError
            If :attr:`header` cannot be written as JSON.
        OSError
            If the file cannot be written; an old file is unharmed.
        """
        seal = self.digest() if self.contract.ridge > 0 else None
        rows = self._held.in_id_order() if len(self) else None
        file.write(file.to_bytes(file.Content(self.contract, rows, seal, self.header)), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, cold: Folder | None = None) -> Self:
        """Read a memory from a file, after checking its format, its digest and its optimality.

        ``cold`` is as in the constructor: a memory file says nothing about tiers.

        Raises
        ------
        FileFormatError
            If the file is no memory, is damaged, or its weights are not the optimum of its rows.
        OSError
            If it cannot be read.
        """
        content = file.read(path)
        memory = cls.from_contract(content.contract, cold=cold)
        memory.header = content.header
        if content.rows is not None:
            try:
                memory._held.adopt(content.rows)
            except SVMemoryError as error:
                raise FileFormatError(f"{os.fspath(path)}: {error}") from None
        if content.contract.ridge > 0 and memory.digest() != content.digest:
            raise FileFormatError(
                f"{os.fspath(path)}: digest mismatch: the file claims {content.digest}, "
                f"its rows have {memory.digest()}"
            )
        return memory
