"""The running certificate of a pruned memory is never wrong, and it forgets what leaves."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svmemory import ContractError, InputError, SupportVectorMemory, reference
from svmemory.centre import Centre, carried, square
from svmemory.exactness import MOST
from svmemory.kernel import kernel_units

POOL = 14
GAMMAS = [1e-9, 1e-3, 0.04, 0.25, 1.0, 10.0, 1e6]
CAPS = [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 7, 0.3, 0.17, 2.0, 16.7, 1 / 2.5]
RIDGES = [1e-10, 1e-8, 1e-6, 1e-3, 1.0, 100.0]


def pool(kind: str, d: int, seed: int) -> np.ndarray:
    """Candidate rows: everything that makes an optimum degenerate, and outliers."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, d))
    pick = rng.integers(0, 4, POOL)
    return {
        "lattice": rng.integers(-1, 2, size=(POOL, d)).astype(float),
        "duplicate": centres[pick],
        "near": centres[pick] + 1e-4 * rng.normal(size=(POOL, d)),
        "line": np.linspace(-3, 3, POOL)[:, None] * np.ones(d),
        "gaussian": rng.normal(size=(POOL, d)),
        "outliers": rng.normal(size=(POOL, d)) * rng.choice([1.0, 3.0, 1e3], size=(POOL, 1)),
    }[kind]


class FullHistory:
    """The rows that a pruned memory would hold if it had never pruned, and their exact optimum."""

    def __init__(self, memory: SupportVectorMemory) -> None:
        self.memory = memory
        self.rows = dict(zip(memory.ids, memory.keys, strict=True))

    def add(self, name: str, key: np.ndarray) -> None:
        self.memory.add(key[None], ids=[name])
        self.rows[name] = key

    def forget(self, names: list[str]) -> None:
        self.memory.forget(ids=names)
        self.drop(names)

    def drop(self, names: list[str]) -> None:
        for name in names:
            del self.rows[name]

    @property
    def pruned(self) -> list[str]:
        return [name for name in self.rows if name not in self.memory]

    def slack(self) -> float:
        """Smallest gate-score slack of a pruned row, by plain NumPy."""
        c, absent = self.memory.contract, [self.rows[name] for name in self.pruned]
        if not absent:
            return math.inf
        apart = ((np.array(absent)[:, None] - self.memory.keys) ** 2).sum(axis=2)
        heights = np.exp(-np.minimum(c.gamma * apart, 700.0)) @ self.memory.masses
        return float(2.0 * (heights.min() - self.memory.mu) / c.held_mass(len(self.memory)))

    def equal(self) -> bool:
        """Whether the memory's weights and mu are, to the bit, those of rational arithmetic."""
        keys, c = np.array(list(self.rows.values())), self.memory.contract
        held = dict(zip(self.memory.ids, self.memory.masses.tolist(), strict=True))
        ours = np.array([held.get(name, 0.0) for name in self.rows])
        units = kernel_units(keys, keys, c.gamma)
        b, mu, _ = reference.canonical(units, c.ridge_units, c.mass_units, start=ours)
        return b.tobytes() == ours.tobytes() and mu == self.memory.mu


def check(history: FullHistory) -> bool:
    """The claims of ``exactness()`` against the full history; True if it says "proved"."""
    found = history.memory.exactness()
    if not found.pruned:
        return found.proved
    assert found.proved == (found.since is None) == (found.slack >= 0.0)
    if found.proved:
        assert history.equal()
    if len(history.memory) >= history.memory.contract.mass:
        assert found.slack <= history.slack() + 1e-11
    return found.proved


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, POOL - 1)),
        st.tuples(st.just("forget"), st.integers(0, 20)),
        st.tuples(st.just("forget three"), st.integers(0, 20)),
        st.tuples(st.just("prune"), st.sampled_from([0.0, 1e-3, 0.05, 0.2])),
        # of the full history: a pruned row's owner was forgotten too
        st.tuples(st.just("drop"), st.integers(0, 20)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=2000)
