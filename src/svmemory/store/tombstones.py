"""Erased ids, remembered as salted commitments: enough to know one again, not to read it.

The salt is the memory's own and lies in the same store, because every new id is looked up. So
whoever holds the store can test a guess, and learn that this id was erased; nothing else. The
memory's line covers the salt and a checksum of the commitments: if they were altered, erased ids
would come back unnoticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, delete, insert, select

from ..errors import StoreError
from . import checksum, schema
from .records import Record, undamaged
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


def put(connection: Connection, record: Record, names: Sequence[str], time: int) -> Record:
    """Give ids tombstones; none has one yet, since held ids have none. Returns the new record."""
    marks = [commitment(record.salt, name) for name in names]
    connection.execute(
        insert(schema.tombstones),
        [{"memory": record.memory, "commitment": mark, "time": time} for mark in marks],
    )
    return _counted(record, marks, 1)


def lift(connection: Connection, record: Record, names: Sequence[str]) -> Record:
    """Take the tombstones of ids away; returns the new record."""
    table = schema.tombstones
    marks = [commitment(record.salt, name) for name in names]
    for batch in batches(marks):
        connection.execute(
            delete(table).where(table.c.memory == record.memory, table.c.commitment.in_(batch))
        )
    return _counted(record, marks, -1)


def checksum_of(connection: Connection, memory: int) -> bytes:
    """Checksum of a memory's tombstones."""
    table = schema.tombstones
    query = select(table.c.commitment).where(table.c.memory == memory)
    return checksum.as_bytes(checksum.marked(0, map(bytes, connection.scalars(query))))


def require(connection: Connection, record: Record) -> None:
    """Raise StoreError unless the tombstones are those that were written."""
    with undamaged(record.name):
        found = checksum_of(connection, record.memory)
    if found != record.erased:
        raise StoreError(
            f"memory {record.name!r} is damaged: its tombstones are not those that were written, so"
            " erased ids could come back; restore a backup"
        )


def _counted(record: Record, marks: Sequence[bytes], sign: int) -> Record:
    before = int.from_bytes(record.erased, "little")
    return replace(record, erased=checksum.as_bytes(checksum.marked(before, marks, sign)))
