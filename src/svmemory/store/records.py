"""A memory's own line in the store: contract, header, counters, and its receipts.

The line has a digest of all its columns, and says how many rows and which tombstones the memory
has. So lines that were lost or altered by another program are noticed, and never pass for a memory
that is as it should be. It finds damage: who can write to the store can also write another digest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, func, select, update

from ..contract import KERNEL_VERSION, Contract
from ..digest import canonical_json, contract_fields
from ..errors import InputError, StoreError, SVMemoryError
from . import checksum, schema
from .evidence import log_of
from .results import Receipt

if TYPE_CHECKING:
    from ..certificate.log import Log

_DOMAIN = b"svmemory-store-memory-1\0"
_COVERED = [
    column.name for column in schema.memories.columns if column.name not in ("memory", "digest")
]


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
    held : int
        Number of rows.
    erased : bytes
        Checksum of its tombstones.
    vault : bytes or None
        Which vault has its keys; None if they are in none, or if it was made by version 1.
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
    held: int
    erased: bytes
    vault: bytes | None

    def columns(self) -> dict[str, Any]:
        """The line, with its digest."""
        values: dict[str, Any] = {
            "name": self.name,
            "live": 1,
            "token": self.token,
            "salt": self.salt,
            **contract_fields(self.contract),
            "header": _json(self.header),
            "sealed": int(self.sealed),
            "generation": self.generation,
            "next_row": self.next_row,
            "next_id": self.next_id,
            "held": self.held,
            "erased": self.erased,
            "vault": self.vault,
        }
        return {**values, "digest": digest_of(values)}


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
    connection: Connection,
    name: str,
    contract: Contract,
    header: dict[str, Any],
    vault: bytes | None,
) -> Record:
    """Enter a new memory without rows; encrypted if it has a vault."""
    new = Record(
        memory=0,
        name=name,
        token=os.urandom(16),
        salt=os.urandom(32),
        contract=contract,
        header=header,
        sealed=vault is not None,
        generation=0,
        next_row=0,
        next_id=0,
        held=0,
        erased=checksum.as_bytes(0),
        vault=vault,
    )
    made = connection.execute(schema.memories.insert().values(**new.columns()))
    (number,) = made.inserted_primary_key or (0,)
    return replace(new, memory=number)


def find(connection: Connection, name: str) -> Record:
    """The live memory of this name; InputError if there is none."""
    table = schema.memories
    # Not "live is 1": a memory whose mark was altered should be called damaged, not absent.
    query = select(table).where(table.c.name == name, table.c.live != 0)
    with undamaged(name):
        line = connection.execute(query).first()
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
    query = select(table).where(table.c.memory == known.memory, table.c.live != 0)
    with undamaged(known.name):
        line = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if line is None:
        raise StoreError(f"memory {known.name!r} was dropped from the store")
    record = _decoded(line)
    if record.token != known.token:
        raise StoreError(f"memory {known.name!r} was dropped from the store")
    return record


def advance(
    connection: Connection, record: Record, held: int, rows: int = 0, next_id: int = 0
) -> Record:
    """Note a change: one generation on, ``held`` rows now, and ``rows`` row numbers used."""
    new = replace(
        record,
        generation=record.generation + 1,
        next_row=record.next_row + rows,
        next_id=max(record.next_id, next_id),
        held=held,
    )
    connection.execute(
        update(schema.memories)
        .where(schema.memories.c.memory == record.memory)
        .values(**new.columns())
    )
    return new


def drop(connection: Connection, record: Record) -> None:
    """Delete everything derived from rows; name, receipts and log stay."""
    for table in (*schema.CONTENT, schema.shreds):
        connection.execute(delete(table).where(table.c.memory == record.memory))
    connection.execute(
        update(schema.memories)
        .where(schema.memories.c.memory == record.memory)
        .values(
            live=0, header="{}", salt=b"", next_row=0, next_id=0, held=0, erased=None, digest=None
        )
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
    try:
        yield from [json.loads(document) for document in connection.scalars(query)]
    except (TypeError, ValueError) as error:
        raise StoreError(f"the receipts of a memory are damaged ({error})") from None


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


def digest_of(columns: Mapping[str, Any]) -> bytes:
    """SHA-256 of the columns of a memory's line; a column of another type is another column.

    Raises
    ------
    TypeError
        If a column is no text, bytes, whole number or None.
    """
    hasher = hashlib.sha256(_DOMAIN)
    for name in _COVERED:
        value = columns[name]
        if isinstance(value, int):
            part = b"i%d" % value
        elif isinstance(value, str):
            part = b"s" + value.encode()
        else:
            part = b"-" if value is None else b"b" + memoryview(value)
        hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.digest()


@contextmanager
def undamaged(name: str) -> Iterator[None]:
    """Raise what a line with columns of wrong types leads to as a StoreError that names a memory.

    SQLite keeps whatever it is given, in whatever column.
    """
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, SVMemoryError):
            raise
        raise StoreError(f"memory {name!r} is damaged: {error}") from None


def _decoded(line: Row[Any]) -> Record:
    with undamaged(line.name):
        if line.digest is None or digest_of(line._asdict()) != bytes(line.digest):
            raise StoreError(
                f"memory {line.name!r} is damaged: its contract, its counters, its header or the"
                " salt of its tombstones are not those that were written"
            )
        if line.kernel != KERNEL_VERSION:
            raise StoreError(
                f"memory {line.name!r} has the kernel {line.kernel!r}; this is {KERNEL_VERSION!r}"
            )
        numbers = [float.fromhex(text) for text in (line.gamma, line.mass, line.ridge)]
        return Record(
            line.memory,
            line.name,
            bytes(line.token),
            bytes(line.salt),
            Contract(*numbers),
            json.loads(line.header),
            bool(line.sealed),
            line.generation,
            line.next_row,
            line.next_id,
            line.held,
            bytes(line.erased),
            None if line.vault is None else bytes(line.vault),
        )
