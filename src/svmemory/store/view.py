"""The readable side of a memory in a store: always the state that was committed last."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sqlalchemy import Connection

from ..contract import Contract
from ..errors import StoreError
from ..memory import SupportVectorMemory
from ..results import KKTReport, Partition, PlanResult
from . import evidence, records, tombstones
from .content import Content, Folder
from .sealing import Sealer

if TYPE_CHECKING:
    from ..certificate.log import Log
    from .store import Store

Floats = NDArray[np.float64]


class StoredView:
    """A memory in a store, to look at. Every call sees what any process committed before it."""

    def __init__(self, store: Store, record: records.Record, cold: Folder | None) -> None:
        self._store = store
        self._record = record
        self._cold = cold
        self._content: Content | None = None  # None: to be read again
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<memory {self.name!r} in {self._store.database.name}>"

    def __len__(self) -> int:
        with self.current() as memory:
            return len(memory)

    def __contains__(self, name: object) -> bool:
        with self.current() as memory:
            return name in memory

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self._record.name

    @property
    def contract(self) -> Contract:
        """Kernel width, mass and ridge, fixed for the memory's life."""
        return self._record.contract

    @property
    def encrypted(self) -> bool:
        """Whether its rows are encrypted in the store."""
        return self._record.sealed

    @property
    def generation(self) -> int:
        """Number of changes committed so far."""
        with self.current():
            return self._record.generation

    @property
    def header(self) -> dict[str, Any]:
        """The user's notes; a copy."""
        return self.snapshot(rows=False).header

    @property
    def status(self) -> str:
        """As in :class:`svmemory.SupportVectorMemory`."""
        with self.current() as memory:
            return memory.status

    @property
    def ids(self) -> list[str]:
        """Ids in order of arrival."""
        with self.current() as memory:
            return memory.ids

    @property
    def subjects(self) -> list[str | None]:
        """Subjects, aligned with :attr:`ids`."""
        with self.current() as memory:
            return memory.subjects

    @property
    def partition(self) -> Partition:
        """Ids by set: margin, error and reserve."""
        with self.current() as memory:
            return memory.partition

    def read(self, queries: ArrayLike) -> Floats:
        """As :meth:`svmemory.SupportVectorMemory.read`."""
        with self.current() as memory:
            return memory.read(queries)

    def score(self, points: ArrayLike) -> Floats:
        """As :meth:`svmemory.SupportVectorMemory.score`."""
        with self.current() as memory:
            return memory.score(points)

    def digest(self) -> str:
        """As :meth:`svmemory.SupportVectorMemory.digest`: that of a memory with the same rows."""
        with self.current() as memory:
            return memory.digest()

    def kkt(self) -> KKTReport:
        """As :meth:`svmemory.SupportVectorMemory.kkt`."""
        with self.current() as memory:
            return memory.kkt()

    def plan(self, k: int) -> PlanResult:
        """As :meth:`svmemory.SupportVectorMemory.plan`."""
        with self.current() as memory:
            return memory.plan(k)

    def snapshot(self, rows: bool = True) -> SupportVectorMemory:
        """A memory of its own in the present state; without ``rows``, with contract and header."""
        with self.current() as memory:
            if rows:
                return memory.copy()
            bare = SupportVectorMemory.from_contract(memory.contract)
            bare.header = dict(memory.header)
            return bare

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a memory file, as :meth:`svmemory.SupportVectorMemory.save` does.

        The file is a copy of its own: a later :meth:`forget` does not reach it.
        """
        with self.current() as memory:
            memory.save(path)

    def receipts(self) -> list[dict[str, Any]]:
        """The receipts that the store keeps, oldest first; they hold no ids."""
        with self._store.database.reading() as connection:
            return list(records.kept_receipts(connection, self._record.memory))

    def log(self) -> Log:
        """The log of this memory's certificates; ``to_bytes`` of it is a file for an auditor."""
        with self._store.database.reading() as connection:
            return evidence.log_of(connection, self._record.memory)

    @contextmanager
    def current(self) -> Iterator[SupportVectorMemory]:
        """The memory in RAM in the state committed last; to look at, not to change."""
        with self._lock:
            with self._store.database.reading() as connection:
                content = self._refreshed(connection, lock=False)
            yield content.memory

    def _refreshed(self, connection: Connection, lock: bool) -> Content:
        """The rows as this transaction sees them, read again if they have changed."""
        record = records.again(connection, self._record, lock)
        if self._content is None or record.generation != self._record.generation:
            self._content = None
            self._content = self._load(connection, record)
        self._record = record
        return self._content

    def _load(self, connection: Connection, record: records.Record, solve: bool = False) -> Content:
        sealer = self._sealer(record)
        tombstones.require(connection, record)
        return Content.load(connection, record, sealer, self._cold, solve)

    def _sealer(self, record: records.Record) -> Sealer | None:
        """What opens the rows of an encrypted memory."""
        if not record.sealed:
            return None
        vault = self._store.vault
        if vault is None:
            raise StoreError(f"memory {record.name!r} is encrypted; open the store with vault=")
        if record.vault is not None and record.vault != vault.token:
            raise StoreError(
                f"{vault.database.name} is another vault: it is not the one with the keys of memory"
                f" {record.name!r}"
            )
        return Sealer(vault, record.token)
