"""The table of rows: against a plain dict, byte by byte after forgetting, and its size."""

from __future__ import annotations

import tracemalloc
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svmemory import DuplicateIdError, InputError, SupportVectorMemory, UnknownIdError
from svmemory.arrays import grown
from svmemory.chains import Chains
from svmemory.idindex import IdIndex
from svmemory.rows import MOST, RowTable
from svmemory.space import RowSpace

POOL = [*map(str, range(12)), "007", "é", "patient-000123", "patient-000124", "🙂", str(2**62)]
SUBJECTS = [None, "1", "ann", "bob", "é"]


class Model:
    """What a table should do, with a dict and Python's own containers."""

    def __init__(self):
        self.rows = {}  # name -> [slot, subject, value], in order of arrival
        self.next = 0

    def put(self, slot, name, subject, value):
        self.rows[name] = [slot, subject, value]
        if name.isascii() and name.isdecimal() and str(int(name)) == name and int(name) < 2**62:
            self.next = max(self.next, int(name) + 1)

    def free_slots(self):
        held = {slot for slot, _, _ in self.rows.values()}
        return (slot for slot in count() if slot not in held)


def agree(table, model):
    names = list(model.rows)
    slots = table.in_order()
    assert len(table) == len(names)
    assert table.names() == names
    assert slots.tolist() == [row[0] for row in model.rows.values()]
    assert table.in_order(names[::-1]).tolist() == slots.tolist()[::-1]
    assert table.subjects(slots) == [row[1] for row in model.rows.values()]
    assert table.values(slots).ravel().tolist() == [row[2] for row in model.rows.values()]
    assert [name in table for name in POOL] == [name in model.rows for name in POOL]
    for subject in SUBJECTS[1:]:
        group = [name for name, row in model.rows.items() if row[1] == subject]
        named, slots = table.select(None, subject, strict=False)
        assert named == group
        assert slots.tolist() == table.in_order(group).tolist()
    for name in POOL:
        named, slots = table.select([name], None, strict=False)
        assert named == [name] * (name in model.rows)
        assert slots.tolist() == table.in_order(named).tolist()
    assert table.new_ids(None, 2) == [str(model.next), str(model.next + 1)]


VERBS = ["put", "put", "drop", "forget", "reassign", "copy", "number"]


def step(table, model, verb, names, seed):
    """Do the same to a table and to its model; the table to go on with."""
    rng = np.random.default_rng(seed)
    held = [name for name in names if name in model.rows]
    if verb in ("put", "number"):
        new = [name for name in names if name not in model.rows]
        new = table.new_ids(new if verb == "put" else None, len(new))
        free = model.free_slots()
        slots = rng.permutation([next(free) for _ in range(len(new) + 3)])[: len(new)].tolist()
        subjects = [SUBJECTS[i] for i in rng.integers(0, len(SUBJECTS), len(new))]
        values = rng.normal(size=(len(new), 1))
        table.put_many(slots, new, subjects, values)
        for row in zip(slots, new, subjects, values[:, 0].tolist(), strict=True):
            model.put(*row)
    elif verb == "drop":
        table.drop_many(table.in_order(held))
        for name in held:
            del model.rows[name]
    elif verb == "forget":
        subject = SUBJECTS[1 + seed % (len(SUBJECTS) - 1)]
        table.drop_many(table.select(None, subject, strict=False)[1])
        model.rows = {n: row for n, row in model.rows.items() if row[1] != subject}
    elif verb == "reassign":
        others = {row[0] for name, row in model.rows.items() if name not in held}
        slots = [i for i in rng.permutation(400).tolist() if i not in others][: len(held)]
        table.reassign(held, slots)
        for name, slot in zip(held, slots, strict=True):
            model.rows[name][0] = slot
    else:
        old, table = table, table.copy()
        old.drop_many(old.in_order())
        old.put_many([0], ["someone else"], ["ann"], np.ones((1, 1)))
    if not model.rows:
        table.clear()
    agree(table, model)
    return table


steps = st.tuples(
    st.sampled_from(VERBS),
    st.lists(st.sampled_from(POOL), max_size=8, unique=True),
    st.integers(0, 10**6),
)


@given(st.lists(steps, max_size=25))
def test_any_history_is_that_of_a_dict(history):
    table, model = RowTable(), Model()
    for verb, names, seed in history:
        table = step(table, model, verb, names, seed)


@pytest.mark.parametrize("seed", range(4))
def test_long_histories_are_those_of_a_dict(seed):
    rng = np.random.default_rng(seed)
    table, model = RowTable(), Model()
    for i in range(1000):
        known = [*POOL, *model.rows]
        names = {known[i] for i in rng.integers(0, len(known), rng.integers(1, 6))}
        table = step(table, model, VERBS[rng.integers(0, len(VERBS))], sorted(names), i)


