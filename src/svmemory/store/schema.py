"""Tables of a store; how those of an older version are brought up to date is in migrations.py.

Ids and subjects are kept as UTF-8 bytes, numbers as little-endian float64, and reals of a contract
in C99 hex: nothing depends on a server's encoding, collation or printing of floats.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    text,
)

from ..errors import StoreError

VERSION = 2
"""Version of the tables below, kept in ``svm_store``."""

metadata = MetaData()

facts = Table(
    "svm_store",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""Counters of the whole store: "version", "erasures" (deletions so far) and "purged" (deletions
whose bytes are known to have left the files)."""

memories = Table(
    "svm_memories",
    metadata,
    Column("memory", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("live", Integer, nullable=False),  # 0: dropped, kept for its receipts and its log
    Column("token", LargeBinary, nullable=False),  # 16 random bytes: which memory this is
    Column("salt", LargeBinary, nullable=False),  # of its tombstones
    Column("gamma", Text, nullable=False),
    Column("mass", Text, nullable=False),
    Column("ridge", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("header", Text, nullable=False),
    Column("sealed", Integer, nullable=False),  # 1: rows are encrypted
    Column("generation", BigInteger, nullable=False),  # counts changes
    Column("next_row", BigInteger, nullable=False),
    Column("next_id", BigInteger, nullable=False),
    Column("held", BigInteger),  # rows in svm_rows
    Column("erased", LargeBinary),  # checksum of the lines in svm_tombstones
    Column("vault", LargeBinary),  # which vault has its keys
    Column("digest", LargeBinary),  # of all the columns of this line; see records.py
)
Index(
    "svm_live_names",
    memories.c.name,
    unique=True,
    sqlite_where=memories.c.live == 1,
    postgresql_where=memories.c.live == 1,
)

rows = Table(
    "svm_rows",
    metadata,
    Column("memory", Integer, primary_key=True),
    Column("row", BigInteger, primary_key=True),  # order of arrival
    Column("time", BigInteger, nullable=False),  # microseconds since 1970, UTC
    Column("id", LargeBinary),  # null in an encrypted memory
    Column("subject", LargeBinary),
    Column("key", LargeBinary, nullable=False),  # in an encrypted memory: the sealed row
    Column("value", LargeBinary),
    Column("vault_key", LargeBinary),  # name of the key that opens a sealed row
)
Index("svm_row_ids", rows.c.memory, rows.c.id, unique=True)


class Line(NamedTuple):
    """One line of ``svm_rows``."""

    memory: int
    row: int
    time: int
    id: bytes | None
    subject: bytes | None
    key: bytes
    value: bytes | None
    vault_key: bytes | None


supports = Table(
    "svm_supports",
    metadata,
    Column("memory", Integer, primary_key=True, autoincrement=False),
    Column("mu", Text, nullable=False),
    Column("rows", LargeBinary, nullable=False),  # int64
    Column("masses", LargeBinary, nullable=False),  # float64
    Column("checksum", LargeBinary, nullable=False),  # of the lines in svm_rows
)

tombstones = Table(
    "svm_tombstones",
    metadata,
    Column("memory", Integer, primary_key=True),
    Column("commitment", LargeBinary, primary_key=True),
    Column("time", BigInteger, nullable=False),
)

receipts = Table(
    "svm_receipts",
    metadata,
    Column("memory", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("document", Text, nullable=False),
)

log = Table(
    "svm_log",
    metadata,
    Column("memory", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("entry", LargeBinary, nullable=False),
)

shreds = Table(
    "svm_shreds",
    metadata,
    Column("memory", Integer, primary_key=True),
    Column("vault_key", LargeBinary, primary_key=True),
)
"""Keys whose rows are gone and that the vault has still to destroy."""

CONTENT = (rows, supports, tombstones)
"""Tables that hold a memory's rows or something derived from them."""


def version_of(connection: Connection) -> int | None:
    """Version of the tables in a database; None if it has none."""
    if not inspect(connection).has_table(facts.name):
        return None
    found = connection.scalar(select(facts.c.number).where(facts.c.name == "version"))
    if not isinstance(found, int):
        raise StoreError("this store has no version; it is damaged")
    return found


def require_free(connection: Connection) -> None:
    """Raise StoreError if a database has tables that a new store would work upon.

    In an SQLite file those are any: a store rewrites the whole file, and numbers the rows of other
    tables anew. On a server a store touches nothing but its own tables.
    """
    foreign = inspect(connection).get_table_names() if connection.dialect.name == "sqlite" else []
    if foreign:
        raise StoreError(
            f"{connection.engine.url.database}: a database, but no store: it has the table"
            f" {foreign[0]!r}; name a file of its own"
        )


def create(connection: Connection) -> None:
    """Make all tables; none may exist."""
    require_free(connection)
    metadata.create_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        # Statistics would keep copies of ids, subjects and keys in another table.
        for name in ("id", "subject", "key", "value", "vault_key"):
            connection.execute(text(f"ALTER TABLE svm_rows ALTER COLUMN {name} SET STATISTICS 0"))
    for name, number in (("version", VERSION), ("erasures", 0), ("purged", 0)):
        connection.execute(facts.insert().values(name=name, number=number))
