"""No k admissions make a row matter that ``plan(k)`` calls droppable, whoever chooses them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from svmemory import ContractError, InputError, SupportVectorMemory, reference
from svmemory.contract import Contract
from svmemory.kernel import gaussian_kernel

Keys = np.ndarray


def optimum(keys: Keys, contract: Contract) -> tuple[np.ndarray, float]:
    """Masses and mu by the slow solver."""
    kernel = gaussian_kernel(keys, keys, contract.gamma)
    solution = reference.solve(kernel, contract.ridge, contract.mass)
    return solution.masses, solution.mu


def slack_at(points: Keys, keys: Keys, contract: Contract) -> np.ndarray:
    """Gate-score slack that points without weight have in the optimum over ``keys``."""
    masses, mu = optimum(keys, contract)
    return 2.0 * (gaussian_kernel(points, keys, contract.gamma) @ masses - mu) / contract.mass


def admissions(keys: Keys, victim: Keys, k: int, rng: np.random.Generator) -> list[Keys]:
    """Sets of k keys of every kind that might hurt the victim."""
    d, spread = keys.shape[1], np.abs(keys).max()
    extreme = keys[np.argmax(keys @ rng.normal(size=d))]
    away = victim - keys.mean(axis=0) + 1e-3 * rng.normal(size=d)
    return [
        spread * rng.normal(size=(k, d)),
        1e6 * rng.normal(size=(k, d)),  # no kernel with anything
        np.repeat(extreme[None], k, axis=0),
        np.repeat(extreme[None] * rng.uniform(1, 2), k, axis=0),
        extreme + 1e-3 * rng.normal(size=(k, d)),
        victim + rng.normal(size=(k, d)) * rng.uniform(0.1, 2),
        np.repeat((victim + away * rng.uniform(0, 6))[None], k, axis=0),
        np.repeat((victim - away * rng.uniform(0, 6))[None], k, axis=0),
    ]


@pytest.mark.parametrize(("k", "mass"), [(1, 40), (1, 30), (2, 60), (3, 90)])
@pytest.mark.parametrize("seed", range(3))
def test_a_search_for_the_worst_admissions_finds_none(seed, k, mass):
    """Random, far, duplicate and aimed admissions, then descent from the worst of them."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(150, 3))
    memory = SupportVectorMemory(gamma=0.15, C=1 / mass)
    memory.add(keys)
    drop = np.array([int(name) for name in memory.plan(k).droppable])
    assert len(drop) > 0
    before = slack_at(keys[drop], keys, memory.contract)
    victim = keys[drop[before.argmin()]]
    worst, hurt = math.inf, np.zeros((k, 3))
    for attempt in range(12):
        tries = admissions(keys, victim, k, rng)
        if attempt >= 4:
            tries = [hurt + 0.6 ** (attempt - 3) * rng.normal(size=(k, 3)) for _ in range(8)]
        for admitted in tries:
            # every row is there, so a droppable one would get weight if it could
            masses, _ = optimum(np.vstack([keys, admitted]), memory.contract)
            assert np.all(masses[drop] == 0.0)
            least = slack_at(keys[drop], np.vstack([keys, admitted]), memory.contract).min()
            assert least >= 0.0
            if least < worst:
                worst, hurt = least, admitted
    assert worst < before.min()  # the search does hurt, though not enough


@settings(max_examples=400)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 16),
    d=st.integers(1, 3),
    lattice=st.booleans(),
    gamma=st.sampled_from([1e-3, 0.05, 0.25, 1.0, 10.0]),
    mass=st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0]),
    ridge=st.sampled_from([1e-8, 1e-3, 0.1, 1.0, 100.0]),
    k=st.integers(1, 4),
)
def test_the_slack_of_no_reserve_row_falls_by_more_than_the_threshold(
    seed, n, d, lattice, gamma, mass, ridge, k
):
    """Without any reserve row: each of them, droppable or not, is a victim. And the step is short.

    The step is the distance of the two optima in the feature space of the kernel with its ridge.
    """
    assume(n > mass)
    rng = np.random.default_rng(seed)
    keys = rng.integers(-1, 2, size=(n, d)).astype(float) if lattice else rng.normal(size=(n, d))
    memory = SupportVectorMemory(gamma, 1 / mass, ridge)
    memory.add(keys)
    contract, threshold = memory.contract, memory.plan(k).threshold
    reserve = np.array([int(name) for name in memory.partition.reserve], int)
    active = np.setdiff1d(np.arange(n), reserve)
    before = slack_at(keys[reserve], keys[active], contract)
    longest = threshold * contract.mass / (2 * math.sqrt(2 + contract.ridge))
    for admitted in admissions(keys, keys[reserve[0] if len(reserve) else 0], k, rng):
        rows = np.vstack([keys[active], admitted])
        masses, _ = optimum(rows, contract)
        step = masses - np.append(memory.masses[active], np.zeros(k))
        q = gaussian_kernel(rows, rows, gamma) + contract.ridge * np.eye(len(rows))
        assert step @ q @ step <= longest**2 + 1e-12
        after = slack_at(keys[reserve], rows, contract)
        assert np.all(after >= before - threshold - 1e-12)


