"""How a store of an older version becomes one of the present version."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, func, select, text, update

from ..errors import StoreError
from . import records, schema, tombstones


def upgrade(connection: Connection, version: int) -> None:
    """Bring tables to the present version, inside the caller's transaction.

    Raises
    ------
    StoreError
        If they are newer, or of a version that there never was.
    """
    if version > schema.VERSION:
        raise StoreError(
            f"this store has version {version}, and this svmemory knows versions up to"
            f" {schema.VERSION}: upgrade svmemory"
        )
    while version < schema.VERSION:
        if version not in MIGRATIONS:
            raise StoreError(f"this store has the unknown version {version}; it is damaged")
        MIGRATIONS[version](connection)
        version += 1
        facts = schema.facts
        connection.execute(update(facts).where(facts.c.name == "version").values(number=version))


def _with_digests(connection: Connection) -> None:
    """Version 2: each memory's line says how many rows and which tombstones it has."""
    table, rows = schema.memories, schema.rows
    for name in ("held", "erased", "vault", "digest"):
        kind = table.c[name].type.compile(connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {name} {kind}"))
    for line in connection.execute(select(table).where(table.c.live == 1)).all():
        mine = rows.c.memory == line.memory
        values = {
            **line._asdict(),
            "held": connection.scalar(select(func.count()).select_from(rows).where(mine)),
            "erased": tombstones.checksum_of(connection, line.memory),
        }
        values["digest"] = records.digest_of(values)
        connection.execute(update(table).where(table.c.memory == line.memory).values(values))


MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _with_digests}
"""From each older version, the step to the next."""
