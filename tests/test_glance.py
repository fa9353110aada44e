"""Regions and glances: what they bound, against kernels computed anew."""

import numpy as np
import pytest
from numba import njit

from svmemory import Contract
from svmemory.engine import Engine, state, storage
from svmemory.engine.glance import due_rows, glance, new_part
from svmemory.kernel import gaussian_kernel

GAMMA = 0.25


@njit
def glance_at_all(s, length, slacks, slopes):
    """Bounds on every due row's slack and slope where a glance gives them; NaN elsewhere."""
    due = due_rows(s, length)
    part = new_part(s, len(due))
    for slot in due:
        if glance(s, part, slot):
            slacks[slot] = part.answer[0]
            slopes[slot] = part.answer[1]
    return due


def blobs(n, seed, spread=0.3):
    """Keys around 12 places that lie several units apart."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((12, 4))
    return centres[rng.integers(0, 12, n)] + spread * rng.standard_normal((n, 4))


@pytest.fixture(scope="module")
def engine():
    e = Engine(Contract(GAMMA, 40.0, 1e-8), 4)
    e.insert(blobs(1500, 0))
    for key in blobs(60, 1, spread=0.6):
        e.insert(key[None, :])
    return e


def held_rows(e, code):
    s = e._state
    slots = np.arange(s.tally[state.TOP])
    return slots[s.code[slots] == code]


def test_the_bounds_of_a_region_hold_for_each_of_its_rows(engine):
    s = engine._state
    active = s.slot[: s.tally[state.ACTIVE]]
    reserve = held_rows(engine, state.RESERVE)
    regions = s.region[reserve]
    assert len(set(regions.tolist()) - {0}) >= 12  # every blob has its own
    inside = regions > 0
    kernel = gaussian_kernel(s.keys[reserve[inside]], s.keys[active], GAMMA)
    bound = s.ball[regions[inside], : len(active)]
    assert (bound >= kernel).all()
    assert (bound < 1e-3).mean() > 0.3  # and they tell far from near


def test_a_glance_never_promises_too_much(engine):
    e = engine.copy()
    s = e._state
    rng = np.random.default_rng(2)
    n = s.tally[state.ACTIVE]
    moving = s.code[s.slot[:n]] == state.MARGIN
    s.db[:n] = np.where(moving, rng.standard_normal(n), 0.0)
    s.pace[:] = 1e3  # everybody is due
    slacks, slopes = np.full((2, e.capacity), np.nan)
    due = glance_at_all(s, 1.0, slacks, slopes)
    reserve = held_rows(e, state.RESERVE)
    assert sorted(due.tolist()) == reserve.tolist()
    assert (np.diff(s.region[due]) >= 0).all()
    kernel = gaussian_kernel(s.keys[reserve], s.keys[s.slot[:n]], GAMMA)
    slack, slope = kernel @ s.b[:n] - e.mu, kernel @ s.db[:n]
    seen = ~np.isnan(slacks[reserve])
    assert seen.mean() > 0.5
    assert (slacks[reserve][seen] <= slack[seen] + 1e-12).all()
    assert (slopes[reserve][seen] <= slope[seen] + 1e-12).all()
    # not by much: the rows left out are far away
    assert np.median(slack[seen] - slacks[reserve][seen]) < 0.05 * np.median(slack[seen])
    left = s.due[reserve] - s.odometer[s.region[reserve]]
    assert (left[seen] <= slack[seen]).all()


def test_due_readings_stay_below_the_slack_while_rows_come_and_go(monkeypatch):
    monkeypatch.setattr(storage, "MOST_WATCHED", 0)
    keys = blobs(1200, 3)
    e = Engine(Contract(GAMMA, 25.0, 1e-8), 4)
    slots = list(e.insert(keys[:900]))
    rng = np.random.default_rng(4)
    looks = e.stats.reserve_checks
    for key in keys[900:]:
        slots.append(int(e.insert(key[None, :])[0]))
        e.remove(np.array([slots.pop(int(rng.integers(len(slots))))]))
        s = e._state
        reserve = held_rows(e, state.RESERVE)
        active = s.slot[: s.tally[state.ACTIVE]]
        height = gaussian_kernel(s.keys[reserve], s.keys[active], GAMMA) @ s.b[: len(active)]
        left = s.due[reserve] - s.odometer[s.region[reserve]]
        assert (height - e.mu >= left).all()
        assert (height - e.mu >= -1e-12).all()
    assert e.stats.reserve_checks > looks


def test_an_engine_that_was_emptied_can_be_filled_again():
    e = Engine(Contract(GAMMA, 10.0, 1e-8), 4)
    slots = e.insert(blobs(600, 5))
    for key in blobs(30, 6):
        slots = np.append(slots, e.insert(key[None, :]))
    e.remove(slots)
    assert len(e) == 0
    slots = e.insert(blobs(600, 7))
    fresh = Engine(Contract(GAMMA, 10.0, 1e-8), 4)
    again = fresh.insert(blobs(600, 7))
    one, two = e.canonicalise(), fresh.canonicalise()
    assert one.mu == two.mu
    assert (e.masses(slots) == fresh.masses(again)).all()
