"""Audit that a memory which forgot two rows is the memory that never saw them.

Each trial adds n rows, forgets two at random, and compares with a fresh memory that was given the
retained rows in another order: first the fast path's own state, then the canonical forms and their
digests, and, in some trials, an exact solve in rational numbers. Beside them stands what many
systems do instead of deleting: multiplying the coefficients of the two rows by 0.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import reference
from ..decay import decayed_read, decayed_score, decayed_weights
from ..errors import InputError
from ..kernel import kernel_units
from ..memory import SupportVectorMemory
from .compare import Deviation, Rows, Snapshot, Spread, deviation, largest, snapshot, spread
from .outcome import Report
from .regimes import (
    VALUE_DIMENSION,
    Floats,
    Regime,
    audit_contract,
    draw_keys,
    paper_rows,
    trial_generator,
    vitals_for,
)
from .trials import Progress, run_trials
from .vitals import Vitals

REMOVED = 2
FIGURES = ("weights", "score", "readout")
_RATIONAL_ROWS = 64
"""Beyond this many rows a solve in fractions takes minutes."""


@dataclass(frozen=True)
class DeletionTrial:
    """One trial. None: at ridge 0 (no canonical form), or not asked for (``rational_equal``)."""

    number: int
    refits: int
    events: int
    fast_partition_equal: bool
    partition_equal: bool | None
    digest_equal: bool | None
    rational_equal: bool | None
    fast: Deviation
    canonical: Deviation | None
    decay: Deviation


@dataclass(frozen=True)
class DeletionReport(Report):
    """Counts and deviations of all trials of one regime.

    ``fast_*`` compare the state left by add and forget, before any canonical form, with the exact
    optimum; ``canonical_*`` compare the two canonical forms; ``decay_*`` compare coefficient decay
    with the optimum, the weights over all rows (a removed row's should be 0).
    """

    trials: int
    completed: int
    refits: int
    events: int
    fast_partitions_equal: int
    partitions_equal: int | None
    digests_equal: int | None
    rational_trials: int
    rational_equal: int
    fast_weights: Spread | None
    fast_score: Spread | None
    fast_readout: Spread | None
    canonical_weights: Spread | None
    canonical_score: Spread | None
    canonical_readout: Spread | None
    decay_weights: Spread | None
    decay_score: Spread | None
    decay_readout: Spread | None

    @property
    def failures(self) -> list[str]:
        """The checks that failed, one sentence each."""
        found = self.common_failures(self.trials, self.completed, self.refits, self.fast_score)
        if self.ridge > 0 and self.digests_equal != self.completed:
            found.append(f"{self.digests_equal} of {self.completed} digests are equal")
        if self.ridge > 0 and self.partitions_equal != self.completed:
            found.append(f"{self.partitions_equal} of {self.completed} partitions are equal")
        if self.rational_equal != self.rational_trials:
            found.append(
                f"{self.rational_equal} of {self.rational_trials} equal the rational solve"
            )
        for name in FIGURES:
            figure: Spread | None = getattr(self, f"canonical_{name}")
            if figure is not None and figure.worst != 0.0:
                verb = "deviate" if name == "weights" else "deviates"
                found.append(f"canonical {name} {verb} by {figure.worst:.1e}, not 0")
        return found


@dataclass(frozen=True)
class _Setup:
    regime: Regime
    rows: int
    ridge: float
    seed: int
    rational_trials: int
    vitals: Vitals | None


def run_deletion(
    regime: Regime = "gaussian",
    trials: int = 300,
    rows: int | None = None,
    ridge: float = 1e-8,
    seed: int = 0,
    rational_trials: int = 20,
    data: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> DeletionReport:
    """Forget two rows, many times, and compare with memories that never saw them.

    Parameters
    ----------
    regime : "gaussian", "redundant", "duplicate" or "icu"
        Kind of keys, see :func:`svmemory.audit.draw_keys`.
    trials : int
    rows : int, optional
        Rows of each memory before forgetting, >= 3. Default: the paper's, 24, or 40 for "icu".
    ridge : float
        At 0 no canonical form exists: only the fast path is compared, with another memory's.
    seed : int
        Trial ``i`` depends on the seed, the regime and ``i`` alone.
    rational_trials : int
        The first trials that are also solved in fractions; none beyond 64 rows or at ridge 0.
    data : str, optional
        Vitals for "icu", see :func:`svmemory.audit.read_vitals`.
    jobs : int
        Processes.
    progress : callable, optional
        ``progress(done, trials)`` after each trial.

    Returns
    -------
    DeletionReport
        ``passed`` says whether every check held, ``failures`` which did not.
    """
    rows = paper_rows(regime) if rows is None else rows
    if rows <= REMOVED:
        raise InputError(f"rows must be at least {REMOVED + 1}, got {rows}")
    setup = _Setup(regime, rows, ridge, seed, rational_trials, vitals_for(regime, data))
    audit_contract(rows, ridge)  # a bad ridge is the caller's mistake, not 300 failed trials
    draw_keys(regime, trial_generator(regime, seed, 0), rows, 0, setup.vitals)  # so are few data
    results = run_trials(partial(_attempt, setup), trials, jobs, progress)
    done = [result for result in results if isinstance(result, DeletionTrial)]
    problems = [result for result in results if isinstance(result, str)]
    problems += [
        f"trial {trial.number}: digests differ" for trial in done if trial.digest_equal is False
    ]
    return _summary(setup, trials, done, problems)


def _attempt(setup: _Setup, number: int) -> DeletionTrial | str:
    try:
        return deletion_trial(setup, number)
    except Exception as error:  # whatever it is, the trial did not complete: counted and reported
        return f"trial {number}: {type(error).__name__}: {error}"


def deletion_trial(setup: _Setup, number: int) -> DeletionTrial:
    """One trial, from its seed to its verdict."""
    rng = trial_generator(setup.regime, setup.seed, number)
    n = setup.rows
    contract = audit_contract(n, setup.ridge)
    keys = draw_keys(setup.regime, rng, n, 0, setup.vitals)
    rows = Rows(keys, rng.standard_normal((n, VALUE_DIMENSION)))
    removed = np.sort(rng.choice(n, REMOVED, replace=False))
    retained = np.setdiff1d(np.arange(n), removed)
    jitter = 0.1 * rng.standard_normal((len(retained), keys.shape[1]))
    probes = np.concatenate([keys[retained], keys[removed], keys[retained] + jitter])

    memory = rows.memory(contract, rng.permutation(n).tolist())
    gone = [str(i) for i in removed]
    before = memory.copy()
    events = memory.forget(ids=gone).events
    fast = snapshot(memory, probes)  # taken before anything asks for a canonical form

    fresh = rows.memory(contract, rng.permutation(retained).tolist())
    if setup.ridge > 0:
        fresh.canonicalise()
    exact = snapshot(fresh, probes)
    partition_equal = digest_equal = rational_equal = canonical = None
    if setup.ridge > 0:
        memory.canonicalise()
        state = snapshot(memory, probes)
        canonical = deviation(state, exact)
        partition_equal = state.labels == exact.labels
        digest_equal = memory.digest() == fresh.digest()
        if number < setup.rational_trials and n <= _RATIONAL_ROWS:
            rational_equal = _equals_rational_solve(memory)
    return DeletionTrial(
        number=number,
        refits=memory.stats.refits + fresh.stats.refits,
        events=events,
        fast_partition_equal=fast.labels == exact.labels,
        partition_equal=partition_equal,
        digest_equal=digest_equal,
        rational_equal=rational_equal,
        fast=deviation(fast, exact),
        canonical=canonical,
        decay=_decay(before, gone, probes, exact),
    )


def _decay(
    before: SupportVectorMemory, gone: list[str], probes: Floats, exact: Snapshot
) -> Deviation:
    """How far decaying the rows ``gone`` by 0.01 stays from the state without them."""
    weights = zip(before.ids, decayed_weights(before, gone).tolist(), strict=True)
    return Deviation(
        largest(np.array([weight - exact.weights.get(row, 0.0) for row, weight in weights])),
        largest(decayed_score(before, gone, probes) - exact.score),
        largest(decayed_read(before, gone, probes) - exact.readout),
    )


def _equals_rational_solve(memory: SupportVectorMemory) -> bool:
    """Whether masses, mu and labels are, bit for bit, those of a solve in fractions."""
    contract = memory.contract
    kernel = kernel_units(memory.keys, memory.keys, contract.gamma)
    masses, mu, labels = reference.canonical(kernel, contract.ridge_units, contract.mass_units)
    sets = memory.partition
    own = {**dict.fromkeys(sets.margin, "S"), **dict.fromkeys(sets.error, "E")}
    return bool(
        np.array_equal(memory.masses, masses)
        and memory.mu == mu
        and "".join(own.get(i, "R") for i in memory.ids) == labels
    )


def _count(flags: Sequence[bool | None]) -> int:
    return sum(flag is True for flag in flags)


def _summary(
    setup: _Setup, trials: int, done: Sequence[DeletionTrial], problems: Sequence[str]
) -> DeletionReport:
    canonical = [trial.canonical for trial in done if trial.canonical is not None]
    promised = setup.ridge > 0
    return DeletionReport(
        audit="deletion",
        regime=setup.regime,
        rows=setup.rows,
        ridge=setup.ridge,
        seed=setup.seed,
        problems=tuple(problems),
        trials=trials,
        completed=len(done),
        refits=sum(trial.refits for trial in done),
        events=sum(trial.events for trial in done),
        fast_partitions_equal=_count([trial.fast_partition_equal for trial in done]),
        partitions_equal=_count([trial.partition_equal for trial in done]) if promised else None,
        digests_equal=_count([trial.digest_equal for trial in done]) if promised else None,
        rational_trials=sum(trial.rational_equal is not None for trial in done),
        rational_equal=_count([trial.rational_equal for trial in done]),
        fast_weights=spread([trial.fast.weights for trial in done]),
        fast_score=spread([trial.fast.score for trial in done]),
        fast_readout=spread([trial.fast.readout for trial in done]),
        canonical_weights=spread([figure.weights for figure in canonical]),
        canonical_score=spread([figure.score for figure in canonical]),
        canonical_readout=spread([figure.readout for figure in canonical]),
        decay_weights=spread([trial.decay.weights for trial in done]),
        decay_score=spread([trial.decay.score for trial in done]),
        decay_readout=spread([trial.decay.readout for trial in done]),
    )
