"""A memory's rows, in the tables and in RAM, changed together.

:class:`Content` does not decide when: its caller holds the transaction, and throws the object away
when that fails.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

from ..digest import Rows
from ..errors import StoreError, SVMemoryError
from ..memory import SupportVectorMemory
from . import checksum, schema
from .records import Record
from .sealing import Sealer
from .vault import UnreadableError, Vault

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Folder = str | os.PathLike[str]
Item = TypeVar("Item")

_BATCH = 500  # databases limit the number of parameters of one statement


class Content:
    """Rows of one memory.

    Attributes
    ----------
    memory : SupportVectorMemory
    order : (n,) array of int64
        Row numbers in the tables, aligned with ``memory.ids``.
    """

    def __init__(self, memory: SupportVectorMemory, sealer: Sealer | None) -> None:
        self.memory = memory
        self.order: Ints = np.zeros(0, np.int64)
        self._row_of: dict[str, int] = {}
        self._sealer = sealer
        self._checksum = 0

    # -- reading ----------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        connection: Connection,
        record: Record,
        sealer: Sealer | None,
        cold: Folder | None,
        solve: bool = False,
    ) -> Content:
        """Read all rows and their optimum; nothing is solved, but the optimum is checked.

        Parameters
        ----------
        connection : Connection
        record : Record
        sealer : Sealer or None
            Of an encrypted memory.
        cold : path or None
            As in :class:`svmemory.SupportVectorMemory`.
        solve : bool
            Leave the stored optimum aside and solve afresh.

        Raises
        ------
        StoreError
            If the rows cannot be read or the stored weights are not their optimum.
        """
        memory = SupportVectorMemory.from_contract(record.contract, cold=cold)
        memory.header = record.header
        content = cls(memory, sealer)
        table = schema.rows
        try:
            lines = _lines(connection, table.c.memory == record.memory)
            content._checksum = checksum.added(0, lines)
            if len(lines) != record.held and not solve:
                raise StoreError(f"it should hold {record.held} rows, and {len(lines)} are there")
            if lines:
                plain = lines if sealer is None else sealer.opened(lines)
                content._adopt(connection, record, plain, solve)
        except UnreadableError as error:
            raise StoreError(f"memory {record.name!r} cannot be read: {error}") from None
        except (SVMemoryError, ValueError, TypeError, OverflowError) as error:
            raise StoreError(f"memory {record.name!r} is damaged: {error}") from None
        return content

    def _adopt(
        self, connection: Connection, record: Record, lines: Sequence[schema.Line], solve: bool
    ) -> None:
        ids = [bytes(line.id or b"").decode() for line in lines]
        subjects = [None if s is None else bytes(s).decode() for s in (x.subject for x in lines)]
        keys = _matrix([line.key for line in lines])
        values = _matrix([line.value for line in lines])
        self._enter(ids, [line.row for line in lines])
        if len(self._row_of) != len(ids):
            raise StoreError("an id is held twice")
        if solve:
            self.memory.add(keys, values if values.shape[1] else None, ids, subjects)
            return
        table = schema.supports
        found = connection.execute(
            select(table).where(table.c.memory == record.memory)
        ).one_or_none()
        if found is None:
            raise StoreError("its weights are missing")
        if bytes(found.checksum) != self._checksum_bytes():
            raise StoreError("its rows are not those that were written")
        support = np.frombuffer(found.rows, "<i8")
        masses = np.frombuffer(found.masses, "<f8")
        places = np.searchsorted(self.order, support)
        places[places == len(self.order)] = 0
        if len(support) != len(masses) or (self.order[places] != support).any():
            raise StoreError("its weights belong to other rows")
        b = np.zeros(len(ids))
        b[places] = masses
        rows = Rows(ids, subjects, keys, values, b, float.fromhex(found.mu))
        self.memory._held.adopt(rows)

    def named(self, rows: Sequence[int]) -> list[str]:
        """Ids of row numbers."""
        ids = self.memory.ids
        return [ids[place] for place in np.searchsorted(self.order, np.array(rows, np.int64))]

    # -- changing ---------------------------------------------------------------------------------

    def insert(
        self,
        connection: Connection,
        record: Record,
        names: Sequence[str],
        subjects: Sequence[str | None],
        keys: Floats,
        values: Floats,
        times: Sequence[int],
    ) -> None:
        """Write rows that the memory in RAM holds already."""
        first = record.next_row
        lines = [
            schema.Line(
                record.memory,
                first + i,
                times[i],
                names[i].encode(),
                None if subjects[i] is None else str(subjects[i]).encode(),
                _bytes(keys[i]),
                _bytes(values[i]),
                None,
            )
            for i in range(len(names))
        ]
        if self._sealer is not None:
            lines = self._sealer.sealed(lines)
        self._checksum = checksum.added(self._checksum, lines)
        connection.execute(insert(schema.rows), [line._asdict() for line in lines])
        self._enter(names, range(first, first + len(names)))
        self.save_support(connection, record)

    def delete(self, connection: Connection, record: Record, names: Sequence[str]) -> None:
        """Delete rows that the memory in RAM has forgotten already."""
        numbers = [self._row_of.pop(name) for name in names]
        self.order = self.order[~np.isin(self.order, numbers)]
        table = schema.rows
        mine = table.c.memory == record.memory
        for batch in _batches(numbers):
            here = mine & table.c.row.in_(batch)
            lines = _lines(connection, here)
            self._checksum = checksum.taken(self._checksum, lines)
            if self._sealer is not None:
                self._sealer.leaving(lines)
            connection.execute(delete(table).where(here))
        if self._sealer is not None:
            self._reseal(connection, record, self._sealer)
        self.save_support(connection, record)

    def _reseal(self, connection: Connection, record: Record, sealer: Sealer) -> None:
        """Give rows that share a key with a deleted one a new key, and note the old for shredding.

        Otherwise the deleted row could be read in a backup as long as its subject has other rows.
        """
        table = schema.rows
        old = sealer.take_leaving()
        for batch in _batches(old):
            here = (table.c.memory == record.memory) & table.c.vault_key.in_(batch)
            lines = _lines(connection, here)
            if lines:
                again = sealer.sealed(sealer.opened(lines), afresh=True)
                self._checksum = checksum.taken(self._checksum, lines)
                self._checksum = checksum.added(self._checksum, again)
                connection.execute(
                    update(table)
                    .where(table.c.memory == record.memory, table.c.row == bindparam("at"))
                    .values(key=bindparam("sealed"), vault_key=bindparam("with_key")),
                    [{"at": x.row, "sealed": x.key, "with_key": x.vault_key} for x in again],
                )
        if old:
            connection.execute(
                insert(schema.shreds),
                [{"memory": record.memory, "vault_key": name} for name in old],
            )

    def save_support(self, connection: Connection, record: Record) -> None:
        """Write the present weights."""
        table = schema.supports
        connection.execute(delete(table).where(table.c.memory == record.memory))
        if not len(self.memory):
            return
        masses = self.memory.masses
        held = masses > 0.0
        connection.execute(
            insert(table).values(
                memory=record.memory,
                mu=self.memory.mu.hex(),
                rows=self.order[held].astype("<i8").tobytes(),
                masses=masses[held].astype("<f8").tobytes(),
                checksum=self._checksum_bytes(),
            )
        )

    def _checksum_bytes(self) -> bytes:
        return checksum.as_bytes(self._checksum)

    def _enter(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        self._row_of.update(zip(names, numbers, strict=True))
        self.order = np.concatenate([self.order, np.array(numbers, np.int64)])


def delete_unreadable(connection: Connection, record: Record, vault: Vault | None) -> int:
    """Delete rows whose keys are not in the vault; returns how many."""
    if not record.sealed or vault is None:
        return 0
    table = schema.rows
    mine = table.c.memory == record.memory
    names = {bytes(name) for name in connection.scalars(select(table.c.vault_key).where(mine))}
    gone = sorted(names - vault.secrets(names).keys())
    if gone and len(gone) == len(names):
        raise StoreError(
            f"the vault has none of the keys of memory {record.name!r}: is it another vault?"
        )
    return sum(
        connection.execute(delete(table).where(mine, table.c.vault_key.in_(batch))).rowcount
        for batch in _batches(gone)
    )


def _lines(connection: Connection, where: ColumnElement[bool]) -> list[schema.Line]:
    """Lines of ``svm_rows`` in order of arrival."""
    table = schema.rows
    found = connection.execute(select(table).where(where).order_by(table.c.row))
    return [
        schema.Line._make(bytes(x) if isinstance(x, memoryview) else x for x in line)
        for line in found
    ]


def _matrix(blobs: Sequence[bytes | None]) -> Floats:
    """Rows of numbers from their bytes."""
    parts = [b"" if blob is None else bytes(blob) for blob in blobs]
    if any(len(part) != len(parts[0]) for part in parts):
        raise StoreError("rows differ in width")
    return np.frombuffer(b"".join(parts), "<f8").reshape(len(parts), -1 if parts[0] else 0)


def _bytes(numbers: Floats) -> bytes:
    return np.ascontiguousarray(numbers, "<f8").tobytes()


def _batches(items: Sequence[Item]) -> list[list[Item]]:
    return [list(items[i : i + _BATCH]) for i in range(0, len(items), _BATCH)]
