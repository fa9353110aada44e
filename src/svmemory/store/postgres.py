"""PostgreSQL: a store for several machines. What it keeps elsewhere is in docs/how-to/store.md.

Deleted rows stay in a table's file until it is rewritten, which ``VACUUM FULL`` does. The server's
write-ahead log, archives and replicas are out of a client's reach.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from . import schema

WAIT = 30
"""Seconds to wait for a table that others use."""

_LOCK = int.from_bytes(b"svmemory", "big") % 2**63


class Postgres:
    """The particulars of PostgreSQL."""

    def prepare(self, engine: Engine) -> None:
        """Nothing: a server's settings are its administrator's."""

    def read_options(self) -> dict[str, object]:
        """Execution options of a transaction that sees one moment."""
        return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

    def write_options(self) -> dict[str, object]:
        """Execution options of a transaction that will write; row locks keep writers apart."""
        return {"isolation_level": "READ COMMITTED", "postgresql_readonly": False}

    def lock_all(self, connection: Connection) -> None:
        """Let nobody else make or change tables until this transaction ends."""
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))

    def exists(self) -> bool:
        """Whether there is a database: connecting will tell."""
        return True

    def purge(self, engine: Engine, waiting: Callable[[str], None] | None) -> str | None:
        """Rewrite the files of all tables that held rows or what is derived from them."""
        with engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.execute(text("SET lock_timeout = '1s'"))
            try:
                for table in (*schema.CONTENT, schema.shreds):
                    vacuum = text(f"VACUUM FULL {table.name}")
                    try:
                        connection.execute(vacuum)
                    except OperationalError as error:
                        if "lock timeout" not in str(error.orig):
                            raise
                        if waiting is not None:
                            waiting(f"the purge waits up to {WAIT} s for others to release a table")
                            waiting = None
                        connection.execute(text(f"SET lock_timeout = '{WAIT}s'"))
                        connection.execute(vacuum)
            finally:
                connection.execute(text("RESET lock_timeout"))
        return None

    def explain(self, message: str) -> str:
        """A driver's message as a sentence for people."""
        for part, meaning in _EXPLAINED.items():
            if part in message.lower():
                return f"{meaning} ({message})"
        return message


_EXPLAINED = {
    "no space left": "the server's disk is full; nothing was changed",
    "connection refused": "the server does not answer",
    'relation "svm_': "the store is damaged: a table is missing",
    "does not exist": "the server knows no such database or role",
    "lock timeout": "others have used a table for too long; try again",
    "read-only transaction": "the server is read-only",
}
