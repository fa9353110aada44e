"""After forget no file of the store has a byte string of the row, shown present before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest
from sqlalchemy import create_engine, text

import apsw_dbapi
from stores import found, needles, postgres
from svmemory import Contract
from svmemory.errors import InputError
from svmemory.store import Store, StoredMemory

ROWS, GONE = 2000, 100
CONTRACT = Contract.from_nu(0.2, ROWS, gamma=0.05)
KEYS = np.random.default_rng(5).normal(size=(ROWS, 8))
VALUES = np.random.default_rng(6).normal(size=(ROWS, 2))
IDS = [f"identity-{i:05d}" for i in range(ROWS)]
SUBJECTS = [f"patient-{i:05d}" for i in range(ROWS)]


def traces(rows: range) -> list[bytes]:
    """What rows might leave: keys and values in six encodings, texts of ids and subjects."""
    listed = [IDS[i].encode() for i in rows] + [SUBJECTS[i].encode() for i in rows]
    for i in rows:
        listed += needles(KEYS[i]) + needles(VALUES[i])
    return listed


def stored(rows: range) -> list[bytes]:
    """What rows do leave while they are held."""
    return [KEYS[i].tobytes() for i in rows]


def fill(memory: StoredMemory) -> None:
    """In several batches, so that pages are split and rebalanced."""
    order = np.random.default_rng(7).permutation(ROWS)
    for part in np.array_split(order, 8):
        chosen = part.tolist()
        memory.add(
            KEYS[part],
            VALUES[part],
            ids=[IDS[i] for i in chosen],
            subjects=[SUBJECTS[i] for i in chosen],
        )


def engine_of(driver: str, path: Path) -> object:
    if driver == "apsw":
        return create_engine(f"sqlite:///{path}", module=apsw_dbapi)
    return create_engine(f"sqlite:///{path}")


@pytest.mark.parametrize("driver", ["sqlite3", "apsw"])
def test_nothing_is_left_in_sqlite_files(driver: str, tmp_path: Path) -> None:
    first, rest, live = range(GONE), range(GONE, ROWS), range(ROWS - 3, ROWS)
    engine = engine_of(driver, tmp_path / "store.db")
    store = Store(engine)
    memory = store.create("m", CONTRACT)
    fill(memory)
    for row in first:
        assert found(tmp_path, stored(range(row, row + 1))) > 0  # presence before absence
    receipt = memory.forget(ids=IDS[:GONE])
    assert (len(receipt.removed), receipt.purged) == (GONE, "done")
    assert found(tmp_path, traces(first)) == 0  # with the database open
    assert found(tmp_path, stored(live)) >= len(live)  # the search does find what is there
    engine.dispose()
    assert found(tmp_path, traces(first)) == 0
    assert found(tmp_path, stored(live)) >= len(live)

    store = Store(engine)
    memory = store.open("m")
    assert len(memory) == ROWS - GONE
    memory.forget(ids=IDS[GONE:])
    assert found(tmp_path, traces(range(ROWS))) == 0
    engine.dispose()
    assert found(tmp_path, traces(range(ROWS))) == 0

    store = Store(engine)
    memory = store.open("m")
    memory.add(KEYS[rest], ids=IDS[GONE:], readmit=True)
    assert found(tmp_path, stored(live)) >= len(live)
    assert store.drop("m").purged == "done"
    assert found(tmp_path, traces(range(ROWS))) == 0
    engine.dispose()
    assert found(tmp_path, traces(range(ROWS))) == 0


def test_that_build_of_sqlite_leaves_bytes_by_itself(tmp_path: Path) -> None:
    """Otherwise the test above would not show that the store does anything."""
    connection = apsw.Connection(str(tmp_path / "plain.db"))
    connection.execute("CREATE TABLE t (x BLOB)")
    with connection:
        connection.executemany("INSERT INTO t VALUES (?)", [(k.tobytes(),) for k in KEYS[:500]])
    connection.execute("DELETE FROM t")
    connection.close()
    assert found(tmp_path, stored(range(500))) > 0


def test_secure_delete_is_not_enough_and_rewriting_is(tmp_path: Path) -> None:
    """Why a deletion rewrites the file: rows that moved between pages have left copies."""
    left, after = 0, 0
    for seed in range(6):
        draw = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        connection = apsw.Connection(str(folder / "plain.db"))
        connection.execute("PRAGMA journal_mode=WAL; PRAGMA secure_delete=ON; PRAGMA temp_store=2")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB)")
        live: dict[bytes, bytes] = {}
        dead = []
        for _ in range(60):
            with connection:
                for _ in range(30):
                    key, value = draw.randbytes(8), draw.randbytes(draw.choice([16, 64, 700, 1500]))
                    live[key] = value
                    connection.execute("INSERT INTO t VALUES (?, ?)", (key, value))
                for key in draw.sample(list(live), 25):
                    dead.append(live.pop(key))
                    connection.execute("DELETE FROM t WHERE k = ?", (key,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        left += found(folder, dead)
        connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        after += found(folder, dead)
        connection.close()
    assert left > 0
    assert after == 0


def test_expired_and_evicted_rows_leave_nothing_either(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        memory = store.create("m", CONTRACT)
        memory.add(KEYS[:50], VALUES[:50], IDS[:50], SUBJECTS[:50], times=["2020-01-01"] * 50)
        memory.add(KEYS[50:300], VALUES[50:300], IDS[50:300], SUBJECTS[50:300])
        assert found(tmp_path, stored(range(50))) >= 50
        memory.expire("2021-01-01")
        assert found(tmp_path, traces(range(50))) == 0
        gone = [IDS.index(name) for name in memory.evict(100).removed]
        for row in gone:
            assert found(tmp_path, traces(range(row, row + 1))) == 0
        assert found(tmp_path, [KEYS[IDS.index(memory.ids[0])].tobytes()]) == 1


def test_a_purge_that_a_reader_holds_up_is_reported_and_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("svmemory.store.sqlite.WAIT", 0.2)
    said: list[str] = []
    store = Store(tmp_path / "store.db", waiting=said.append)
    memory = store.create("m", CONTRACT)
    memory.add(KEYS[:50], VALUES[:50], IDS[:50], SUBJECTS[:50])
    with store.database.reading() as reader:
        reader.execute(text("SELECT count(*) FROM svm_rows")).scalar()  # a snapshot from before
        receipt = memory.forget(ids=IDS[:5])
        assert receipt.kind == "forgotten"
        assert receipt.purged.startswith("pending: ")
        assert receipt.pending
        assert said == ["a reader holds up the purge; waiting for it, at most 0.2 s"]
        assert found(tmp_path, stored(range(5))) > 0
    assert store.purge() is None
    assert found(tmp_path, traces(range(5))) == 0
    store.close()


def test_a_purge_can_be_left_for_later(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db", purge="later") as store:
        memory = store.create("m", CONTRACT)
        memory.add(KEYS[:50], VALUES[:50], IDS[:50], SUBJECTS[:50])
        for i in range(3):
            assert memory.forget(ids=IDS[i]).purged == "pending: left to a later purge"
        assert found(tmp_path, stored(range(3))) > 0
        assert store.purge() is None
        assert found(tmp_path, traces(range(3))) == 0
    with pytest.raises(InputError, match="'now' or 'later'"):
        Store(tmp_path / "store.db", purge="never")  # type: ignore[arg-type]


def test_opening_finishes_a_purge_that_a_crash_prevented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store.db")
    memory = store.create("m", CONTRACT)
    memory.add(KEYS[:50], VALUES[:50], IDS[:50], SUBJECTS[:50])
    keeper = Store(tmp_path / "store.db")  # so that closing the other does not empty the WAL

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("svmemory.store.database.Database.purge", crash)
        with pytest.raises(KeyboardInterrupt):
            memory.forget(ids=IDS[:5])
    store.close()
    assert found(tmp_path, stored(range(5))) > 0
    with Store(tmp_path / "store.db") as again:
        assert len(again.open("m")) == 45
        assert found(tmp_path, traces(range(5))) == 0
    keeper.close()


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Path]]:
    for url, files in postgres():
        if files is None:
            pytest.skip("the files of the server in SVMEMORY_TEST_POSTGRES cannot be looked at")
        yield url, files


def test_postgres_table_files_are_clean_and_its_wal_is_not(server: tuple[str, Path]) -> None:
    url, files = server
    rows = range(20)
    with Store(url) as store:
        memory = store.create("m", CONTRACT)
        memory.add(KEYS[:400], VALUES[:400], IDS[:400], SUBJECTS[:400])
        engine = store.database.engine

        def settled() -> None:
            """Statistics made, and all pages written to their files."""
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("ANALYZE"))
                connection.execute(text("CHECKPOINT"))

        settled()
        assert found(files / "base", stored(rows)) >= len(rows)
        receipt = memory.forget(ids=IDS[:20])
        assert receipt.purged == "done"
        settled()
        assert found(files / "base", traces(rows)) == 0
        assert found(files / "base", stored(range(397, 400))) >= 3
        # What the table of sinks in docs/how-to/store.md says is not reached:
        assert found(files / "pg_wal", stored(rows)) > 0


class Watching(apsw.VFS):
    """Notes the files that SQLite opens; a temporary one has no name."""

    def __init__(self) -> None:
        super().__init__("watching", "")
        self.opened: set[str] = set()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.opened.add("temporary" if path is None else Path(path).name)
        return super().xOpen(name, flags)


def test_no_temporary_file_is_ever_opened(tmp_path: Path) -> None:
    """One that is deleted at once would escape the scan, and its bytes would be on the disk."""
    watching = Watching()
    path = tmp_path / "store.db"
    wide = np.random.default_rng(8).normal(size=(1500, 256))  # more than SQLite's cache holds
    engine = create_engine(
        f"sqlite:///{path}",
        module=apsw_dbapi,
        creator=lambda: apsw_dbapi.Connection(str(path), vfs="watching"),
    )
    with Store(engine) as store:
        memory = store.create("m", CONTRACT)
        memory.add(wide, ids=IDS[:1500])
        memory.forget(ids=IDS[:GONE])
    engine.dispose()
    assert "store.db-wal" in watching.opened
    assert "temporary" not in watching.opened
    plain = apsw.Connection(str(path), vfs="watching")
    plain.execute("VACUUM")
    plain.close()
    assert "temporary" in watching.opened  # what the store's settings prevent
    watching.unregister()
