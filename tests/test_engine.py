"""The maintained active set: its parts against NumPy, its bounds against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from svmemory import ConvergenceError, reference
from svmemory.contract import Contract
from svmemory.engine import Engine, canonical, engine, factor, state, storage
from svmemory.kernel import gaussian_kernel, kernel_units


def grow(keys, contract):
    e = Engine(contract, keys.shape[1])
    return e, np.concatenate([e.insert(key[None]) for key in keys])


def regimes():
    rng = np.random.default_rng(3)
    return {
        "gaussian": rng.normal(size=(60, 3)),
        "duplicate": np.repeat(rng.normal(size=(6, 3)), 10, axis=0),
        "redundant": np.repeat(2 * rng.normal(size=(4, 3)), 15, axis=0)
        + 0.02 * rng.normal(size=(60, 3)),
        "lattice": np.array(np.meshgrid(*[np.arange(4.0)] * 3)).reshape(3, -1).T[:60],
    }


def test_factor_follows_appends_and_deletes():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(40, 40))
    matrix = a @ a.T + np.eye(40)
    U, work = np.zeros((50, 50)), np.zeros(50)
    rows: list[int] = []
    for step in range(300):
        if len(rows) == 40 or (rows and rng.random() < 0.4):
            q = int(rng.integers(len(rows)))
            factor.delete(U, len(rows), q)
            del rows[q]
        else:
            new = int(rng.choice(sorted(set(range(40)) - set(rows))))
            column = np.zeros(50)
            column[: len(rows)] = matrix[rows, new]
            factor.append(U, len(rows), column, matrix[new, new], work)
            rows.append(new)
        s = len(rows)
        part = matrix[np.ix_(rows, rows)]
        assert_allclose(U[:s, :s].T @ U[:s, :s], part, atol=1e-10, err_msg=str(step))
        x = np.arange(1.0, 51.0)
        factor.solve(U, s, x)
        assert_allclose(part @ x[:s], np.arange(1.0, s + 1), atol=1e-8)


@pytest.fixture(autouse=True, params=["watched", "mileage"])
def reserve_rows(request, monkeypatch):
    """Every test with reserve rows watched, and with reserve rows looked at when they are due."""
    if request.param == "mileage":
        monkeypatch.setattr(storage, "MOST_WATCHED", 0)
    return request.param


def check_state(e, slots, keys):
    """Everything the engine maintains, recomputed from the keys."""
    s, c = e._state, e.contract
    n = len(keys)
    kernel = gaussian_kernel(keys, keys, c.gamma)
    units = kernel_units(keys, keys, c.gamma)
    b, codes = e.masses(slots), e.codes(slots)
    h = kernel @ b + c.ridge * b
    tolerance = 1e-12 * (c.held_mass(n) + 1)
    assert abs(b.sum() - c.held_mass(n)) < tolerance
    assert (b[codes == state.RESERVE] == 0).all()
    assert (b[codes == state.ERROR] == 1).all()
    assert_allclose(h[codes == state.MARGIN], e.mu, rtol=0, atol=tolerance)
    assert (h[codes == state.ERROR] <= e.mu + tolerance).all()
    assert (h[codes == state.RESERVE] >= e.mu - tolerance).all()
    error_sums = units[:, codes == state.ERROR].astype(object).sum(axis=1)
    for slot, total, height in zip(slots.tolist(), error_sums, h, strict=True):
        p = s.place[slot]
        if p < 0:  # the mileage is a proof: the slack is at least what the odometer leaves
            assert height - e.mu >= s.due[slot] - s.odometer[s.region[slot]]
            continue
        assert abs(s.h[p] - height) < tolerance
        assert (int(s.high[p]) << 26) + int(s.low[p]) == int(total)
    margin = s.margin[: s.tally[state.MARGINS]]
    held = [int(np.flatnonzero(slots == s.slot[p])[0]) for p in margin]
    active = [int(np.flatnonzero(slots == slot)[0]) for slot in s.slot[: s.tally[state.ACTIVE]]]
    for p, i in zip(margin, held, strict=True):
        assert (s.P[s.owner[p], : len(active)] == kernel[i, active]).all()
    U = s.U[: len(held), : len(held)]
    expected = kernel[np.ix_(held, held)] + c.ridge * np.eye(len(held))
    assert_allclose(np.triu(U).T @ np.triu(U), expected, atol=1e-11)


@pytest.mark.parametrize("name", sorted(regimes()))
@pytest.mark.parametrize("mass", [12.0, 12.5, 1.0, 0.06])
def test_everything_maintained_is_right_after_every_operation(name, mass):
    keys = regimes()[name]
    rng = np.random.default_rng(5)
    e = Engine(Contract(0.25, mass, 1e-8), 3)
    held: dict[int, int] = {}
    for row in [*range(40), *rng.integers(0, 60, size=160).tolist()]:
        if row in held:
            e.remove(np.array([held.pop(row)]))
        else:
            held[row] = int(e.insert(keys[[row]])[0])
        rows = list(held)
        if rows:
            check_state(e, np.array([held[r] for r in rows]), keys[rows])
    assert e.stats.refits == 0


@pytest.mark.parametrize("name", sorted(regimes()))
def test_watching_begins_and_ends_with_the_number_of_rows(monkeypatch, name):
    keys = regimes()[name]
    monkeypatch.setattr(storage, "MOST_WATCHED", 24)
    monkeypatch.setattr(storage, "WATCHED", 0)
    e = Engine(Contract(0.25, 6.0, 1e-8), 3)
    slots, seen = [], []
    for i in range(60):
        slots.append(int(e.insert(keys[[i]])[0]))
        seen.append(bool(e._state.tally[state.WATCH]))
        check_state(e, np.array(slots), keys[: i + 1])
    assert seen == [True] * 36 + [False] * 24  # it ends at half as many again
    for i in range(59, 0, -1):
        e.remove(np.array([slots.pop()]))
        assert bool(e._state.tally[state.WATCH]) == (i <= 24)
        check_state(e, np.array(slots), keys[:i])
    assert e.stats.refits == 0


def test_drain_and_refill_through_warm_up():
    keys = regimes()["gaussian"]
    e, slots = grow(keys, Contract(0.25, 20.5, 1e-8))
    alive = list(range(60))
    for row in np.random.default_rng(1).permutation(60).tolist():
        e.remove(slots[[row]])
        alive.remove(row)
        if alive:
            check_state(e, slots[alive], keys[alive])
    assert len(e) == 0
    again = e.insert(keys)
    check_state(e, again, keys)
    assert e.stats.refits == 0


def test_fast_path_matches_rational_arithmetic():
    for name, keys in regimes().items():
        contract = Contract(0.25, 12.0, 1e-8)
        e, slots = grow(keys, contract)
        units = kernel_units(keys, keys, 0.25)
        b, mu, labels = reference.canonical(units, contract.ridge_units, contract.mass_units)
        kernel = units / 2.0**52
        assert abs(e.mu - mu) < 1e-11, name
        assert np.abs(kernel @ (e.masses(slots) - b)).max() < 1e-11, name
        e.canonicalise()
        assert e.masses(slots).tobytes() == b.tobytes()
        assert e.mu == mu
        code = {state.RESERVE: "R", state.MARGIN: "S", state.ERROR: "E"}
        assert "".join(code[c] for c in e.codes(slots).tolist()) == labels


def test_engine_and_dense_canonical_forms_agree_at_a_size_that_fractions_cannot_reach():
    rng = np.random.default_rng(11)
    keys = rng.normal(size=(300, 4))
    contract = Contract(0.3, 90.0, 1e-8)
    e, slots = grow(keys, contract)
    e.canonicalise()
    p = rng.permutation(300)
    units = kernel_units(keys[p], keys[p], 0.3)
    start = np.clip(e.masses(slots)[p] + 1e-3 * rng.normal(size=300), 0, 1)
    b, mu, _ = canonical(units, contract.ridge_units, contract.mass_units, start=start)
    assert b.tobytes() == e.masses(slots)[p].tobytes()
    assert mu == e.mu


def test_reserve_rows_are_cheap(reserve_rows):
    rng = np.random.default_rng(2)
    e, _ = grow(rng.normal(size=(200, 3)), Contract(0.25, 10.0, 1e-8))
    active = int(e._state.tally[state.ACTIVE])
    before = e.stats
    slot = e.insert(np.zeros((1, 3)))  # the middle: redundant
    assert e.codes(slot)[0] == state.RESERVE
    assert e.stats.since(before).reserve_checks == 1
    assert e.stats.since(before).events == 0
    assert int(e._state.tally[state.ACTIVE]) == active + (reserve_rows == "watched")


def test_no_array_grows_with_the_square_of_the_rows():
    rng = np.random.default_rng(2)
    e, _ = grow(rng.normal(size=(3000, 2)), Contract(0.25, 20.0, 1e-8))
    assert max(array.size for array in e._state) < 5 * 3000
    assert not e._state.tally[state.WATCH]


@pytest.mark.parametrize("direction", ["insert", "remove"])
def test_a_lost_path_ends_at_the_optimum_and_is_counted(direction):
    keys = regimes()["gaussian"]
    e, slots = grow(keys, Contract(0.25, 12.5, 1e-8))
    e.remove(slots[[59]])
    victim = int(e.active_slots()[0])
    e._state.value[state.PATIENCE] = -1e9  # no walk may take a single step
    if direction == "insert":
        slots[59] = e.insert(keys[[59]] * 3)[0]
        keys = np.vstack([keys[:59], keys[59] * 3])
        rows = list(range(60))
    else:
        e.remove(np.array([victim]))
        rows = [i for i in range(59) if slots[i] != victim]
    assert e.stats.refits == 1
    check_state(e, slots[rows], keys[rows])


def test_wiped_slots_keep_no_key():
    keys = regimes()["gaussian"]
    e, slots = grow(keys, Contract(0.25, 12.5, 1e-8))
    for slot in slots[:30]:
        e.remove(np.array([slot]))
    for key in keys[:30]:
        for array in (e._state.keys, e._state.near.T):
            assert not (array == key).all(axis=1).any()


def test_an_unreachable_optimum_raises(monkeypatch):
    e, _ = grow(regimes()["gaussian"], Contract(0.25, 12.5, 1e-8))

    def stuck(s, slots, done):
        s.tally[state.PHASE] = state.SETTLING
        return done, engine.LOST

    monkeypatch.setattr(engine, "insert_rows", stuck)
    with pytest.raises(ConvergenceError, match="larger ridge"):
        e.insert(np.full((1, 3), 9.0))
    assert not e.consistent


@pytest.mark.parametrize("name", sorted(regimes()))
@pytest.mark.parametrize("mass", [12.0, 12.5, 0.06, 59.0, 60.0, 100.0])
def test_a_build_ends_where_one_by_one_ends(monkeypatch, name, mass):
    keys = regimes()[name]
    contract = Contract(0.25, mass, 1e-8)
    one, slots = grow(keys, contract)
    monkeypatch.setattr(engine, "BULK", 1)
    built = Engine(contract, 3)
    order = np.random.default_rng(8).permutation(60)
    first = built.insert(keys[order[:20]])
    places = np.concatenate([first, built.insert(keys[order[20:]])])
    check_state(built, places, keys[order])
    assert built.stats.events == 0  # nothing was walked
    one.canonicalise()
    built.canonicalise()
    assert built.masses(places).tobytes() == one.masses(slots[order]).tobytes()
    assert built.mu == one.mu


@pytest.mark.parametrize("name", sorted(regimes()))
@pytest.mark.parametrize("mass", [12.0, 12.5, 0.06, 30.0])
def test_many_removed_at_once_are_as_gone_as_one_by_one(monkeypatch, name, mass):
    keys = regimes()[name]
    contract = Contract(0.25, mass, 1e-8)
    monkeypatch.setattr(engine, "BULK_ACTIVE", 1)
    e, slots = grow(keys, contract)
    e.remove(slots[:25])
    check_state(e, slots[25:], keys[25:])
    kept = {key.tobytes() for key in keys[25:]} | {np.zeros(3).tobytes()}
    for key in keys[:25]:
        found = (e._state.keys == key).all(axis=1).any()
        assert not found or key.tobytes() in kept
    fresh, places = grow(keys[25:], contract)
    e.canonicalise()
    fresh.canonicalise()
    assert e.masses(slots[25:]).tobytes() == fresh.masses(places).tobytes()
    again = e.insert(keys[:25])  # freed slots serve again
    check_state(e, np.concatenate([again, slots[25:]]), keys)


def test_no_kernel_value_of_a_row_that_left_stays_behind():
    rng = np.random.default_rng(6)
    keys = rng.normal(size=(40, 3))
    for mass in (12.5, 60.0):  # with and without warm-up
        e, slots = grow(keys, Contract(0.25, mass, 1e-8))
        for i in range(0, 30):
            e.remove(slots[[i]])
        gone = gaussian_kernel(keys[:30], keys, 0.25)
        gone = set(gone[gone < 1].tolist()) - set(
            gaussian_kernel(keys[30:], keys[30:], 0.25).ravel().tolist()
        )
        kept = np.concatenate([e._state.P.ravel(), e._state.column])
        assert not gone & set(kept.tolist())
