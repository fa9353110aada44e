"""Names to slots and back, against a dict."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svmemory.idindex import IdIndex

EDGE_CASES = [
    *("0", "1", "9", "10", "00", "007", "-1", "+1", "1.0", " 1", "1 ", "1_0", "0x10", "1e3"),
    *("4611686018427387903", "4611686018427387904"),  # 2**62 - 1 and 2**62
    *("9223372036854775807", "9223372036854775808", "9999999999999999999"),
    *("18446744073709551616", "18446744073709551617", "1" * 40),  # 0 and 1 modulo 2**64
    *("\u0663", "\u00b2", "\uff11"),  # digits, but not ASCII
    *("a", "aa", "\0", "a\0", "é", "e\u0301", "日本", "🙂", "x" * 5000),
]


def slots_of(index, names):
    return index.find(names).tolist()


def test_edge_cases_are_different_names():
    index = IdIndex()
    index.enter(np.arange(len(EDGE_CASES)), EDGE_CASES)
    assert slots_of(index, EDGE_CASES) == list(range(len(EDGE_CASES)))
    assert index.names(np.arange(len(EDGE_CASES))) == EDGE_CASES
    assert len(index) == len(EDGE_CASES)


def test_only_plain_decimals_below_the_limit_count_as_numbers():
    plain = {name for name in EDGE_CASES if name in {"0", "1", "9", "10", str(2**62 - 1)}}
    for name in EDGE_CASES:
        index = IdIndex()
        index.enter(np.array([0]), [name])
        assert index.largest == (int(name) if name in plain else -1)


def test_the_largest_number_is_remembered():
    index = IdIndex()
    index.enter(np.array([0, 1]), ["12", "7"])
    index.leave(np.array([0]))
    assert index.largest == 12


names = st.one_of(
    st.sampled_from(EDGE_CASES),
    st.integers(0, 60).map(str),
    st.integers(0, 60).map(lambda i: f"patient-{i:03d}"),
)


@given(st.lists(st.tuples(st.booleans(), st.lists(names, min_size=1, unique=True)), max_size=30))
def test_any_history_of_entering_and_leaving_is_that_of_a_dict(history):
    index, held, free = IdIndex(), {}, list(range(1000))
    for entering, batch in history:
        batch = [name for name in batch if (name in held) != entering]
        if entering:
            held.update({name: free.pop(len(name) % len(free)) for name in batch})
            index.enter(np.array([held[name] for name in batch], np.int64), batch)
        else:
            slots = [held.pop(name) for name in batch]
            free.extend(slots)
            index.leave(np.array(slots, np.int64))
        assert len(index) == len(held)
        assert slots_of(index, list(held)) == list(held.values())
        assert index.names(np.array(list(held.values()), np.int64)) == list(held)
        absent = [name for name in EDGE_CASES if name not in held]
        assert slots_of(index, absent) == [-1] * len(absent)


@pytest.mark.parametrize("kind", ["{}", "patient-{}", "é{}"])
def test_many_names(kind):
    rng = np.random.default_rng(0)
    index = IdIndex()
    pool = [kind.format(i) for i in rng.permutation(60_000)]
    index.enter(np.arange(40_000), pool[:40_000])
    gone = rng.permutation(40_000)[:25_000]
    index.leave(gone)
    index.enter(gone[:20_000], pool[40_000:])
    held = dict(zip(pool, range(40_000), strict=False))
    for slot in gone.tolist():
        del held[pool[slot]]
    held.update(zip(pool[40_000:], gone[:20_000].tolist(), strict=True))
    assert slots_of(index, pool) == [held.get(name, -1) for name in pool]


def test_a_passing_stream_of_texts_takes_no_more_room_in_the_end():
    index = IdIndex()
    window = 100
    index.enter(np.arange(window), [f"text number {i}" for i in range(window)])
    for i in range(window, 20_000):
        slot = np.array([i % window])
        index.leave(slot)
        index.enter(slot, [f"text number {i}"])
        if i == 1000:
            early = sum(array.nbytes for array in index.arrays)
    assert sum(array.nbytes for array in index.arrays) <= 1.5 * early
    assert index.names(np.arange(window)) == [
        f"text number {i}" for i in range(20_000 - window, 20_000)
    ]


def test_copies_are_independent():
    index = IdIndex()
    index.enter(np.array([0, 1]), ["a", "1"])
    twin = index.copy()
    twin.leave(np.array([0]))
    twin.enter(np.array([0]), ["b"])
    assert slots_of(index, ["a", "1", "b"]) == [0, 1, -1]
    assert slots_of(twin, ["a", "1", "b"]) == [-1, 1, 0]


def test_it_survives_pickling():
    index = IdIndex()
    index.enter(np.array([3, 1]), ["a", "17"])
    twin = pickle.loads(pickle.dumps(index))
    assert slots_of(twin, ["a", "17", "18"]) == [3, 1, -1]
