"""What the memory's verbs return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Partition:
    """Ids by set, each in order of arrival.

    Attributes
    ----------
    margin : list of str
        Weight strictly between 0 and the cap: they carry the readout.
    error : list of str
        Weight at the cap: boundary rows and outliers.
    reserve : list of str
        Weight 0: redundant at this moment.
    """

    margin: list[str]
    error: list[str]
    reserve: list[str]


@dataclass(frozen=True)
class ForgetResult:
    """Outcome of a deletion.

    Attributes
    ----------
    removed : list of str
        Ids that were held and are gone.
    former : dict of str to str
        Set that each removed row was in: "margin", "error" or "reserve".
    events, zero_steps, corrections, refits : int
        Work done, as in :class:`svmemory.engine.Stats`; ``refits`` is 0 unless a path was given up.
    digest_before, digest_after : str or None
        Only on request.
    """

    removed: list[str]
    former: dict[str, str]
    events: int
    zero_steps: int
    corrections: int
    refits: int
    digest_before: str | None
    digest_after: str | None


@dataclass(frozen=True)
class PruneResult:
    """Outcome of a certified removal of reserve rows; fields as in :class:`ForgetResult`."""

    removed: list[str]
    digest_before: str | None
    digest_after: str | None


@dataclass(frozen=True)
class KKTReport:
    """How close the present state is to the optimum; see :mod:`svmemory.problem`.

    Attributes
    ----------
    residual : float
        Largest violation of the optimality conditions, in gate-score units.
    gap : float
        Upper bound on ``f(a) - f*``.
    score_bound : float
        Upper bound on the error of any gate score.
    offset_low, offset_high : float
        Interval that holds the optimal offset.
    status : str
        "empty", "warmup" or "optimal".
    """

    residual: float
    gap: float
    score_bound: float
    offset_low: float
    offset_high: float
    status: str
