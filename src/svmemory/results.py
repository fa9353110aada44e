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
    certificate, opening : bytes or None
        With a signer, where rows were removed: see docs/audit.md. The opening names the rows.
    """

    removed: list[str]
    former: dict[str, str]
    events: int
    zero_steps: int
    corrections: int
    refits: int
    digest_before: str | None
    digest_after: str | None
    certificate: bytes | None = None
    opening: bytes | None = None


@dataclass(frozen=True)
class PruneResult:
    """Outcome of a certified removal of reserve rows.

    Attributes
    ----------
    removed : list of str
        Ids that were pruned.
    slack : float
        Smallest gate-score slack of a pruned row, rounded down; infinite if there was none.
    digest_before, digest_after : str or None
        Only on request.
    certificate, opening : bytes or None
        With a signer, where rows were removed: see docs/audit.md. The opening names the rows.
    """

    removed: list[str]
    slack: float
    digest_before: str | None
    digest_after: str | None
    certificate: bytes | None = None
    opening: bytes | None = None


@dataclass(frozen=True)
class Exactness:
    """Whether a pruned memory is, at this moment, the full-history memory; see docs/pruning.md.

    The full-history memory holds the pruned rows besides the held ones. If some of them had been
    forgotten since, the same is proved: any part of them may be left out.

    Attributes
    ----------
    proved : bool
        True: both have the same weights and offset, so the same scores and readouts, and every
        pruned row has weight 0. False: this could not be proved; they may or may not be equal.
    spent : float
        Share of the deciding prune's slack that the memory's moves have used up; above 1 when not
        proved, infinite where pruned rows certainly have weight.
    slack : float
        What is left, in gate-score units: no pruned row would have less slack now. Infinite if
        nothing was pruned, negative if not proved.
    since : int or None
        Number of the operation (calls that added or forgot rows, counted from 1) after which the
        proof first failed, since it was last reported; None while proved.
    pruned : int
        Rows pruned so far.
    reason : str
        The same in words.
    """

    proved: bool
    spent: float
    slack: float
    since: int | None
    pruned: int
    reason: str


@dataclass(frozen=True)
class PlanResult:
    """Rows that no k further admissions can make matter; see docs/pruning.md.

    Attributes
    ----------
    k : int
        Number of admissions, of any keys whatever. Nothing is promised about deletions.
    threshold : float
        Gate-score slack from which a reserve row is safe; infinite in warm-up. Pass it to
        ``prune(keep_slack_below=...)`` to drop these rows.
    droppable : list of str
        Ids of the rows with at least that slack, in order of arrival.
    kept : int
        Number of the other rows.
    """

    k: int
    threshold: float
    droppable: list[str]
    kept: int


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