def test_the_step_can_be_as_long_as_the_bound_says():
    """Two far rows push all the mass off another two: nothing smaller would do."""
    keys = np.array([[0.0], [1e-3], [2e-3]])
    contract = Contract(gamma=1.0, mass=1.0, ridge=1e-3)
    memory = SupportVectorMemory.from_contract(contract)
    memory.add(keys)
    rows = np.vstack([keys, [[50.0], [-50.0], [90.0]]])
    masses, _ = optimum(rows, contract)
    step = masses - np.append(memory.masses, np.zeros(3))
    q = gaussian_kernel(rows, rows, 1.0) + contract.ridge * np.eye(6)
    longest = memory.plan(3).threshold / (2 * math.sqrt(2 + contract.ridge))
    assert longest**2 > step @ q @ step > 0.7 * longest**2


def test_a_planned_prune_is_proved_through_all_k_admissions():
    """``exactness()`` agrees with the plan, whatever is admitted or forgotten of the new rows."""
    rng = np.random.default_rng(5)
    keys = rng.normal(size=(400, 3))
    memory = SupportVectorMemory(gamma=0.15, C=1 / 160)
    memory.add(keys, ids=[f"r{i}" for i in range(400)])
    plan = memory.plan(4)
    assert memory.prune(keep_slack_below=plan.threshold).removed == plan.droppable
    assert len(memory) == plan.kept == 400 - len(plan.droppable) < 380
    memory.add([[9.0, 9.0, 9.0]])
    assert memory.exactness().proved
    memory.add(np.repeat(keys[keys[:, 0].argmax()][None] * 1.5, 2, axis=0))
    memory.forget(ids=memory.ids[-1])
    memory.forget(ids=memory.partition.reserve[:3])
    memory.add([[-9.0, 9.0, -9.0]])
    found = memory.exactness()
    assert found.proved
    assert found.spent > 0.0


def test_the_threshold_is_the_formula():
    """Its two branches, by hand: ``mu`` and the mass are all it needs."""
    memory = SupportVectorMemory(gamma=0.15, C=1 / 20, ridge=1e-3)
    memory.add(np.random.default_rng(6).normal(size=(60, 3)))
    memory.canonicalise()
    r, mu = memory.contract.ridge, memory.mu
    for k in (1, 2, 10, 1000):
        kappa = min(k, 20)
        longest = min(math.sqrt(kappa * mu), math.sqrt(2 * kappa * (kappa + r)))
        wanted = 2 * math.sqrt(2 + r) * longest / 20
        assert wanted <= memory.plan(k).threshold <= wanted + 1e-5
    assert memory.plan(1000).threshold == memory.plan(20).threshold


def test_no_admission_leaves_every_reserve_row_droppable():
    memory = SupportVectorMemory(gamma=0.15, C=1 / 20)
    memory.add(np.random.default_rng(7).normal(size=(60, 2)))
    plan = memory.plan(0)
    assert (plan.k, plan.threshold) == (0, 0.0)
    assert plan.droppable == memory.partition.reserve
    assert plan.kept == 60 - len(plan.droppable)


def test_in_warm_up_no_row_is_droppable():
    memory = SupportVectorMemory(gamma=0.15, C=1 / 20)
    empty = memory.plan(1)
    assert (empty.threshold, empty.droppable, empty.kept) == (math.inf, [], 0)
    memory.add(np.random.default_rng(8).normal(size=(19, 2)))
    plan = memory.plan(1)
    assert (plan.threshold, plan.droppable, plan.kept) == (math.inf, [], 19)
    assert memory.prune(keep_slack_below=plan.threshold).removed == []


@pytest.mark.parametrize("wrong", [-1, 1.0, "2", True, None])
def test_a_number_of_admissions_that_is_none_is_refused(wrong):
    memory = SupportVectorMemory(gamma=0.15, C=1 / 20)
    with pytest.raises(InputError, match="admissions"):
        memory.plan(wrong)


def test_without_a_ridge_there_is_no_plan():
    memory = SupportVectorMemory(gamma=0.15, C=1 / 20, ridge=0.0)
    memory.add(np.random.default_rng(9).normal(size=(60, 2)))
    with pytest.raises(ContractError, match="ridge"):
        memory.plan(1)
