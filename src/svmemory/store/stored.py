"""A memory in a store: every verb is a transaction, and every deletion leaves a receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from ..centre import prunable
from ..errors import ErasedIdError, InputError
from ..inputs import Label, as_labels, as_matrix, as_subjects, as_values, listed
from ..memory import SupportVectorMemory
from ..names import LIMIT
from ..preview import Preview, preview
from . import tombstones
from .change import Change
from .eviction import evictable
from .removal import Chosen, Removal, Removing, as_chosen, older_than
from .results import Receipt
from .times import Time, as_time, as_times

if TYPE_CHECKING:
    from ..certificate.signer import Signer


class StoredMemory(Removing):
    """A memory in a store; :meth:`svmemory.store.Store.open` makes one.

    It reads and scores as :class:`svmemory.SupportVectorMemory` does. Several processes may hold
    the same memory: each call sees what was committed before it, and changes wait for one another.
    After any failure the memory is what it was.
    """

    def add(
        self,
        keys: ArrayLike,
        values: ArrayLike | None = None,
        ids: Iterable[Label] | None = None,
        subjects: Iterable[Label | None] | None = None,
        times: Iterable[Time] | None = None,
        readmit: bool = False,
    ) -> list[str]:
        """Add rows; returns their ids.

        Parameters
        ----------
        keys, values, ids, subjects
            As in :meth:`svmemory.SupportVectorMemory.add`. Without ids, rows are numbered; a number
            is not used twice while the memory is in the store.
        times : sequence of n datetime or str, optional
            When each row began to count, for :meth:`expire`; the present time if not given. Text is
            ISO 8601; what has no time zone is UTC.
        readmit : bool
            Let ids in that were erased from this memory.

        Raises
        ------
        InputError, DuplicateIdError
        ErasedIdError
            If an id was erased and ``readmit`` is False.
        StoreError
            The store could not be written.
        """
        given = None if ids is None else listed(ids, "id")
        people = None if subjects is None else listed(subjects, "subject")
        moments = None if times is None else list(times)
        with self.changing() as change:
            return self._add(change, keys, values, given, people, moments, readmit)

    def _add(
        self,
        change: Change,
        keys: ArrayLike,
        values: ArrayLike | None,
        ids: list[Label] | None,
        subjects: list[Label | None] | None,
        times: list[Time] | None,
        readmit: bool,
    ) -> list[str]:
        memory, record = change.memory, change.record
        matrix = as_matrix(keys, "keys", memory.dimension, ids)
        n = len(matrix)
        first = record.next_id
        names = as_labels(range(first, first + n) if ids is None else ids, "id", n)
        columns = as_values(values, n, memory.value_dimension, names)
        people, moments = as_subjects(subjects, n), as_times(times, n)
        back = tombstones.erased(change.connection, record, names)
        if back and not readmit:
            more = f" (and {len(back) - 1} more)" if len(back) > 1 else ""
            raise ErasedIdError(
                f"id {back[0]!r}{more} was erased from memory {self.name!r}; "
                "readmit=True lets it in again"
            )
        width = columns.shape[1]
        change.mutate(lambda: memory.add(matrix, columns if width else None, names, people))
        change.content.insert(change.connection, record, names, people, matrix, columns, moments)
        if back:
            change.record = tombstones.lift(change.connection, record, back)
            self._keep(change, self._receipt(change, "readmitted", f"{len(back)} erased ids"))
        change.advance(rows=n, next_id=next_id(names))
        return names

    def forget(
        self,
        ids: Iterable[Label] | Label | None = None,
        subject: Iterable[Label] | Label | None = None,
        *,
        token: str | None = None,
        request: str | None = None,
        digests: bool = False,
        certificate: Signer | None = None,
    ) -> Receipt:
        """Delete rows, by id or all of a subject: afterwards no file of the store has their bytes.

        A request that matches nothing deletes nothing and says so ("nothing held"); ids that are
        not held are listed in the receipt. Deleted ids are refused from now on (:meth:`add`).

        Parameters
        ----------
        ids, subject
            One id or several, or all rows of one subject or several; not both.
        token : str, optional
            From :meth:`preview`: delete exactly what was shown, or nothing.
        request : str, optional
            Your name for the request, kept with the receipt. Do not put the person's name in it.
        digests : bool
            Report the digests before and after.
        certificate : svmemory.certificate.signer.Signer, optional
            Issue a certificate in the same transaction and enter it in the memory's log
            (:meth:`log`); the signer must have no log of its own.

        Raises
        ------
        PreviewError
            If the token does not fit; nothing was deleted.
        """
        wanted = as_chosen(ids, subject)
        return self._remove(
            Removal("forget", "forgotten", wanted, token, request, digests, certificate, True)
        )

    def expire(
        self,
        before: Time,
        *,
        token: str | None = None,
        request: str | None = None,
        digests: bool = False,
    ) -> Receipt:
        """Delete the rows whose time is before a moment; their ids are refused from now on.

        Parameters
        ----------
        before : datetime or str
            As ``times`` of :meth:`add`.
        token, request, digests
            As in :meth:`forget`.
        """
        limit = as_time(before, "before")
        return self._remove(
            Removal("expire", "expired", older_than(limit), token, request, digests, None, True)
        )

    def evict(
        self,
        budget: int,
        *,
        token: str | None = None,
        request: str | None = None,
        digests: bool = False,
    ) -> Receipt:
        """Drop rows until at most ``budget`` are left: a heuristic, and readouts may change.

        Reserve rows go first (:mod:`svmemory.store.eviction`). The ids are free to come back.

        Parameters
        ----------
        budget : int
            Rows to keep, >= 0.
        token, request, digests
            As in :meth:`forget`.
        """
        return self._remove(
            Removal("evict", "evicted", _over(budget), token, request, digests, None, False)
        )

    def prune(
        self,
        keep_slack_below: float = 0.0,
        *,
        token: str | None = None,
        request: str | None = None,
        digests: bool = False,
        certificate: Signer | None = None,
    ) -> Receipt:
        """Drop reserve rows: no readout changes now. The ids are free to come back.

        Parameters
        ----------
        keep_slack_below : float
            As in :meth:`svmemory.SupportVectorMemory.prune`.
        token, request, digests, certificate
            As in :meth:`forget`.
        """
        return self._remove(
            Removal(
                "prune",
                "pruned",
                _reserve(keep_slack_below),
                token,
                request,
                digests,
                certificate,
                False,
                keep_slack_below,
            )
        )

    def preview(
        self,
        *,
        ids: Iterable[Label] | Label | None = None,
        subject: Iterable[Label] | Label | None = None,
        before: Time | None = None,
        budget: int | None = None,
        keep_slack_below: float | None = None,
    ) -> Preview:
        """What a request would delete now, and the token that makes the real call delete just that.

        Exactly one argument must be given: ``ids`` or ``subject`` for :meth:`forget`, ``before``
        for :meth:`expire`, ``budget`` for :meth:`evict`, ``keep_slack_below`` for :meth:`prune`.
        """
        options = (ids, subject, before, budget, keep_slack_below)
        if sum(option is not None for option in options) != 1:
            raise InputError("give exactly one of ids, subject, before, budget, keep_slack_below")
        if before is not None:
            verb, choose = "expire", older_than(as_time(before, "before"))
        elif budget is not None:
            verb, choose = "evict", _over(budget)
        elif keep_slack_below is not None:
            verb, choose = "prune", _reserve(keep_slack_below)
        else:
            verb, choose = "forget", as_chosen(ids, subject)
        with self.looking() as change:
            chosen = choose(change)
            return preview(verb, change.memory, chosen.names, chosen.missing)

    def annotate(self, header: dict[str, Any]) -> None:
        """Replace the memory's notes (:attr:`header`), which are JSON and no part of the digest."""
        with self.changing() as change:
            if not isinstance(header, dict):
                raise InputError(f"the header must be a dict, got {type(header).__name__}")
            change.record = replace(change.record, header=dict(header))
            change.advance()
            change.mutate(lambda: setattr(change.memory, "header", dict(header)))


def next_id(names: list[str]) -> int:
    """One more than the largest id that is a number; 0 if none is."""
    numbers = [int(x) for x in names if x.isascii() and x.isdecimal() and len(x) < 20]
    return max((n + 1 for n in numbers if n + 1 < LIMIT), default=0)


def _over(budget: int) -> Callable[[Change], Chosen]:
    return lambda change: Chosen(evictable(change.memory, budget), [])


def _reserve(keep_slack_below: float) -> Callable[[Change], Chosen]:
    def choose(change: Change) -> Chosen:
        memory: SupportVectorMemory = change.memory
        if memory.contract.ridge > 0:
            memory.canonicalise()
        return Chosen(list(prunable(memory._held, keep_slack_below).names), [])

    return choose
