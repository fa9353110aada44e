"""Selection policies against brute force, scikit-learn and cases made by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.svm import OneClassSVM

from svmemory import SupportVectorMemory
from svmemory.contract import Contract
from svmemory.errors import InputError
from svmemory.selection import POLICIES, WINDOW, Context, select
from svmemory.store.eviction import evictable

GAMMA = 0.5
ORDER_FREE = ("support", "h2o", "h2o_softmax", "self_mass", "k_centre", "facility_location")


def keys_of(seed: int, n: int = 14, d: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def kernel_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-GAMMA * ((x[:, None] - y[None]) ** 2).sum(axis=2))


def context_of(keys: np.ndarray, queries: np.ndarray | None = None, seed: int = 0) -> Context:
    return Context(keys, Contract.from_nu(0.4, max(1, len(keys)), GAMMA), queries, seed)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("n", [0, 1, 5, 12])
def test_every_policy_keeps_the_budget_in_order_and_leaves_its_input(name: str, n: int) -> None:
    keys, queries = keys_of(1, n), keys_of(2, 4)
    before = keys.copy()
    for budget in (0, 1, 4, n, n + 5):
        kept = POLICIES[name](context_of(keys, queries), budget)
        assert kept.dtype.kind == "i"
        assert len(kept) == min(budget, n)
        assert (np.diff(kept) > 0).all()
        assert set(kept.tolist()) <= set(range(n))
    assert np.array_equal(keys, before)


@pytest.mark.parametrize("name", POLICIES)
def test_identical_rows_are_kept_to_the_budget(name: str) -> None:
    context = context_of(np.ones((6, 2)), np.zeros((2, 2)))
    assert len(set(POLICIES[name](context, 4).tolist())) == 4


@pytest.mark.parametrize("name", ORDER_FREE)
def test_order_of_arrival_does_not_matter_where_nothing_ties(name: str) -> None:
    keys, queries = keys_of(3, 20), keys_of(4, 6)
    order = np.random.default_rng(5).permutation(20)
    straight = POLICIES[name](context_of(keys, queries), 7)
    shuffled = POLICIES[name](context_of(keys[order], queries), 7)
    assert sorted(order[shuffled].tolist()) == straight.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_support_is_that_of_scikit_learn(seed: int) -> None:
    keys = keys_of(seed, 40)
    context = context_of(keys)
    peer = OneClassSVM(nu=0.4, gamma=GAMMA, tol=1e-10).fit(keys)
    assert context.support_size == len(peer.support_)
    kept = POLICIES["support"](context, context.support_size)
    assert kept.tolist() == sorted(peer.support_.tolist())


@pytest.mark.parametrize("budget", [0, 3, 9, 17, 25, 40])
def test_support_drops_what_a_store_evicts(budget: int) -> None:
    keys = keys_of(8, 30)
    memory = SupportVectorMemory.from_contract(Contract.from_nu(0.4, 30, GAMMA))
    memory.add(keys)
    memory.canonicalise()
    dropped = {int(row) for row in evictable(memory, budget)}
    kept = POLICIES["support"](context_of(keys), budget)
    assert set(kept.tolist()) == set(range(30)) - dropped


def test_heavy_hitters_have_the_largest_sums() -> None:
    keys, queries = keys_of(10), keys_of(11, 5)
    mass = kernel_of(queries, keys)
    share = mass / mass.sum(axis=1, keepdims=True)
    own = kernel_of(keys, keys).sum(axis=0) - 1.0
    context = context_of(keys, queries)
    for name, sums in (
        ("h2o", mass.sum(axis=0)),
        ("h2o_softmax", share.sum(axis=0)),
        ("self_mass", own),
    ):
        assert POLICIES[name](context, 5).tolist() == sorted(np.argsort(sums)[-5:].tolist()), name


def test_softmax_gives_a_query_for_a_lone_row_its_full_weight() -> None:
    keys = np.array([[0.0]] * 5 + [[3.0]])
    queries = np.array([[0.0], [2.0]])
    # sums of kernel values: five times 1 + exp(-2) against exp(-4.5) + exp(-0.5); by shares the
    # lone row has 0.47 of the second query, and each of the five less than a third in all
    assert POLICIES["h2o"](context_of(keys, queries), 1).tolist() == [0]
    assert POLICIES["h2o_softmax"](context_of(keys, queries), 1).tolist() == [5]


def test_heavy_hitters_need_queries() -> None:
    for name in ("h2o", "h2o_softmax"):
        with pytest.raises(InputError, match=f"{name} needs observed queries"):
            POLICIES[name](context_of(keys_of(0)), 3)


def test_snapkv_keeps_its_window_and_the_neighbours_of_what_it_looks_at() -> None:
    n = 30
    keys = 100.0 * np.arange(n, dtype=float)[:, None]  # rows see themselves only
    keys[-WINDOW:] = keys[6]  # the window asks for row 6
    kept = POLICIES["snapkv"](context_of(keys), WINDOW + 5)
    assert kept.tolist() == [4, 5, 6, 7, 8, *range(n - WINDOW, n)]
    assert POLICIES["snapkv"](context_of(keys), 3).tolist() == [27, 28, 29]


def test_snapkv_with_queries_votes_for_all_rows() -> None:
    keys = 100.0 * np.arange(30, dtype=float)[:, None]
    kept = POLICIES["snapkv"](context_of(keys, keys[[12, 12, 20]]), 5)
    assert kept.tolist() == [10, 11, 12, 13, 14]


def test_recency_keeps_the_last_rows() -> None:
    assert POLICIES["recency"](context_of(keys_of(0, 6)), 2).tolist() == [4, 5]


def test_random_follows_its_seed_and_takes_every_row_alike() -> None:
    keys = keys_of(0, 10)
    draws = [POLICIES["random"](context_of(keys, seed=s), 3).tolist() for s in range(2000)]
    assert draws[7] == POLICIES["random"](context_of(keys, seed=7), 3).tolist()
    counts = np.bincount(np.concatenate(draws), minlength=10)
    assert np.abs(counts - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)


def gonzalez(keys: np.ndarray, start: int, budget: int) -> list[int]:
    chosen = [start]
    while len(chosen) < budget:
        nearest = [min(np.linalg.norm(x - keys[c]) for c in chosen) for x in keys]
        chosen.append(int(np.argmax(nearest)))
    return sorted(chosen)


@pytest.mark.parametrize("seed", range(4))
def test_k_centre_is_the_greedy_rule_within_twice_the_best_radius(seed: int) -> None:
    keys = keys_of(seed, 10, 2)

    def radius(kept: tuple[int, ...] | list[int]) -> float:
        return max(min(np.linalg.norm(x - keys[c]) for c in kept) for x in keys)

    kept = POLICIES["k_centre"](context_of(keys), 3).tolist()
    start = int(kernel_of(keys, keys).sum(axis=0).argmax())
    assert kept == gonzalez(keys, start, 3)
    assert radius(kept) <= 2 * min(radius(c) for c in combinations(range(10), 3)) + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_facility_location_is_greedy_and_near_the_best(seed: int) -> None:
    keys = keys_of(seed, 10, 2)
    kernel = kernel_of(keys, keys)

    def value(kept: list[int] | tuple[int, ...]) -> float:
        return float(kernel[:, list(kept)].max(axis=1).sum())

    chosen: list[int] = []
    for _ in range(3):
        rest = [j for j in range(10) if j not in chosen]
        chosen.append(max(rest, key=lambda j: value([*chosen, j])))
    kept = POLICIES["facility_location"](context_of(keys), 3).tolist()
    assert kept == sorted(chosen)
    best = max(value(c) for c in combinations(range(10), 3))
    assert value(kept) >= (1 - 1 / np.e) * best


def test_select_takes_plain_lists() -> None:
    assert select("recency", [[0.0], [1.0], [2.0]], 1, gamma=1.0, C=1.0).tolist() == [2]
    kept = select("h2o", [[0.0], [1.0], [2.0]], 1, gamma=1.0, C=1.0, queries=[[0.9]])
    assert kept.tolist() == [1]


@pytest.mark.parametrize(
    ("policy", "budget", "queries", "message"),
    [
        ("oldest", 1, None, "no policy 'oldest'"),
        ("recency", -1, None, "budget must be >= 0"),
        ("recency", 1.5, None, "budget must be a whole number"),
        ("h2o", 1, None, "needs observed queries"),
        ("h2o", 1, [[0.0, 1.0]], "queries"),
    ],
)
def test_select_refuses(policy: str, budget: int, queries: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(policy, [[0.0], [1.0]], budget, gamma=1.0, C=1.0, queries=queries)  # type: ignore[arg-type]
