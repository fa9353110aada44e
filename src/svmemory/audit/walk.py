"""Follow a planned history of additions and removals, checking the memory after every operation.

The memory under audit is never canonicalised: digests are taken of copies, so that whatever the
fast path gets wrong can add up over the whole history, as it would in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from ..contract import Contract
from ..memory import SupportVectorMemory
from .compare import Rows, Spread, largest, spread
from .outcome import Report
from .regimes import (
    VALUE_DIMENSION,
    Floats,
    Regime,
    audit_contract,
    draw_keys,
    trial_generator,
    vitals_for,
)
from .trials import Progress, run_trials
from .vitals import Vitals

PROBES = 8
"""Points at which the gate score is compared: drawn rows, and as many rows + 0.1 N(0, 1)."""


@dataclass(frozen=True)
class Move:
    """One operation: add or forget the row with this number."""

    verb: Literal["add", "forget"]
    row: int


Plan = Callable[[np.random.Generator, int, int, int], list[Move]]
"""``plan(rng, number, rows, operations)``: the moves of trajectory ``number``."""


@dataclass(frozen=True)
class WalkTrial:
    """One trajectory: operations done and checked, and the first thing that went wrong."""

    operations: int
    refits: int
    digests_equal: int
    scores: tuple[float, ...]
    error: str | None
    first_unequal: str | None


@dataclass(frozen=True)
class WalkReport(Report):
    """Counts of all trajectories of one regime; ``fast_score`` is the fast path's own deviation.

    ``operations`` were done and checked, out of ``operations_planned``; ``digests_equal`` of them
    left a memory with the digest of a fresh one (None at ridge 0).
    """

    trajectories: int
    completed: int
    operations_planned: int
    operations: int
    refits: int
    digests_equal: int | None
    fast_score: Spread | None

    @property
    def failures(self) -> list[str]:
        """The checks that failed, one sentence each."""
        found = self.common_failures(
            self.trajectories, self.completed, self.refits, self.fast_score
        )
        if self.ridge > 0 and self.digests_equal != self.operations:
            found.append(f"{self.digests_equal} of {self.operations} digests are equal")
        return found


@dataclass(frozen=True)
class WalkSetup:
    """What all trajectories of a run share."""

    audit: str
    regime: Regime
    rows: int
    spare: int
    operations: int
    ridge: float
    seed: int
    plan: Plan
    vitals: Vitals | None


def walk_trial(setup: WalkSetup, number: int) -> WalkTrial:
    """One trajectory, from its seed to its verdict."""
    rng = trial_generator(setup.regime, setup.seed, number)
    keys = draw_keys(setup.regime, rng, setup.rows, setup.spare, setup.vitals)
    rows = Rows(keys, rng.standard_normal((len(keys), VALUE_DIMENSION)))
    moves = setup.plan(rng, number, setup.rows, setup.operations)
    drawn = keys[rng.choice(len(keys), PROBES)]
    probes = np.concatenate([drawn, drawn + 0.1 * rng.standard_normal(drawn.shape)])
    contract = audit_contract(setup.rows, setup.ridge)
    held = list(range(setup.rows))
    equal, refits, scores = 0, 0, []
    first_unequal: str | None = None
    problem: str | None = None
    where = "the first rows"
    memory = SupportVectorMemory.from_contract(contract)
    try:
        rows.add(memory, rng.permutation(setup.rows).tolist())
        for step, move in enumerate(moves):
            where = f"operation {step} ({move.verb} row {move.row})"
            if move.verb == "add":
                rows.add(memory, [move.row])
                held.append(move.row)
            else:
                memory.forget(ids=[str(move.row)])
                held.remove(move.row)
            fresh = rows.memory(contract, rng.permutation(held).tolist())
            same, off = _against(memory, fresh, contract, probes)
            equal += same
            scores.append(off)
            refits += fresh.stats.refits
            if not same and setup.ridge > 0 and first_unequal is None:
                first_unequal = f"trajectory {number}: digests differ after {where}"
    except Exception as error:  # whatever it is, the trajectory did not complete
        problem = f"trajectory {number}, {where}: {type(error).__name__}: {error}"
    return WalkTrial(
        operations=len(scores),
        refits=refits + memory.stats.refits,
        digests_equal=equal,
        scores=tuple(scores),
        error=problem,
        first_unequal=first_unequal,
    )


def _against(
    memory: SupportVectorMemory, fresh: SupportVectorMemory, contract: Contract, probes: Floats
) -> tuple[bool, float]:
    """Whether the digests are equal, and the fast path's largest gate-score deviation."""
    if contract.ridge > 0:
        fresh.canonicalise()
    off = largest(memory.score(probes) - fresh.score(probes)) if len(fresh) else 0.0
    return contract.ridge > 0 and memory.copy().digest() == fresh.digest(), off


def run_walks(
    setup: WalkSetup, trajectories: int, jobs: int, progress: Progress | None
) -> WalkReport:
    """Run all trajectories of a setup and add them up."""
    results = run_trials(partial(walk_trial, setup), trajectories, jobs, progress)
    problems = [line for result in results for line in (result.error, result.first_unequal) if line]
    equal = sum(result.digests_equal for result in results)
    return WalkReport(
        audit=setup.audit,
        regime=setup.regime,
        rows=setup.rows,
        ridge=setup.ridge,
        seed=setup.seed,
        problems=tuple(problems),
        trajectories=trajectories,
        completed=sum(result.error is None for result in results),
        operations_planned=trajectories * setup.operations,
        operations=sum(result.operations for result in results),
        refits=sum(result.refits for result in results),
        digests_equal=equal if setup.ridge > 0 else None,
        fast_score=spread([score for result in results for score in result.scores]),
    )


def walk_setup(
    audit: str,
    regime: Regime,
    rows: int,
    spare: int,
    operations: int,
    ridge: float,
    seed: int,
    plan: Plan,
    data: str | None,
) -> WalkSetup:
    """Check the setting before any trajectory starts: bad input is the caller's mistake."""
    vitals = vitals_for(regime, data)
    audit_contract(rows, ridge)
    draw_keys(regime, trial_generator(regime, seed, 0), rows, spare, vitals)
    return WalkSetup(audit, regime, rows, spare, operations, ridge, seed, plan, vitals)
