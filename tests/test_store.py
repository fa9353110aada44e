"""The store: same memory as in RAM, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from stores import CONTRACT, never_saw, people, postgres, wipe
from svmemory import Contract, SupportVectorMemory
from svmemory.errors import (
    DuplicateIdError,
    ErasedIdError,
    InputError,
    PreviewError,
    StoreError,
)
from svmemory.store import Store, migrations, schema

Opener = Callable[[], Store]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    for url, _files in postgres():
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens one store again and again."""
    url = str(tmp_path / "store.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("server")
        wipe(url)
    opened: list[Store] = []

    def call() -> Store:
        opened.append(Store(url))
        return opened[-1]

    yield call
    for store in opened:
        store.close()


def test_it_is_the_memory_that_it_would_be_in_ram(opener: Opener) -> None:
    store = opener()
    memory = store.create("vitals", CONTRACT, {"note": "a"})
    plain = SupportVectorMemory.from_contract(CONTRACT)
    for rows in (range(0, 40), range(40, 41), range(41, 60)):
        assert memory.add(**people(rows)) == plain.add(**people(rows))
    receipt = memory.forget(subject="person-003", digests=True)
    result = plain.forget(subject="person-003", digests=True)
    assert receipt.kind == "forgotten"
    assert receipt.removed == result.removed == ["row-0009", "row-0010", "row-0011"]
    assert receipt.former == result.former
    assert (receipt.digest_before, receipt.digest_after) == (
        result.digest_before,
        result.digest_after,
    )
    assert receipt.purged == "done"
    points = np.random.default_rng(0).normal(size=(7, 4))
    for held in (memory, opener().open("vitals")):
        assert held.ids == plain.ids
        assert held.subjects == plain.subjects
        assert held.partition == plain.partition
        assert held.header == {"note": "a"}
        assert held.digest() == plain.digest()
        np.testing.assert_array_equal(held.read(points), plain.read(points))
        np.testing.assert_array_equal(held.score(points), plain.score(points))


def test_a_memory_can_be_emptied_and_filled_with_other_widths(opener: Opener) -> None:
    memory = opener().create("m", Contract.from_cap(1.0, 0.5))
    memory.add([[1.0, 2.0]], [3.0], ids=["a"])
    assert memory.forget(ids="a").rows_left == 0
    assert memory.status == "empty"
    memory.add([[1.0], [2.0], [4.0]])
    again = opener().open("m")
    assert again.ids == ["0", "1", "2"]
    assert again.snapshot().values is None


def test_numbers_are_not_given_twice(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    assert memory.add(np.eye(3)) == ["0", "1", "2"]
    memory.forget(ids=[1, 2])
    assert opener().open("m").add(np.eye(3)) == ["3", "4", "5"]
    memory.add([[5.0, 5.0, 5.0]], ids=[17])
    assert memory.add([[6.0, 5.0, 5.0]]) == ["18"]


def test_names(opener: Opener) -> None:
    store = opener()
    store.create("b", CONTRACT)
    store.create("a", CONTRACT)
    assert store.names == ["a", "b"]
    with pytest.raises(InputError, match="holds a memory 'a' already"):
        store.create("a", CONTRACT)
    with pytest.raises(InputError, match="no memory 'c'; it holds 'a', 'b'"):
        store.open("c")
    with pytest.raises(InputError, match="name of row 0 is empty"):
        store.create("", CONTRACT)
    for name in ("-m", " m", "m ", "a\nb", "\x1b[2J", "a\u202eb"):
        with pytest.raises(InputError, match="must not have blanks at its ends, control"):
            store.create(name, CONTRACT)
    assert store.names == ["a", "b"]


def test_a_whole_memory_goes_in_at_once(opener: Opener) -> None:
    plain = SupportVectorMemory.from_contract(CONTRACT)
    plain.add(**people(range(50)))
    plain.header = {"columns": ["x"]}
    stored = opener().put("m", plain)
    assert stored.digest() == plain.digest() == opener().open("m").digest()
    assert stored.header == plain.header
    assert stored.ids == plain.ids


def test_odd_texts(opener: Opener) -> None:
    memory = opener().create("name with ' and \u00e9", CONTRACT)
    ids = ["nul\0inside", "\U0001f9e0", "a'; DROP TABLE svm_rows; --", "x" * 5000]
    memory.add(np.eye(4), ids=ids, subjects=["s\0", None, "\u00df", "s\0"])
    again = opener().open("name with ' and \u00e9")
    assert again.ids == ids
    assert again.subjects == ["s\0", None, "\u00df", "s\0"]
    assert again.forget(subject="s\0").removed == [ids[0], ids[3]]


def test_ridge_zero(opener: Opener) -> None:
    memory = opener().create("m", Contract.from_cap(1.0, 0.2, ridge=0.0))
    memory.add(**people(range(30)))
    plain = SupportVectorMemory(1.0, 0.2, ridge=0.0)
    plain.add(**people(range(30)))
    points = np.zeros((1, 4))
    np.testing.assert_allclose(opener().open("m").score(points), plain.score(points), atol=1e-12)
    assert memory.forget(ids="row-0003").kind == "forgotten"


def test_a_handle_sees_what_others_commit(opener: Opener) -> None:
    one = opener().create("m", CONTRACT)
    other = opener().open("m")
    one.add(**people(range(0, 30)))
    assert len(other) == 30
    other.add(**people(range(30, 60)))
    assert one.digest() == never_saw(range(60))
    other.forget(subject="person-000")
    assert "row-0000" not in one
    one.add(**people(range(60, 63)))
    assert one.digest() == other.digest() == never_saw(range(3, 63))


def test_a_refused_call_changes_nothing(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(20)))
    before, generation = memory.digest(), memory.generation
    with pytest.raises(DuplicateIdError):
        memory.add(np.zeros((2, 4)), np.zeros((2, 2)), ids=["new", "row-0003"])
    with pytest.raises(InputError, match="columns"):
        memory.add([[1.0]])
    with pytest.raises(InputError, match="either ids or subject"):
        memory.forget()
    assert "new" not in memory
    for held in (memory, opener().open("m")):
        assert (held.digest(), held.generation) == (before, generation)


def test_an_error_after_the_change_in_ram_changes_nothing(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(20)))
    before = memory.digest()

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    for place in ("insert", "delete"):
        with monkeypatch.context() as patch:
            patch.setattr(f"svmemory.store.content.Content.{place}", broken)
            verb = memory.add if place == "insert" else memory.forget
            given = people(range(20, 25)) if place == "insert" else {"ids": "row-0001"}
            with pytest.raises(KeyboardInterrupt):
                verb(**given)
        assert memory.digest() == opener().open("m").digest() == before
    memory.add(**people(range(20, 25)))
    assert memory.digest() == never_saw(range(25))


