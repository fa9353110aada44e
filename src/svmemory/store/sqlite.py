"""SQLite: many processes on one file, and no bytes of a deleted row in it.

- WAL: readers do not wait for a writer, and a crash leaves the last committed state.
- ``secure_delete``: deleted content is overwritten with zeros. Set on every connection, because
  builds differ in their default.
- Copies that rebalancing left in the unused middle of a page escape ``secure_delete``: the purge
  rewrites the whole file (``VACUUM``) and empties the WAL.
- ``temp_store``: the rewriting is done in memory, not in a temporary file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL

from ..errors import StoreError

WAIT = 30.0
"""Seconds to wait for another process."""

_WRITE = "svmemory_write"
_OURS = ("svm_store", "svm_keys")  # a table that every store has, and one of every vault


class SQLite:
    """The particulars of SQLite.

    Parameters
    ----------
    url : URL
    create : bool
        Whether the file may be made.
    what : str
        "store" or "vault", for messages.

    Raises
    ------
    StoreError
        If there is no file, or it is something else.
    """

    def __init__(self, url: URL, create: bool, what: str) -> None:
        name = url.database
        if not name or name == ":memory:" or "mode" in url.query:
            raise StoreError(f"a {what} in memory would not outlive its connection; name a file")
        self.path = Path(name.removeprefix("file:") if name.startswith("file:") else name)
        if self.path.is_dir():
            raise StoreError(f"{self.path}: a folder, not a {what}")
        if not self.path.exists() and not create:
            raise StoreError(f"{self.path}: no such {what}")
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: its folder does not exist")

    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    def prepare(self, engine: Engine) -> None:
        """Set up every connection that ``engine`` will open."""
        if not event.contains(engine, "connect", _configure):
            event.listen(engine, "connect", _configure)
            event.listen(engine, "begin", _begin)
            engine.dispose()  # connections opened before this have other settings

    def read_options(self) -> dict[str, object]:
        """Execution options of a transaction that sees one moment."""
        return {_WRITE: False}

    def write_options(self) -> dict[str, object]:
        """Execution options of a transaction that will write."""
        return {_WRITE: True}

    def lock_all(self, connection: Connection) -> None:
        """Nothing: there is one writer at a time anyway."""

    def purge(self, engine: Engine, waiting: Callable[[str], None] | None) -> str | None:
        """Rewrite the file and empty the WAL; why that could not be done, or None."""
        raw = engine.raw_connection()
        try:
            cursor = raw.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA busy_timeout=20")  # the waiting is done here, to say so
            until = time.monotonic() + WAIT
            while True:
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                busy = cursor.fetchone()
                if busy is None or not busy[0]:
                    return None
                now = time.monotonic()
                if now > until:
                    return "another connection is in a transaction, so the WAL could not be emptied"
                if waiting is not None and now > until - WAIT + WAIT / 30:
                    waiting(f"a reader holds up the purge; waiting for it, at most {WAIT:g} s")
                    waiting = None
                time.sleep(0.02)
        except engine.dialect.loaded_dbapi.Error as error:
            return self.explain(str(error))
        finally:
            with suppress(engine.dialect.loaded_dbapi.Error):
                raw.cursor().execute(f"PRAGMA busy_timeout={int(1000 * WAIT)}")
            raw.close()

    def explain(self, message: str) -> str:
        """A driver's message as a sentence for people."""
        found = [text for part, text in _EXPLAINED.items() if part in message.lower()]
        return f"{found[0]} ({message})" if found else message


_EXPLAINED = {
    "disk is full": "the disk is full; nothing was changed",
    "disk i/o error": "the disk cannot be written or read; nothing was changed",
    "readonly database": "the store cannot be written; SQLite needs to write the file and its"
    " folder, also for reading",
    "unable to open": "the store cannot be opened; SQLite needs to write the file and its folder,"
    " also for reading",
    "not a database": "not a store: the file is no SQLite database",
    "malformed": "the store is damaged",
    "no such table: svm_": "the store is damaged: a table is missing",
    "no such column": "the store is damaged: a column is missing",
    "locked": "another program has kept the store locked for too long; try again",
}


def _configure(connection: Any, _record: object) -> None:
    """Settings of one connection; each is checked, because SQLite ignores what it does not know."""
    connection.isolation_level = None  # transactions begin where _begin says
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(1000 * WAIT)}")
    for pragma, value, meaning in (
        ("secure_delete", 1, "overwrite deleted rows"),
        ("temp_store", 2, "keep temporary data in memory"),
        ("synchronous", 2, "wait for the disk"),
    ):
        cursor.execute(f"PRAGMA {pragma}={value}")
        cursor.execute(f"PRAGMA {pragma}")
        if int(cursor.fetchone()[0]) != value:
            raise StoreError(f"this build of SQLite cannot {meaning} ({pragma})")
    cursor.execute("PRAGMA journal_mode")
    if cursor.fetchone()[0] != "wal":
        _require_ours(cursor)  # first: the journal mode stays with the file
        _switch_to_wal(cursor)
    cursor.close()


def _switch_to_wal(cursor: Any) -> None:
    """Ask for a WAL; not everywhere there can be one: network folders have no shared memory.

    Of two connections that ask at once, SQLite refuses one without waiting.
    """
    until = time.monotonic() + WAIT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.fetchone()
            return
        except Exception as error:  # of whatever driver
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _require_ours(cursor: Any) -> None:
    """Raise StoreError if the file is another program's."""
    cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    names = [str(line[0]) for line in cursor.fetchall()]
    if not names or any(name in _OURS for name in names):
        return
    cursor.execute("PRAGMA database_list")
    path = cursor.fetchone()[2]
    raise StoreError(
        f"{path}: a database, but no store: it has the table {names[0]!r} of another program;"
        " name a file of its own"
    )


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def make_private(path: Path) -> None:
    """Let only the owner read a file, made empty if need be; its journals get the same rights."""
    try:
        path.touch(0o600)
        path.chmod(0o600)
    except OSError as error:
        raise StoreError(f"{path}: cannot be made private ({error.strerror})") from None
