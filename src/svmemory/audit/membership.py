"""Audit that nobody who may ask the memory can tell that a forgotten record was ever in it.

The game: a memory holds random records of a pool, one record is in or is not, and the attacker may
ask for the gate score and the readout at that record's key (:mod:`svmemory.audit.lira`). He knows
the pool, the contract and what was done to the record, and has memories of his own. Four cases
stand against a memory that never saw the record:

* present: the record is there. The control: the test must be able to find it.
* forgotten: it was there, and ``forget`` took it out.
* decay: its weight was multiplied by 0.01, as many systems do (:mod:`svmemory.decay`).
* zeroed: its weight was set to 0 and nothing solved again.

Every draw splits the pool in two memories of random halves, so that each record is in one of them.
A quarter of the draws are the attacker's worlds without the record, another quarter his worlds with
it, and the rest is the test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..contract import Contract
from ..decay import decayed_read, decayed_score
from ..errors import InputError
from ..memory import SupportVectorMemory
from .compare import Rows, Spread, largest, spread
from .lira import Outcome, log_ratio, outcome
from .outcome import SCORE_LIMIT, Report
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

CASES = ("present", "forgotten", "decay", "zeroed")
OUTPUTS = ("score", "readout", "both")
LEAST_DRAWS = 8  # two worlds of each kind to fit a distribution to

_WORLDS = ("never", *CASES)
_NEAREST = 1e-12  # distances below this are as good as none
_WITHOUT, _WITH = 0, 1  # draws of these remainders by 4 are the attacker's


@dataclass(frozen=True)
class Attack:
    """What the test finds in one case from one kind of output ("score", "readout" or "both")."""

    case: str
    outputs: str
    found: Outcome


@dataclass(frozen=True)
class MembershipReport(Report):
    """Outcome of the membership test in one regime.

    ``rows`` are those of each memory, of a pool of ``records`` = 2 ``rows``. Of the ``forgotten``
    records (each in each draw), ``digests_equal`` left a memory with the digest of one that never
    saw the record, and ``identical`` one whose scores and readouts at all keys of the pool have the
    same bytes. ``fast_score`` is how far the state that ``forget`` leaves is from its canonical
    form. ``tests`` is the number of members, and of others, behind each of ``attacks``.
    """

    records: int
    draws: int
    completed: int
    forgotten: int
    digests_equal: int
    identical: int
    tests: int
    fast_score: Spread | None
    attacks: tuple[Attack, ...]

    def attack(self, case: str, outputs: str = "both") -> Outcome:
        """The figures of one case."""
        return next(a.found for a in self.attacks if (a.case, a.outputs) == (case, outputs))

    @property
    def failures(self) -> list[str]:
        """The checks that failed, one sentence each; decay and zeroing are shown, not checked."""
        found = []
        if self.completed != self.draws:
            found.append(f"{self.completed} of {self.draws} draws completed")
        for name in ("digests_equal", "identical"):
            count = getattr(self, name)
            if count != self.forgotten:
                found.append(f"{count} of {self.forgotten} {name.replace('_', ' ')}")
        if self.fast_score is not None and not self.fast_score.worst <= SCORE_LIMIT:
            found.append(f"the fast path's gate score is off by {self.fast_score.worst:.1e}")
        if self.attacks:
            for outputs in OUTPUTS:
                area = self.attack("forgotten", outputs).auc.value
                if area != 0.5:
                    found.append(f"a forgotten record is found by {outputs}: AUC {area:.4f}")
            if not self.attack("present").auc.low > 0.5:
                found.append("the control failed: not even a record that is there is found")
        return found


@dataclass(frozen=True)
class _Setup:
    pool: Rows
    contract: Contract
    regime: Regime
    seed: int


@dataclass(frozen=True)
class _Draw:
    """One draw: numbers[w, j] are score and closeness at record j in world w of _WORLDS."""

    number: int
    numbers: NDArray[np.float64]  # (5, records, 2)
    digests_equal: int
    identical: int
    fast: float


def run_membership(
    regime: Regime = "gaussian",
    draws: int = 64,
    rows: int = 32,
    ridge: float = 1e-8,
    seed: int = 0,
    data: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> MembershipReport:
    """Try to tell forgotten records from records that a memory never saw.

    Parameters
    ----------
    regime, ridge, seed, data, jobs, progress
        As in :func:`svmemory.audit.run_deletion`; the ridge must not be 0.
    draws : int
        Pairs of memories, at least 8; half of them are the test.
    rows : int
        Rows of each memory, at least 4.

    Returns
    -------
    MembershipReport
        ``passed`` if forgotten records give the outputs of records never seen, to the byte, and
        records that are there are found.
    """
    if rows < 4:
        raise InputError(f"rows must be at least 4, got {rows}")
    if draws < LEAST_DRAWS:
        raise InputError(f"draws must be at least {LEAST_DRAWS}, got {draws}")
    contract = audit_contract(rows, ridge)
    if ridge == 0.0:
        raise InputError("without a ridge the optimum is not unique, and no outputs are promised")
    rng = trial_generator(regime, seed, 0)
    keys = draw_keys(regime, rng, 2 * rows, 0, vitals_for(regime, data))
    pool = Rows(keys, rng.standard_normal((2 * rows, VALUE_DIMENSION)))
    setup = _Setup(pool, contract, regime, seed)
    results = run_trials(partial(_attempt, setup), draws, jobs, progress)
    done = [result for result in results if isinstance(result, _Draw)]
    problems = [result for result in results if isinstance(result, str)]
    problems += [
        f"draw {one.number}: {2 * rows - one.identical} of {2 * rows} forgotten records show"
        for one in done
        if one.identical != 2 * rows
    ]
    complete = len(done) == draws
    return MembershipReport(
        audit="membership",
        regime=regime,
        rows=rows,
        ridge=ridge,
        seed=seed,
        problems=tuple(problems),
        records=2 * rows,
        draws=draws,
        completed=len(done),
        forgotten=2 * rows * len(done),
        digests_equal=sum(one.digests_equal for one in done),
        identical=sum(one.identical for one in done),
        tests=2 * rows * len(_test_draws(draws)),
        fast_score=spread([one.fast for one in done]),
        # A draw that is missing is missing from one side of the test.
        attacks=_attacks(np.stack([one.numbers for one in done])) if complete else (),
    )


def _test_draws(draws: int) -> list[int]:
    return [number for number in range(draws) if number % 4 not in (_WITHOUT, _WITH)]


def _attempt(setup: _Setup, number: int) -> _Draw | str:
    try:
        return _draw(setup, number)
    except Exception as error:  # one bad draw must be reported, and must not end the audit
        return f"draw {number}: {type(error).__name__}: {error}"


def _draw(setup: _Setup, number: int) -> _Draw:
    pool = setup.pool
    records = len(pool.keys)
    # Number 0 drew the pool.
    rng = trial_generator(setup.regime, setup.seed, number + 1)
    order = rng.permutation(records)
    numbers = np.empty((len(_WORLDS), records, 2))
    digests_equal = identical = 0
    fast = 0.0
    for half in (order[: records // 2], order[records // 2 :]):
        present = pool.memory(setup.contract, half.tolist())
        present.canonicalise()
        for record in half.tolist():
            others = rng.permutation(half[half != record]).tolist()
            never = pool.memory(setup.contract, others)
            never.canonicalise()
            forgot = present.copy()
            forgot.forget(ids=str(record))
            at_once = forgot.score(pool.keys)
            digests_equal += forgot.digest() == never.digest()  # both are canonical from here on
            after = forgot.score(pool.keys)
            fast = max(fast, largest(at_once - after))
            same = after.tobytes() == never.score(pool.keys).tobytes()
            readouts = (one.read(pool.keys).tobytes() for one in (forgot, never))
            identical += same and len(set(readouts)) == 1
            numbers[:, record] = [
                _numbers(never, pool, record),
                _numbers(present, pool, record),
                _numbers(forgot, pool, record),
                _decayed(present, pool, record, 0.01),
                _decayed(present, pool, record, 0.0),
            ]
    return _Draw(number, numbers, digests_equal, identical, fast)


def _numbers(memory: SupportVectorMemory, pool: Rows, record: int) -> tuple[float, float]:
    key = pool.keys[record : record + 1]
    return float(memory.score(key)[0]), _closeness(memory.read(key)[0], pool.values[record])


def _decayed(
    memory: SupportVectorMemory, pool: Rows, record: int, factor: float
) -> tuple[float, float]:
    key, ids = pool.keys[record : record + 1], [str(record)]
    readout = decayed_read(memory, ids, key, factor)[0]
    score = float(decayed_score(memory, ids, key, factor)[0])
    return score, _closeness(readout, pool.values[record])


def _closeness(readout: Floats, value: Floats) -> float:
    """Minus the logarithm of the distance of a readout from the record's own value."""
    return -math.log(max(float(np.linalg.norm(readout - value)), _NEAREST))


def _attacks(numbers: NDArray[np.float64]) -> tuple[Attack, ...]:
    """The test in every case, from ``numbers`` of all draws: (draws, worlds, records, 2)."""
    draws = np.arange(len(numbers))
    without, with_ = numbers[draws % 4 == _WITHOUT], numbers[draws % 4 == _WITH]
    tests = numbers[_test_draws(len(numbers))]
    never = _WORLDS.index("never")
    found = []
    for case in CASES:
        world = _WORLDS.index(case)
        ratios = {
            one: np.concatenate(
                [
                    log_ratio(tests[:, one, j], with_[:, world, j], without[:, never, j])
                    for j in range(numbers.shape[2])
                ]
            )
            for one in (world, never)
        }
        for k, outputs in enumerate(OUTPUTS):
            members, others = (_combined(ratios[one], k) for one in (world, never))
            found.append(Attack(case, outputs, outcome(members, others)))
    return tuple(found)


def _combined(ratios: Floats, k: int) -> Floats:
    return ratios.sum(axis=1) if OUTPUTS[k] == "both" else ratios[:, k]