# -- life cycle -----------------------------------------------------------------------------------


def test_forgetting_twice_says_that_nothing_was_held(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(9)))
    first = memory.forget(subject="person-001", request="case 7")
    assert (first.kind, first.success, first.rows_left) == ("forgotten", True, 6)
    generation = memory.generation
    second = memory.forget(subject="person-001", request="case 7")
    assert (second.kind, second.success, second.removed) == ("nothing held", False, [])
    assert second.missing == ["person-001"]
    assert second.message == "no row held for 'person-001'"
    assert memory.generation == generation
    mixed = memory.forget(ids=["row-0000", "row-0003", "nobody"])
    assert (mixed.kind, mixed.removed) == ("forgotten", ["row-0000"])
    assert mixed.missing == ["row-0003", "nobody"]
    kinds = [kept["kind"] for kept in opener().open("m").receipts()]
    assert kinds == ["forgotten", "nothing held", "forgotten"]


def test_an_erased_id_is_refused(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(9)))
    memory.forget(ids=["row-0001", "row-0002"])
    again = opener().open("m")
    with pytest.raises(ErasedIdError, match=r"'row-0001' \(and 1 more\) was erased.*readmit"):
        again.add(**people(range(1, 3)))
    assert len(again) == 7
    again.add(**people(range(1, 3)), readmit=True)
    assert again.digest() == never_saw(range(9))
    again.forget(ids="row-0001")
    with pytest.raises(ErasedIdError):
        again.add(**people(range(1, 2)))


