"""A memory's own line in the store: contract, header, counters, and its receipts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, func, select, update

from ..contract import KERNEL_VERSION, Contract
from ..digest import canonical_json, contract_fields
from ..errors import ContractError, InputError, StoreError
from . import schema
from .evidence import log_of
from .results import Receipt

if TYPE_CHECKING:
    from ..certificate.log import Log


@dataclass(frozen=True)
class Record:
    """One line of ``svm_memories``, decoded.

    Attributes
    ----------
    memory : int
        Number of the memory in the tables.
    name : str
    token : bytes
        Random name that no other memory has.
    salt : bytes
        Of its tombstones.
    contract : Contract
    header : dict
    sealed : bool
        Whether rows are encrypted.
    generation : int
        Goes up with every change.
    next_row, next_id : int
        Numbers that no row has had.
    """

    memory: int
    name: str
    token: bytes
    salt: bytes
    contract: Contract
    header: dict[str, Any]
    sealed: bool
    generation: int
    next_row: int
    next_id: int


@dataclass(frozen=True)
class Listed:
    """A memory in a list: its name, rows held, changes so far, and whether it is encrypted."""

    name: str
    rows: int
    changes: int
    encrypted: bool


@dataclass(frozen=True)
class Archive:
    """What is left of a dropped memory: its receipts, oldest first, and its log."""

    name: str
    receipts: list[dict[str, Any]]
    log: Log


def create(
    connection: Connection, name: str, contract: Contract, header: dict[str, Any], sealed: bool
) -> None:
    """Enter a new memory without rows."""
    connection.execute(
        schema.memories.insert().values(
            name=name,
            live=1,
            token=os.urandom(16),
            salt=os.urandom(32),
            **contract_fields(contract),
            header=_json(header),
            sealed=int(sealed),
            generation=0,
            next_row=0,
            next_id=0,
        )
    )


def find(connection: Connection, name: str) -> Record:
    """The live memory of this name; InputError if there is none."""
    table = schema.memories
    line = connection.execute(
        select(table).where(table.c.name == name, table.c.live == 1)
    ).one_or_none()
    if line is None:
        known = connection.scalars(
            select(table.c.name).where(table.c.live == 1).order_by(table.c.name).limit(6)
        ).all()
        listed = ", ".join(map(repr, known[:5])) + (", ..." if len(known) > 5 else "")
        raise InputError(f"the store holds no memory {name!r}; it holds {listed or 'none'}")
    return _decoded(line)


def listing(connection: Connection) -> list[Listed]:
    """All live memories by name; no row is read."""
    table, rows = schema.memories, schema.rows
    query = (
        select(table.c.name, func.count(rows.c.row), table.c.generation, table.c.sealed)
        .select_from(table.outerjoin(rows, table.c.memory == rows.c.memory))
        .where(table.c.live == 1)
        .group_by(table.c.name, table.c.generation, table.c.sealed)
    )
    found = [
        Listed(name, n, age, bool(sealed)) for name, n, age, sealed in connection.execute(query)
    ]
    return sorted(found, key=lambda listed: listed.name)


def archives(connection: Connection, name: str) -> list[Archive]:
    """Dropped memories of a name, oldest first."""
    table = schema.memories
    query = (
        select(table.c.memory)
        .where(table.c.name == name, table.c.live == 0)
        .order_by(table.c.memory)
    )
    return [
        Archive(name, list(kept_receipts(connection, memory)), log_of(connection, memory))
        for memory in connection.scalars(query).all()
    ]


def again(connection: Connection, known: Record, lock: bool) -> Record:
    """The record as it is now, which nobody else can change if ``lock``ed."""
    table = schema.memories
    query = select(table).where(table.c.memory == known.memory, table.c.live == 1)
    line = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if line is None or bytes(line.token) != known.token:
        raise StoreError(f"memory {known.name!r} was dropped from the store")
    return _decoded(line)


def advance(connection: Connection, record: Record, rows: int = 0, next_id: int = 0) -> Record:
    """Note a change: one generation on, and ``rows`` row numbers used."""
    new = replace(
        record,
        generation=record.generation + 1,
        next_row=record.next_row + rows,
        next_id=max(record.next_id, next_id),
    )
    connection.execute(
        update(schema.memories)
        .where(schema.memories.c.memory == record.memory)
        .values(generation=new.generation, next_row=new.next_row, next_id=new.next_id)
    )
    return new


def write_header(connection: Connection, record: Record, header: dict[str, Any]) -> None:
    """Replace the user's notes."""
    connection.execute(
        update(schema.memories)
        .where(schema.memories.c.memory == record.memory)
        .values(header=_json(header))
    )


def drop(connection: Connection, record: Record) -> None:
    """Delete everything derived from rows; name, receipts and log stay."""
    for table in (*schema.CONTENT, schema.shreds):
        connection.execute(delete(table).where(table.c.memory == record.memory))
    connection.execute(
        update(schema.memories)
        .where(schema.memories.c.memory == record.memory)
        .values(live=0, header="{}", salt=b"", next_row=0, next_id=0)
    )


def next_receipt(connection: Connection, memory: int) -> int:
    """Number of the next receipt."""
    table = schema.receipts
    last = connection.scalar(select(func.max(table.c.number)).where(table.c.memory == memory))
    return int(last or 0) + 1


def keep_receipt(connection: Connection, memory: int, receipt: Receipt) -> None:
    """Enter a receipt, without ids."""
    connection.execute(
        schema.receipts.insert().values(
            memory=memory,
            number=receipt.number,
            document=canonical_json(receipt.kept()).decode(),
        )
    )


def kept_receipts(connection: Connection, memory: int) -> Iterator[dict[str, Any]]:
    """Receipts in order."""
    table = schema.receipts
    query = select(table.c.document).where(table.c.memory == memory).order_by(table.c.number)
    for document in connection.scalars(query):
        yield json.loads(document)


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _json(header: dict[str, Any]) -> str:
    """Notes as text that loses nothing; InputError if they are not JSON."""
    try:
        text = canonical_json(header).decode()
        same = json.loads(text) == header
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the header cannot be written as JSON: {error}") from None
    if not isinstance(header, dict) or not same:
        raise InputError("the header would not be the same after writing: keys must be strings")
    return text


def _decoded(line: Row[Any]) -> Record:
    if line.kernel != KERNEL_VERSION:
        raise StoreError(
            f"memory {line.name!r} has the kernel {line.kernel!r}; this is {KERNEL_VERSION!r}"
        )
    try:
        numbers = [float.fromhex(text) for text in (line.gamma, line.mass, line.ridge)]
        contract = Contract(*numbers)
        header = json.loads(line.header)
    except (ValueError, OverflowError, ContractError) as error:
        raise StoreError(f"memory {line.name!r} is damaged ({error})") from None
    return Record(
        line.memory,
        line.name,
        bytes(line.token),
        bytes(line.salt),
        contract,
        header,
        bool(line.sealed),
        line.generation,
        line.next_row,
        line.next_id,
    )
