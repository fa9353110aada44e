"""Erased ids, remembered as salted commitments: enough to know one again, not to read it.

The salt is the memory's own and lies in the same store, because every new id is looked up. So
whoever holds the store can test a guess, and learn that this id was erased; nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from . import schema
from .records import Record
from .vault import batches

_DOMAIN = b"svmemory-tombstone-1\0"


def commitment(salt: bytes, name: str) -> bytes:
    """SHA-256 of domain, salt and id."""
    return hashlib.sha256(_DOMAIN + salt + name.encode()).digest()


def erased(connection: Connection, record: Record, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that have a tombstone."""
    table = schema.tombstones
    known = {commitment(record.salt, name): name for name in names}
    found: set[bytes] = set()
    for batch in batches(known):
        query = select(table.c.commitment).where(
            table.c.memory == record.memory, table.c.commitment.in_(batch)
        )
        found.update(map(bytes, connection.scalars(query)))
    return [name for mark, name in known.items() if mark in found]


def put(connection: Connection, record: Record, names: Sequence[str], time: int) -> None:
    """Give ids tombstones; none has one yet, since held ids have none."""
    connection.execute(
        insert(schema.tombstones),
        [
            {
                "memory": record.memory,
                "commitment": commitment(record.salt, name),
                "time": time,
            }
            for name in names
        ],
    )


def lift(connection: Connection, record: Record, names: Sequence[str]) -> None:
    """Take the tombstones of ids away."""
    table = schema.tombstones
    for batch in batches(commitment(record.salt, name) for name in names):
        connection.execute(
            delete(table).where(table.c.memory == record.memory, table.c.commitment.in_(batch))
        )