def test_expire(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    days = ["2026-01-01", "2026-01-02T00:00:00+01:00", "2026-01-02", "2026-01-03T12:00:00Z"]
    memory.add(**people(range(4)), times=days)
    memory.add(**people(range(4, 6)))  # now
    shown = memory.preview(before="2026-01-02")
    receipt = memory.expire("2026-01-02", token=shown.token)
    assert (receipt.kind, receipt.removed) == ("expired", ["row-0000", "row-0001"])
    assert memory.expire("2026-01-02").kind == "nothing held"
    assert opener().open("m").digest() == never_saw(range(2, 6))
    with pytest.raises(ErasedIdError):
        memory.add(**people(range(1)))
    with pytest.raises(InputError, match="before must be a time"):
        memory.expire("yesterday")
    with pytest.raises(InputError, match="1 times were given for 2 rows"):
        memory.add(**people(range(6, 8)), times=["2026-01-01"])


def test_evict(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(60)))
    reserve = set(memory.partition.reserve)
    points = np.zeros((1, 4))
    before = memory.read(points)
    budget = 60 - len(reserve)
    receipt = memory.evict(budget)
    assert (receipt.kind, set(receipt.removed)) == ("evicted", reserve)
    assert "readouts may have changed" in receipt.message
    np.testing.assert_allclose(memory.read(points), before, rtol=1e-9)
    assert memory.evict(budget).kind == "nothing held"
    smaller = memory.evict(5)
    assert (len(memory), smaller.rows_left) == (5, 5)
    assert set(smaller.former.values()) <= {"margin", "error"}
    memory.add(**people(range(0, 60))) if not memory.evict(0).rows_left else None
    assert memory.digest() == never_saw(range(60))
    for bad in (-1, 2.5, "3"):
        with pytest.raises(InputError, match="budget"):
            memory.evict(bad)  # type: ignore[arg-type]


def test_prune(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(60)))
    plain = memory.snapshot()
    expected = plain.prune(digests=True)
    shown = memory.preview(keep_slack_below=0.0)
    receipt = memory.prune(digests=True, token=shown.token)
    assert (receipt.kind, receipt.removed) == ("pruned", expected.removed)
    assert receipt.digest_after == expected.digest_after
    assert memory.prune().kind == "nothing held"
    back = receipt.removed[0]
    memory.add(**people(range(int(back[4:]), int(back[4:]) + 1)))  # a pruned id is free


def test_preview_and_its_token(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(60)))
    shown = memory.preview(subject="person-002")
    assert shown.rows == ["row-0006", "row-0007", "row-0008"]
    assert (shown.subjects, shown.rows_left) == (["person-002"], 57)
    assert set(shown.former) == set(shown.rows)
    assert len(memory) == 60
    extra = people(range(60, 61)) | {"subjects": ["person-002"]}
    memory.add(**extra)
    with pytest.raises(PreviewError, match="Nothing was deleted"):
        memory.forget(subject="person-002", token=shown.token)
    assert len(memory) == 61
    with pytest.raises(PreviewError):
        memory.forget(subject="person-003", token=shown.token)
    fresh = memory.preview(subject="person-002")
    memory.add(**people(range(61, 62)))  # other rows may come and go
    assert memory.forget(subject="person-002", token=fresh.token).removed == fresh.rows
    with pytest.raises(InputError, match="exactly one"):
        memory.preview(subject="a", budget=3)
    nobody = memory.preview(ids=["nobody"])
    assert (nobody.rows, nobody.missing) == ([], ["nobody"])


def test_a_row_replaced_since_the_preview_is_another_row(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(9)))
    shown = memory.preview(ids="row-0001")
    memory.forget(ids="row-0001")
    memory.add(**(people(range(1, 2)) | {"values": [[9.0, 9.0]]}), readmit=True)
    with pytest.raises(PreviewError):
        memory.forget(ids="row-0001", token=shown.token)


def test_receipts_hold_no_ids(opener: Opener) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(9)))
    memory.forget(subject="person-001", request="case 7")
    (kept,) = memory.receipts()
    assert kept["request"] == "case 7"
    assert kept["removed"] == 3
    assert "row-" not in str(kept)
    assert "person" not in str(kept)