@given(
    kind=st.sampled_from(["lattice", "duplicate", "near", "line", "gaussian", "outliers"]),
    d=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    gamma=st.sampled_from(GAMMAS),
    C=st.sampled_from(CAPS),
    ridge=st.sampled_from(RIDGES),
    first=st.lists(st.integers(0, POOL - 1), min_size=4, max_size=12),
    keep=st.sampled_from([0.0, 0.01, 0.1]),
    history=steps,
)
def test_a_proof_is_never_wrong(kind, d, seed, gamma, C, ridge, first, keep, history):
    keys = pool(kind, d, seed)
    memory = SupportVectorMemory(gamma, C, ridge)
    memory.add(keys[first])
    full = FullHistory(memory)
    memory.prune(keep_slack_below=keep)
    for number, (verb, what) in enumerate(history):
        if verb == "add":
            full.add(f"new {number}", keys[what])
        elif verb == "prune":
            memory.prune(keep_slack_below=what)
        elif verb == "drop" and full.pruned:
            full.drop([full.pruned[what % len(full.pruned)]])
        elif verb.startswith("forget") and len(memory):
            names = memory.ids
            some = {names[(what + 5 * i) % len(names)] for i in range(1 + 2 * ("three" in verb))}
            full.forget(sorted(some))
        check(full)


