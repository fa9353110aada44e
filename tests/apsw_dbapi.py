"""As much of Python's database interface over apsw as SQLAlchemy's SQLite dialect needs.

Python's own SQLite may be built with ``secure_delete`` on; apsw's is not, so that what the store
sets itself can be told from what a build happens to do.
"""

from __future__ import annotations

from typing import Any

import apsw

paramstyle = "qmark"
threadsafety = 1
sqlite_version_info = tuple(map(int, apsw.sqlite_lib_version().split(".")))
Binary = bytes
Error = Warning = apsw.Error
InterfaceError = DatabaseError = DataError = OperationalError = apsw.Error
IntegrityError = apsw.ConstraintError
InternalError = ProgrammingError = NotSupportedError = apsw.Error


class Cursor:
    arraysize = 1

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    def execute(self, sql: str, parameters: Any = ()) -> None:
        self.description = None
        cursor = self._connection.cursor()
        cursor.exec_trace = self._describe  # the only moment at which a result without rows has one
        cursor.execute(sql, tuple(parameters))
        self._rows = list(cursor)
        self._count()

    def _describe(self, cursor: apsw.Cursor, _sql: str, _parameters: Any) -> bool:
        columns = cursor.get_description()
        self.description = [(*column, *[None] * 5) for column in columns] or None
        return True

    def executemany(self, sql: str, parameters: Any) -> None:
        self._connection.executemany(sql, parameters)
        self.description, self._rows = None, []
        self._count()

    def _count(self) -> None:
        self.rowcount = self._connection.changes()
        self.lastrowid = self._connection.last_insert_rowid()

    def fetchone(self) -> Any:
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int = 1) -> Any:
        taken, self._rows = self._rows[:size], self._rows[size:]
        return taken

    def fetchall(self) -> Any:
        taken, self._rows = self._rows, []
        return taken

    def close(self) -> None:
        self._rows = []


class Connection:
    isolation_level: str | None = ""

    def __init__(self, filename: str, vfs: str | None = None) -> None:
        self._connection = apsw.Connection(filename, vfs=vfs)

    def cursor(self) -> Cursor:
        return Cursor(self._connection)

    def create_function(self, *arguments: Any, **_options: Any) -> None:
        """SQLAlchemy's helpers, which the store does not use."""

    def commit(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


def connect(filename: str, **_options: Any) -> Connection:
    return Connection(filename)