def arrays_of(thing):
    """Every array that can be reached from an object."""
    if isinstance(thing, np.ndarray):
        return [thing]
    parts = thing if isinstance(thing, list | tuple) else getattr(thing, "__dict__", {}).values()
    return [array for part in parts for array in arrays_of(part)]


def holding_bytes(table):
    return b"|".join(array.tobytes() for array in arrays_of(table))


@pytest.mark.parametrize("name", ["7654321765432176543", "patient-000123", "日本"])
@pytest.mark.parametrize("padding", [0, 1, 500])
def test_no_byte_of_a_forgotten_row_stays(name, padding):
    # The first is too large to be kept as a number: all three are texts.
    table = RowTable()
    table.put_many(
        range(2 + padding),
        [name, "the other", *(f"row {i}" for i in range(padding))],
        ["a subject", "someone", *["someone"] * padding],
        np.array([[0.123456789], [0.987654321], *[[1.0]] * padding]),
    )
    wanted = [name.encode(), b"a subject", np.float64(0.123456789).tobytes()]
    kept = [b"the other", b"someone", np.float64(0.987654321).tobytes()]
    assert all(part in holding_bytes(table) for part in [*wanted, *kept])
    table.drop_many([0])
    assert not any(part in holding_bytes(table) for part in wanted)
    assert all(part in holding_bytes(table) for part in kept)


def test_no_byte_stays_when_one_row_after_the_other_is_forgotten():
    """What is left moves together in between, and leaves nothing where it has been."""
    names = [f"patient-{i:03d}" for i in range(40)]
    table = RowTable()
    table.put_many(range(40), names, names, np.zeros((40, 0)))
    rng = np.random.default_rng(0)
    held = set(names)
    for slot in rng.permutation(40).tolist():
        table.drop_many([slot])
        held.remove(names[slot])
        data = holding_bytes(table)
        assert [name.encode() in data for name in names] == [name in held for name in names]


def test_no_byte_of_a_forgotten_number_stays_but_that_of_the_largest():
    table = RowTable()
    number, largest = 3_141_592_653_589_793, 3_141_592_653_589_794
    table.put_many([0, 1, 2], [str(number), str(largest), "2"], [None] * 3, np.zeros((3, 0)))
    assert np.int64(number).tobytes() in holding_bytes(table)
    table.drop_many([0, 1])
    assert np.int64(number).tobytes() not in holding_bytes(table)
    assert np.int64(largest).tobytes() in holding_bytes(table)  # so that it is not given again
    assert table.new_ids(None, 1) == [str(largest + 1)]


def test_a_subject_is_forgotten_with_its_last_row():
    table = RowTable()
    table.put_many([0, 1], ["a", "b"], ["someone", "someone"], np.zeros((2, 0)))
    table.drop_many([0])
    assert b"someone" in holding_bytes(table)
    table.drop_many([1])
    assert b"someone" not in holding_bytes(table)


# -- size -----------------------------------------------------------------------------------------

ROWS = 200_000


def table_bytes(name, subject):
    """Bytes a row of a table that grew by 1,000 rows at a time."""
    values = np.ones((1000, 1))

    def grow(rows):
        table = RowTable()
        for start in range(0, rows, 1000):
            batch = range(start, start + 1000)
            names = table.new_ids(name and [name(i) for i in batch], 1000)
            table.put_many(np.arange(start, start + 1000), names, list(map(subject, batch)), values)
        return table

    grow(2000).drop_many([1])  # compiles
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    table = grow(ROWS)
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(table) == ROWS
    return size / ROWS


def test_growing_arrays_are_never_idle_by_more_than_a_third():
    array, moves = np.zeros(0, np.int32), 0
    for size in range(1, 5000):
        longer = grown(array, size, -1)
        moves += longer is not array
        array = longer
        array[size - 1] = size
        assert size <= len(array) <= 1.5 * size
    assert moves < 25  # 1.5 ** 21 > 5000
    assert (array[:4999] == np.arange(1, 5000)).all()
    assert (array[4999:] == -1).all()


# A slot: value, number or place of the text, arrival and subject lists; idle by a third at most.
SLOT = 1.5 * (8 + 8 + 12 + 12)
PLACE = 4 / 0.3  # the hash table is at least 30 % full
SUBJECT = 1.5 * (8 + 12 + 12 + len("subject-12345")) + PLACE


@pytest.mark.parametrize(
    ("name", "subject", "bound"),
    [
        (None, lambda i: None, SLOT + PLACE),
        (None, lambda i: f"subject-{i // 10:05d}", SLOT + PLACE + SUBJECT / 10),
        (
            lambda i: f"patient-{i:06d}",
            lambda i: f"subject-{i // 10:05d}",
            SLOT + PLACE + SUBJECT / 10 + 1.5 * (12 + len("patient-000123")),
        ),
    ],
)
def test_bytes_a_row(name, subject, bound):
    size = table_bytes(name, subject)
    assert 8 + 8 + 12 + 12 <= size <= bound