@pytest.mark.parametrize("gamma", [0.1, 0.5])
@pytest.mark.parametrize("seed", range(12))
def test_greedy_attacks_do_not_break_a_proof(gamma, seed):
    """Each step is the one, of many, that comes closest to making a pruned row matter."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(24, 2))
    memory = SupportVectorMemory(gamma, 1 / 6)
    memory.add(keys)
    full = FullHistory(memory)
    memory.canonicalise()
    slacks = np.sort(memory.score(keys) + 2 * memory.offset - 1)[::-1]
    memory.prune(keep_slack_below=max(float(slacks[4]), 0.0))
    start = full.slack()
    proofs = 0
    for number in range(6):
        options = []
        for _ in range(12):
            near = keys[rng.integers(24)] * rng.choice([0.5, 1.0, 1.5, 3.0])
            trial = memory.copy()
            key = near + 0.3 * rng.normal(size=2)
            if rng.random() < 0.3 and len(trial) > 8:
                key = str(rng.choice(trial.ids))
                trial.forget(ids=key)
            else:
                trial.add(key[None], ids=["x"])
            attempt = FullHistory(trial)
            attempt.rows |= {name: full.rows[name] for name in full.pruned}
            proved = check(attempt)
            proofs += proved
            options.append((not proved, attempt.slack(), len(options), key))
        key = min(options)[-1]
        if isinstance(key, str):
            full.forget([key])
        else:
            full.add(f"x{number}", key)
    assert proofs > 0
    assert full.slack() < start


def test_the_smallest_example_is_not_proved():
    """The third key is in reserve; after the admission a full history gives it weight."""
    memory = SupportVectorMemory(gamma=1 / 25, C=1.0)
    memory.add([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]])
    full = FullHistory(memory)
    assert memory.prune().removed == ["2"]
    before = memory.exactness()
    assert before.proved
    assert (before.pruned, before.since, before.spent) == (1, None, pytest.approx(0.0, abs=1e-9))
    full.add("far", np.array([0.0, -10.0]))
    after = memory.exactness()
    assert not after.proved
    assert after.since == 2  # the second call that changed rows
    assert after.slack < 0.0
    assert after.spent > 1.0
    assert not full.equal()


def stream(n: int, seed: int, nu: float = 0.2) -> tuple[SupportVectorMemory, np.ndarray]:
    """A memory of n Gaussian rows, and as many more."""
    keys = np.random.default_rng(seed).normal(size=(2 * n, 4))
    memory = SupportVectorMemory.from_nu(nu, n, gamma=0.125)
    memory.add(keys[:n], ids=[f"r{i}" for i in range(n)])
    return memory, keys[n:]


def test_proofs_last_and_return():
    """The certificate is of use: it survives changes, and recovers when they are undone."""
    memory, more = stream(150, 0)
    full = FullHistory(memory)
    memory.prune(keep_slack_below=0.2)
    assert len(full.pruned) > 5
    proved = 0
    for i, key in enumerate(more[:12]):
        full.add(f"n{i}", key)
        proved += check(full)
    spent = memory.exactness().spent
    assert proved == 12
    assert 0.0 < spent < 1.0
    full.memory.add(np.full((20, 4), 5.0), ids=[f"far{i}" for i in range(20)])
    lost = memory.exactness()
    assert not lost.proved
    assert lost.since == 14
    memory.add(more[12:13])
    assert memory.exactness().since == 14  # since when, and not at which call it was asked
    memory.forget(ids=[f"far{i}" for i in range(20)])
    again = memory.exactness()
    assert again.proved
    assert again.since is None


def test_forgetting_rows_of_the_centre_keeps_a_proof():
    memory, _ = stream(150, 1)
    full = FullHistory(memory)
    assert memory.prune(keep_slack_below=0.15).removed
    for name in memory.partition.margin[:3]:
        full.forget([name])
        assert check(full)
    assert memory.exactness().spent > 0.0


def test_below_one_over_c_rows_pruned_rows_matter():
    memory = SupportVectorMemory(gamma=0.25, C=1 / 5)
    memory.add(np.random.default_rng(3).normal(size=(20, 2)))
    full = FullHistory(memory)
    assert memory.prune().removed
    full.forget(memory.ids[: len(memory) - 4])
    found = memory.exactness()
    assert (found.proved, found.slack, found.spent) == (False, -math.inf, math.inf)
    assert "1/C" in found.reason
    assert not full.equal()


def test_pruning_takes_only_rows_with_slack():
    memory, _ = stream(80, 2)
    memory.canonicalise()
    keys, reserve = dict(zip(memory.ids, memory.keys, strict=True)), memory.partition.reserve
    c = memory.contract
    slack = {
        name: memory.score(keys[name][None])[0] + 2 * memory.offset - (1 + c.ridge)
        for name in reserve
    }
    level = float(np.median(list(slack.values())))
    result = memory.prune(keep_slack_below=level, digests=True)
    wanted = [name for name in reserve if slack[name] >= level]
    assert set(wanted) - set(result.removed) <= {min(wanted, key=slack.__getitem__)}  # a rounding
    assert set(result.removed) <= set(wanted)
    assert level <= result.slack == pytest.approx(min(slack[n] for n in result.removed), abs=1e-12)
    assert memory.exactness().slack == pytest.approx(result.slack, abs=1e-9)
    fresh = SupportVectorMemory.from_contract(c)
    fresh.add([keys[n] for n in memory.ids[::-1]], ids=memory.ids[::-1])
    assert result.digest_after == memory.digest() == fresh.digest()
    assert memory.prune(keep_slack_below=9.0).removed == []
    assert memory.prune(keep_slack_below=9.0).slack == math.inf


@pytest.mark.parametrize("wrong", [-1e-9, float("nan"), "0.1"])
def test_a_level_that_is_no_slack_is_refused(wrong):
    memory, _ = stream(30, 3)
    before = memory.digest()
    with pytest.raises(InputError, match="keep_slack_below"):
        memory.prune(keep_slack_below=wrong)
    assert memory.digest() == before


def test_nothing_of_a_row_that_left_stays_in_the_certificate():
    memory, more = stream(60, 4)
    keys = dict(zip(memory.ids, memory.keys, strict=True))
    pruned = memory.prune(keep_slack_below=0.05).removed
    memory.add(more[:5], ids=[f"n{i}" for i in range(5)])
    gone = [*memory.partition.margin[:4], *memory.partition.error[:2], "n3"]
    masses = dict(zip(memory.ids, memory.masses, strict=True))
    memory.forget(ids=gone)
    gone += pruned + memory.prune().removed
    kept = pickle.dumps(memory._certificate)
    assert memory.partition.margin[0].encode() in kept  # the search would find an id
    for name in gone:
        assert name.encode() + b"\x94" not in kept
        assert keys.get(name, more[3])[0].tobytes()[::-1] not in kept
        if 0.0 < masses.get(name, 0.0) < 1.0:
            assert masses[name].tobytes()[::-1] not in kept  # pickle writes floats big-endian


def test_the_certificate_is_in_copies_and_in_no_file_or_digest(tmp_path):
    memory, more = stream(60, 5)
    memory.prune()
    memory.add(more[:3], ids=["a", "b", "c"])
    twin = memory.copy()
    assert twin.exactness() == memory.exactness()
    twin.add(np.full((9, 4), 6.0))
    assert not twin.exactness().proved
    assert memory.exactness().since != twin.exactness().since
    fresh = SupportVectorMemory.from_contract(memory.contract)
    fresh.add(memory.keys[::-1], ids=memory.ids[::-1])
    assert fresh.digest() == memory.digest()
    memory.save(tmp_path / "pruned.svm")
    fresh.save(tmp_path / "fresh.svm")
    assert (tmp_path / "pruned.svm").read_bytes() == (tmp_path / "fresh.svm").read_bytes()
    found = SupportVectorMemory.load(tmp_path / "pruned.svm").exactness()
    assert (found.proved, found.pruned, found.slack) == (True, 0, math.inf)
    assert "since this memory was created or loaded" in found.reason


def test_a_failed_change_leaves_the_certificate_as_it_was():
    memory, more = stream(60, 6)
    memory.prune()
    memory.add(more[:2])
    before = memory.exactness()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.forget(ids=memory.partition.margin[:5], progress=stop)
    with pytest.raises(KeyboardInterrupt):
        memory.add(more[5:], progress=stop)
    after = memory.exactness()
    assert after.proved == before.proved
    assert (after.since, after.pruned) == (before.since, before.pruned)
    assert after.slack == pytest.approx(before.slack, abs=1e-9)


def test_many_prunes_are_put_together():
    memory, more = stream(100, 7)
    full = FullHistory(memory)
    memory.prune(keep_slack_below=0.2)
    for i, key in enumerate(more[: 2 * MOST]):
        full.add(f"n{i}", key)
        memory.prune(keep_slack_below=0.02)
        check(full)
    assert memory.exactness().pruned == len(full.pruned) > MOST
    assert len(memory._certificate._anchors) <= MOST


def test_an_emptied_memory_proves_nothing_about_what_follows():
    memory, more = stream(30, 8)
    memory.prune()
    memory.forget(ids=memory.ids)
    assert not memory.exactness().proved
    memory.add(more[:20, :2])  # another width
    assert not memory.exactness().proved


def test_without_a_ridge_there_is_no_certificate():
    memory = SupportVectorMemory(gamma=0.25, C=0.2, ridge=0.0)
    memory.add(np.random.default_rng(9).normal(size=(20, 2)))
    assert memory.prune().removed
    with pytest.raises(ContractError, match="ridge"):
        memory.exactness()


@pytest.mark.parametrize("seed", range(20))
def test_the_floor_under_heights_is_a_floor_and_the_best_of_its_kind(seed):
    """Against many points, and against the smallest product with a unit vector in a cap."""
    rng = np.random.default_rng(seed)
    gamma, d = 0.2, 3
    keys = rng.normal(size=(16, d))
    first = rng.uniform(0, 1, 12)
    second = np.append(first[4:] * rng.uniform(0.6, 1, 8), rng.uniform(0, 0.5, 4))
    old = Centre([str(i) for i in range(12)], keys[:12], first)
    new = Centre([str(i) for i in range(4, 16)], keys[4:], second)
    points = rng.normal(size=(4000, d))

    def heights(centre: Centre) -> np.ndarray:
        apart = ((points[:, None] - centre.keys) ** 2).sum(axis=2)
        return np.exp(-gamma * apart) @ centre.b

    before, after = heights(old), heights(new)
    for share in (0.2, 0.6, 0.95):
        floor = share * math.sqrt(square(old, gamma))
        bound, length = carried(floor, old, square(old, gamma), new, gamma)
        assert share > 0.8 or (before >= floor).sum() > 10
        assert after[before >= floor].min(initial=math.inf) >= bound
        assert square(new, gamma) * (1 - 1e-13) <= length <= square(new, gamma) * (1 + 1e-11)
        # the cap: unit vectors at an angle of at most arccos(share) from the old centre
        k = np.exp(-gamma * ((keys[:, None] - keys) ** 2).sum(axis=2))
        x, y = np.append(first, np.zeros(4)), np.append(np.zeros(4), second)
        along = (x @ k @ y) / math.sqrt(x @ k @ x)
        across = math.sqrt(y @ k @ y - along**2)
        lowest = along * share - across * math.sqrt(1 - share**2)
        assert share < 0.9 or lowest > 0.0
        assert bound == pytest.approx(max(lowest, 0.0), rel=1e-6, abs=1e-6)