def test_drop(opener: Opener) -> None:
    store = opener()
    memory = store.create("m", CONTRACT)
    memory.add(**people(range(9)))
    receipt = store.drop("m")
    assert (receipt.kind, receipt.purged) == ("dropped", "done")
    with pytest.raises(StoreError, match="'m' was dropped"):
        memory.digest()
    with pytest.raises(StoreError, match="'m' was dropped"):
        memory.add(**people(range(9, 10)))
    with pytest.raises(InputError, match="no memory 'm'"):
        store.drop("m")
    again = store.create("m", CONTRACT)  # another memory: nothing is refused here
    again.add(**people(range(9)))
    with pytest.raises(StoreError, match="dropped"):
        memory.digest()


# -- versions and damage --------------------------------------------------------------------------


def test_a_newer_store_is_refused(opener: Opener) -> None:
    store = opener()
    set_version(store, schema.VERSION + 1)
    with pytest.raises(StoreError, match="knows versions up to 2: upgrade svmemory"):
        opener()


def test_an_unknown_older_version_is_refused(opener: Opener) -> None:
    set_version(opener(), 0)
    with pytest.raises(StoreError, match="unknown version 0"):
        opener()


def test_an_older_store_is_migrated_or_left_alone(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opener()
    store.create("m", CONTRACT).add(**people(range(9)))
    monkeypatch.setattr(schema, "VERSION", 3)

    def step(connection: object) -> None:
        connection.execute(text("INSERT INTO svm_store VALUES ('stepped', 1)"))  # type: ignore[attr-defined]

    def stepped() -> bool:
        with store.database.reading() as connection:
            query = text("SELECT count(*) FROM svm_store WHERE name = 'stepped'")
            return bool(connection.scalar(query))

    def broken(connection: object) -> None:
        step(connection)
        raise StoreError("this migration fails")

    monkeypatch.setattr(migrations, "MIGRATIONS", {2: broken})
    with pytest.raises(StoreError, match="this migration fails"):
        opener()
    assert not stepped()
    monkeypatch.setattr(migrations, "MIGRATIONS", {2: step})
    assert opener().open("m").digest() == never_saw(range(9))
    assert stepped()


def test_a_store_of_version_1_is_brought_up_to_date(opener: Opener) -> None:
    store = opener()
    memory = store.create("m", CONTRACT)
    memory.add(**people(range(12)))
    memory.forget(subject="person-000")
    store.create("empty", CONTRACT)
    store.create("gone", CONTRACT)
    store.drop("gone")
    with store.database.writing() as connection:
        for column in ("held", "erased", "vault", "digest"):
            connection.execute(text(f"ALTER TABLE svm_memories DROP COLUMN {column}"))
    set_version(store, 1)
    store.close()
    memory = opener().open("m")
    assert memory.digest() == never_saw(range(3, 12))
    with pytest.raises(ErasedIdError, match="row-0001"):
        memory.add(**people(range(1, 2)))
    memory.add(**people(range(12, 20)))
    assert opener().open("m").digest() == never_saw(range(3, 20))
    assert len(opener().open("empty")) == 0


def set_version(store: Store, version: int) -> None:
    with store.database.writing() as connection:
        connection.execute(
            schema.facts.update().where(schema.facts.c.name == "version").values(number=version)
        )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM svm_supports", "its weights are missing"),
        ("UPDATE svm_supports SET mu = '0x1.8p+0'", "not the optimum"),
        ("UPDATE svm_supports SET mu = 'much'", "damaged"),
        ("UPDATE svm_supports SET masses = rows", "do not"),
        ("DELETE FROM svm_rows WHERE row = 3", "damaged"),
        ("UPDATE svm_rows SET key = value WHERE row = 3", "differ in width"),
        ("UPDATE svm_rows SET subject = id WHERE row = 3", "not those that were written"),
        ("UPDATE svm_rows SET time = 5 WHERE row = 3", "not those that were written"),
        ("UPDATE svm_memories SET gamma = '0x0p+0'", "its contract, its counters"),
        ("UPDATE svm_memories SET kernel = 'other'", "its contract, its counters"),
        ("UPDATE svm_memories SET held = 19", "its contract, its counters"),
        ("DELETE FROM svm_rows", "should hold 20 rows, and 0 are there"),
        ("UPDATE svm_memories SET header = '{'", "damaged"),
    ],
)
def test_damage_is_one_clear_error(opener: Opener, statement: str, message: str) -> None:
    store = opener()
    store.create("m", Contract.from_cap(0.4, 0.02)).add(**people(range(20)))  # all rows have weight
    with store.database.writing() as connection:
        connection.execute(text(statement))
    with pytest.raises(StoreError, match=message):
        opener().open("m")