def test_rows_of_a_memory_take_at_most_four_times_their_keys_and_values():
    """Just after the engine has doubled its arrays; 6 keys and a value are 56 bytes."""
    rng = np.random.default_rng(0)
    rows, batch = 136_000, 4000  # just above 2**17
    memory = SupportVectorMemory(gamma=0.02, C=1 / 5)
    memory.add(rng.normal(size=(batch, 6)), np.zeros(batch))
    memory.forget(ids="0")
    keys = np.repeat(memory.keys[:1], batch, axis=0)  # they stay in reserve, so this is quick
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(rows // batch - 1):
        memory.add(keys, np.zeros(batch))
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(memory) == rows - 1
    assert 56 <= size / rows <= 4 * 56


# -- requests -------------------------------------------------------------------------------------


def filled():
    table = RowTable()
    table.put_many([2, 0, 1], ["a", "5", "b"], ["x", None, "x"], np.zeros((3, 0)))
    return table


def test_ids_that_are_not_held_are_refused():
    with pytest.raises(UnknownIdError, match="'6'"):
        filled().in_order(["a", "6"])
    with pytest.raises(UnknownIdError, match=r"'c' \(and 1 more\)"):
        filled().select(["a", "c", "d"], None, strict=True)


def test_the_first_id_at_fault_is_named():
    with pytest.raises(DuplicateIdError, match=r"'5' \(row 1\) is already held"):
        filled().new_ids(["c", "5", "c", "a"], 4)
    with pytest.raises(DuplicateIdError, match="'c' is given twice, in rows 0 and 1"):
        filled().new_ids(["c", "c", "5"], 3)


def test_what_is_no_id_is_not_held():
    table = filled()
    assert 5 in table
    assert np.int64(5) in table
    for other in (None, 5.0, True, "", "\ud800", ("a",), 10**5000):
        assert other not in table


def test_numbering_passes_over_ids_too_large_to_be_numbers():
    table = RowTable()
    table.put_many([0, 1], [str(2**63 - 1), "8"], [None, None], np.zeros((2, 0)))
    assert table.new_ids(None, 1) == ["9"]


def test_numbering_that_would_pass_its_end_is_refused():
    table = RowTable()
    table.put_many([0], [str(2**62 - 2)], [None], np.zeros((1, 0)))
    assert table.new_ids(None, 1) == [str(2**62 - 1)]
    with pytest.raises(InputError, match=r"below 2\*\*62"):
        table.new_ids(None, 2)


def test_more_rows_than_slots_are_refused():
    with pytest.raises(InputError, match="at most 2,147,483,647 rows"):
        filled().new_ids(None, MOST - 2)


def test_a_cleared_table_takes_values_of_another_width():
    table = RowTable()
    table.put_many([0], ["4"], ["x"], np.ones((1, 3)))
    table.drop_many([0])
    table.clear()
    table.put_many([1], table.new_ids(None, 1), [None], np.full((1, 2), 7.0))
    assert table.names() == ["5"]
    assert table.values(table.in_order()).tolist() == [[7.0, 7.0]]


@pytest.mark.parametrize("part", [RowSpace, Chains, IdIndex])
def test_without_room_nothing_is_entered(monkeypatch, part):
    table, model = RowTable(), Model()
    table.put_many([0, 1], ["1", "007"], ["ann", None], np.ones((2, 1)))
    model.put(0, "1", "ann", 1.0)
    model.put(1, "007", None, 1.0)
    verb = {RowSpace: "ensure", Chains: "make_room", IdIndex: "enter"}[part]
    real = getattr(part, verb)

    def full(self, *arguments):
        if part is IdIndex and self is not table._ids:  # subjects come first, and fit
            return real(self, *arguments)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(part, verb, full)
        with pytest.raises(MemoryError):
            table.put_many([2, 3], ["2", "é"], ["ann", "bob"], np.zeros((2, 1)))
    agree(table, model)
    assert b"bob" not in holding_bytes(table)
    table.put_many([2, 3], ["2", "é"], ["ann", "bob"], np.zeros((2, 1)))
    model.put(2, "2", "ann", 0.0)
    model.put(3, "é", "bob", 0.0)
    agree(table, model)


def test_subject_numbers_are_used_again():
    table = RowTable()
    for i in range(5000):
        table.put_many([i % 3], [f"r{i}"], [f"s{i}"], np.zeros((1, 0)))
        if i >= 2:
            table.drop_many([(i + 1) % 3])
    assert sum(array.nbytes for array in arrays_of(table)) < 5000
