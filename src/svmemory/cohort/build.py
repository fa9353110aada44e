"""Build one memory for each group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

from numpy.typing import ArrayLike

from ..digest import canonical_json
from ..errors import ContractError, InputError
from ..inputs import Label
from .backends import active_backend
from .delivery import Delivery
from .flight import Source
from .group import Group, tasks
from .result import CohortResult
from .work import Apply, Work, pack, warm_up

Progress = Callable[[int, int], None]


def build_cohort(
    groups: Iterable[Group] | Mapping[Label, ArrayLike],
    *,
    gamma: float,
    C: float | None = None,
    nu: float | None = None,
    ridge: float = 1e-8,
    apply: Apply | None = None,
    header: Mapping[str, Any] | None = None,
    n_jobs: int | None = -1,
    retries: int = 1,
    progress: Progress | None = None,
) -> Iterator[CohortResult]:
    """Build one memory for each group, and yield a result for each as it is ready.

    Every group gets exactly one result. One that cannot be built, or whose ``apply`` raises, is
    reported with its error, and the rest go on. Digests depend on nothing but the group and the
    contract: not on the number of jobs, the backend or the order.

    Parameters
    ----------
    groups : iterable of Group, or mapping of name to keys (n, d)
        An iterator is read as workers become free. :func:`split` makes groups of columns.
    gamma, ridge : float
        As in :class:`svmemory.SupportVectorMemory`, the same for all groups.
    C, nu : float
        Give one of them: the largest weight of a row, or the share of rows that may lie outside.
        ``nu`` is turned into ``C = 1 / (nu n)``, once, with n the group's own number of rows.
    apply : callable, optional
        ``apply(memory, group)`` runs where the memory was built; only what it returns comes back.
        Without it, the memory file comes back.
    header : mapping, optional
        For every memory's ``header``; the group's name is added as ``group``. JSON values.
    n_jobs : int or None
        As in joblib: 1 for this process, -1 for all cores of this machine or of the cluster, None
        for what :func:`joblib.parallel_config` has set.
    retries : int
        How often a group that was alone in a worker when it died is tried again, >= 0.
    progress : callable, optional
        Called as ``progress(done, total)`` after each group. While ``groups`` is an iterator that
        has not ended, ``total`` is the number of groups read so far.

    Returns
    -------
    iterator of CohortResult
        Close it, or interrupt it, and the work that has not begun is cancelled.

    Raises
    ------
    ContractError, InputError
        At once, if an argument is unusable.
    Exception
        What an iterator of groups raises, after the results of all groups before it. What the
        backend raises if no worker can be had to begin with.

    Examples
    --------
    >>> from svmemory.cohort import build_cohort
    >>> stays = {"A": [[0.0], [1.0], [4.0]], "B": [[0.0], [float("nan")]]}
    >>> for r in build_cohort(stays, gamma=0.5, nu=0.5, n_jobs=1):
    ...     print(r.name, r.status, r.rows, r.error)
    A done 3 None
    B failed 0 InputError: keys row 1, column 0 is nan: remove or impute it first
    """
    if (C is None) == (nu is None):
        raise ContractError("give exactly one of C and nu")
    if isinstance(groups, Group) or not isinstance(groups, Iterable):
        raise InputError("groups must be an iterable of Group, or a mapping of name to keys")
    if retries < 0:
        raise InputError(f"retries must be at least 0, got {retries}")
    work = Work(gamma, C, nu, ridge, dict(header or {}), apply)
    work.contract(1)  # raises if a number is out of range
    try:
        canonical_json(work.header)
    except (TypeError, ValueError) as error:
        raise InputError(f"the header cannot be written as JSON: {error}") from None
    try:
        packed_work = pack(work)
    except Exception as error:
        raise InputError(f"apply cannot be sent to a worker: {error}") from error
    backend, configured = active_backend()
    jobs = configured if n_jobs is None else n_jobs
    if jobs == 0:
        raise InputError("n_jobs must not be 0")
    delivery = Delivery(packed_work, backend, jobs, retries)
    total = len(groups) if isinstance(groups, Sized) else None
    return _results(groups, work, delivery, progress, total)


def _results(
    groups: Iterable[Group] | Mapping[Label, ArrayLike],
    work: Work,
    delivery: Delivery,
    progress: Progress | None,
    total: int | None,
) -> Iterator[CohortResult]:
    if not delivery.in_this_process:
        warm_up(work)
    delivery.check()
    source = Source(tasks(groups))
    for done, result in enumerate(delivery.run(source), start=1):
        if progress is not None:
            progress(done, source.count if total is None else total)
        yield result
    if source.error is not None:
        raise source.error