def test_rows_and_weights_that_are_all_gone_are_no_empty_memory(opener: Opener) -> None:
    store = opener()
    memory = store.create("m", CONTRACT)
    memory.add(**people(range(20)))
    with store.database.writing() as connection:
        connection.execute(text("DELETE FROM svm_rows"))
        connection.execute(text("DELETE FROM svm_supports"))
    with pytest.raises(StoreError, match="memory 'm' is damaged: it should hold 20 rows, and 0"):
        opener().open("m")
    assert len(opener().open("m", solve=True)) == 0  # the rows that are there, as was asked for


def test_another_kernel_is_named(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    opener().create("m", CONTRACT)
    monkeypatch.setattr("svmemory.store.records.KERNEL_VERSION", "other")
    with pytest.raises(StoreError, match=r"has the kernel '.*'; this is 'other'"):
        opener().open("m")


def test_altered_tombstones_let_nobody_in(opener: Opener) -> None:
    blob = "'\\x00'" if opener().database.engine.dialect.name == "postgresql" else "x'00'"
    for name, statement in (
        ("salt", f"UPDATE svm_memories SET salt = {blob} WHERE name = 'salt'"),
        ("lost", "DELETE FROM svm_tombstones WHERE memory = 2"),
        ("none", "UPDATE svm_memories SET erased = NULL WHERE name = 'none'"),
    ):
        store = opener()
        memory = store.create(name, CONTRACT)
        memory.add(**people(range(9)))
        memory.forget(ids="row-0004")
        store.close()
        store = opener()
        with store.database.writing() as connection:
            connection.execute(text(statement))
        with pytest.raises(StoreError, match=f"memory '{name}' is damaged: its .*tombstones"):
            opener().open(name).add(**people(range(4, 5)))


def test_every_column_of_another_type_is_damage(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        memory = store.create("m", CONTRACT)
        memory.add(**people(range(20)))
        memory.forget(ids="row-0004")
    good = (tmp_path / "s.db").read_bytes()
    tables = {
        "svm_memories": set(schema.memories.columns.keys()) - {"memory", "name"},
        "svm_rows": set(schema.rows.columns.keys()) - {"vault_key"},
        "svm_supports": set(schema.supports.columns.keys()) - {"memory"},
        "svm_tombstones": {"memory", "commitment"},
    }
    for table, columns in tables.items():
        for column in sorted(columns):
            for value in ("'zzz'", "x'00010203'", "2.5", "77"):
                (tmp_path / "s.db").write_bytes(good)
                raw = sqlite3.connect(tmp_path / "s.db")
                first = f"(SELECT min(rowid) FROM {table})"
                raw.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = {first}")
                raw.commit()
                raw.close()
                with (
                    Store(tmp_path / "s.db") as store,
                    pytest.raises(StoreError, match="memory 'm' is damaged: "),
                ):
                    store.open("m")


def test_a_missing_table_is_damage(opener: Opener) -> None:
    store = opener()
    store.create("m", CONTRACT).add(**people(range(9)))
    with store.database.writing() as connection:
        connection.execute(text("DROP TABLE svm_supports"))
    store.close()
    with pytest.raises(StoreError, match="the store is damaged: a table is missing"):
        opener().open("m")


def test_receipts_log_and_counters_of_another_type_are_damage(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        memory = store.create("m", CONTRACT)
        memory.add(**people(range(20)))
        memory.forget(ids="row-0004")
        with store.database.writing() as connection:
            connection.execute(text("UPDATE svm_receipts SET document = x'ff'"))
            connection.execute(text("INSERT INTO svm_log VALUES (1, 0, 'text')"))
        with pytest.raises(StoreError, match="receipts of a memory are damaged"):
            memory.receipts()
        with pytest.raises(StoreError, match="log of a memory is damaged"):
            memory.log()
        with store.database.writing() as connection:
            connection.execute(text("UPDATE svm_store SET number = 'x' WHERE name = 'purged'"))
    with pytest.raises(StoreError, match="counters are no numbers"):
        Store(tmp_path / "s.db")


def test_a_row_without_weight_is_checked_too(opener: Opener) -> None:
    store = opener()
    memory = store.create("m", CONTRACT)
    memory.add(**people(range(60)))
    name = memory.partition.reserve[0].encode().hex()
    blob = f"'\\x{name}'" if store.database.engine.dialect.name == "postgresql" else f"x'{name}'"
    for change in (f"UPDATE svm_rows SET value = key WHERE id = {blob}", "DELETE FROM svm_rows"):
        with store.database.writing() as connection:
            connection.execute(
                text(change if "UPDATE" in change else f"{change} WHERE id = {blob}")
            )
        with pytest.raises(StoreError, match="is damaged"):
            opener().open("m")


def test_many_make_one_store_at_once(opener: Opener) -> None:
    made: list[Store] = []
    threads = [threading.Thread(target=lambda: made.append(opener())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4


def test_repair_solves_afresh(opener: Opener) -> None:
    store = opener()
    store.create("m", CONTRACT).add(**people(range(40)))
    with store.database.writing() as connection:
        connection.execute(text("DELETE FROM svm_supports"))
    assert opener().open("m", solve=True).digest() == never_saw(range(40))
    assert opener().open("m").digest() == never_saw(range(40))


def test_notes_must_be_json(opener: Opener) -> None:
    store = opener()
    memory = store.create("m", CONTRACT)
    memory.annotate({"columns": ["HR"], "range": 1.5})
    assert opener().open("m").header == memory.header == {"columns": ["HR"], "range": 1.5}
    for notes in ({1: 2}, {"a": object()}, {"a": float("nan")}, {"a": (1, 2)}):
        with pytest.raises(InputError, match="header"):
            memory.annotate(notes)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="header"):
            store.create("other", CONTRACT, notes)  # type: ignore[arg-type]
    assert memory.header == {"columns": ["HR"], "range": 1.5}
    assert store.names == ["m"]


def test_a_closed_store_is_closed(opener: Opener) -> None:
    store = opener()
    memory = store.create("m", CONTRACT)
    store.close()
    for call in (memory.digest, lambda: memory.add([[1.0]]), lambda: store.names):
        with pytest.raises(StoreError, match="was closed"):
            call()


def test_importing_svmemory_loads_no_database() -> None:
    code = "import svmemory, svmemory.cli.app, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"sqlalchemy", "cryptography", "psycopg"}.isdisjoint(ran.stdout.split())


# -- SQLite files ---------------------------------------------------------------------------------


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        Store(tmp_path / "none.db", create=False)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreError, match="its folder does not exist"):
        Store(tmp_path / "no" / "store.db")
    with pytest.raises(StoreError, match="a folder"):
        Store(tmp_path)
    (tmp_path / "text.db").write_text("this is no database, it is a text of some length" * 40)
    with pytest.raises(StoreError, match="not a store"):
        Store(tmp_path / "text.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(StoreError, match="a database, but no store"):
        Store(tmp_path / "other.db", create=False)
    for url in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(StoreError, match="name a file"):
            Store(url)
    with pytest.raises(StoreError, match="SQLite file or a PostgreSQL"):
        Store("mysql://u:secret@host/d")
    with pytest.raises(InputError, match="URL or a path"):
        Store("")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    for mode in ("delete", "wal"):
        path = tmp_path / f"{mode}.db"
        other = sqlite3.connect(path)
        other.execute(f"PRAGMA journal_mode={mode}")
        other.execute("CREATE TABLE t (x)")
        other.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(5)])
        other.execute("DELETE FROM t WHERE x < 3")
        other.commit()
        other.close()
        before = path.read_bytes()
        for create in (True, False):
            with pytest.raises(StoreError, match="a database, but no store: it has the table 't'"):
                Store(path, vault=tmp_path / "keys.db", create=create)
            with pytest.raises(StoreError, match=r"the table 't'|of another program"):
                Store(tmp_path / "store.db", vault=path)
        assert path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["delete.db", "wal.db"]


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StoreError) as caught:
        Store("postgresql://u:secret@127.0.0.1:9/d")
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:9" in str(caught.value)


def test_your_own_engine(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/store.db")
    with Store(engine) as store:
        store.create("m", CONTRACT).add(**people(range(5)))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA secure_delete").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()
