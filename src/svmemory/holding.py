"""Rows and their optimum held together: one change to both, or none.

:class:`Holding` pairs the engine (keys and slots) with the table of ids, subjects and values. Every
change is a transaction: on any failure, an interrupt included, the rows are what they were, and
since the canonical form depends on the rows alone, so is the digest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .contract import Contract
from .digest import Rows, id_order
from .engine import Engine, Stats
from .engine.state import FREE
from .errors import EmptyMemoryError, InputError
from .inputs import as_matrix
from .interrupts import SafePoints
from .rows import RowTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Support(NamedTuple):
    """The active rows: keys (d, A), weights (A,), values (A, dv) and their ids."""

    keys: Floats
    weights: Floats
    values: Floats
    ids: list[str]


Progress = Callable[[int, int], None]


class Holding:
    """Rows in an engine and a table.

    Parameters
    ----------
    contract : Contract
    cold : path, optional
        Folder for a file that holds keys and values instead of memory.
    """

    def __init__(self, contract: Contract, cold: str | os.PathLike[str] | None = None) -> None:
        self.contract = contract
        self.cold = cold
        self.table = RowTable(cold)
        self._busy = False
        self.engine: Engine | None = None
        self._past = Stats()  # work of engines that ended with their last row
        self._support: Support | None = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def held_mass(self) -> float:
        """Total mass ``m' = min(m, n)``."""
        return self.contract.held_mass(len(self))

    @property
    def stats(self) -> Stats:
        """Work done so far."""
        return self._past if self.engine is None else self._past.plus(self.engine.stats)

    def need(self, what: str) -> Engine:
        """The engine, or EmptyMemoryError with the given predicate."""
        self.idle()
        if self.engine is None:
            raise EmptyMemoryError(f"an empty memory {what}; add rows first")
        return self.engine

    def copy(self) -> Holding:
        """An independent holding in the same state."""
        self.idle()
        twin = Holding(self.contract, self.cold)
        twin.table = self.table.copy()
        twin.engine = None if self.engine is None else self.engine.copy()
        twin._past = self._past
        return twin

    # -- reading ----------------------------------------------------------------------------------

    def support(self) -> Support:
        """The active rows, in id order."""
        engine = self.need("has no support")
        if self._support is None:
            slots = engine.active_slots()
            slots = slots[engine.masses(slots) > 0.0]
            slots = slots[id_order(self.table.names(slots))]
            self._support = Support(
                np.ascontiguousarray(engine.keys(slots).T),
                engine.masses(slots) / self.held_mass,
                self.table.values(slots),
                self.table.names(slots),
            )
        return self._support

    def in_id_order(self) -> Rows:
        """All rows and their present weights, as :func:`svmemory.digest.digest` takes them."""
        engine = self.need("has no rows to list")
        slots = self.table.in_order()
        slots = slots[id_order(self.table.names(slots))]
        return Rows(
            self.table.names(slots),
            self.table.subjects(slots),
            engine.keys(slots),
            self.table.values(slots),
            engine.masses(slots),
            engine.mu,
        )

    # -- changing ---------------------------------------------------------------------------------

    def canonicalise(self) -> None:
        """Put the weights in canonical form."""
        self.idle()
        if self.engine is not None:
            self.engine.canonicalise()
            self._support = None

    def insert(
        self,
        names: list[str],
        subjects: list[str | None],
        keys: Floats,
        values: Floats,
        progress: Progress | None,
    ) -> None:
        """Add checked rows, all or none."""
        engine = self.engine or Engine(self.contract, keys.shape[1], self.cold)
        with self._change(progress) as report:
            try:
                slots = engine.insert(keys, report)
            except BaseException:
                if self.engine is not None and not engine.consistent:
                    self._rebuild(engine.keys(self.table.in_order()))
                raise
            try:
                self.table.put_many(slots, names, subjects, values)
            except BaseException:
                if self.engine is not None:
                    engine.remove(slots)
                raise
            self.engine = engine
            self.table.value_width = values.shape[1]

    def remove(self, names: list[str], slots: Ints, progress: Progress | None) -> None:
        """Remove held rows, given by name and slot, all or none."""
        engine = self.engine
        if engine is None or not names:
            return
        keys = engine.keys(slots)
        with self._change(progress) as report:
            try:
                engine.remove(slots, report)
            except BaseException:
                self._take_back(engine, names, slots, keys)
                raise
            self.table.drop_many(slots)
            if not len(self):
                self._past = self._past.plus(engine.stats)
                self.engine = None
                self.table.clear()

    @contextmanager
    def _change(self, progress: Progress | None) -> Iterator[Progress]:
        """A change under way: Ctrl-C waits for a report of progress, other calls are refused."""
        self.idle()
        self._support = None
        self._busy = True
        try:
            with SafePoints() as points:

                def report(done: int, total: int) -> None:
                    points.check()
                    if progress is not None:
                        progress(done, total)

                yield report
        finally:
            self._busy = False

    def idle(self) -> None:
        """Refuse to go on inside a change, as from its progress callback or another thread."""
        if self._busy:
            raise InputError("the memory is being changed; wait until that call returns")

    def _take_back(self, engine: Engine, names: list[str], slots: Ints, keys: Floats) -> None:
        """Put removed rows in again after a failure."""
        if engine.consistent:
            gone = np.flatnonzero(engine.codes(slots) == FREE)
            if len(gone):
                back = engine.insert(keys[gone])
                self.table.reassign([names[i] for i in gone.tolist()], back)
            return
        order = self.table.in_order()
        everything = engine.keys(order)
        position = {slot: i for i, slot in enumerate(order.tolist())}
        everything[[position[slot] for slot in slots.tolist()]] = keys
        self._rebuild(everything)

    def adopt(self, rows: Rows) -> None:
        """Take over rows whose weights are known (a file's); this holding must be empty.

        Raises
        ------
        InputError
            If a row is unusable or the weights are not the optimum of these rows.
        """
        if len(self):
            raise InputError("only an empty memory can adopt rows")
        keys = as_matrix(rows.keys, "keys", None, rows.ids)
        values = rows.values
        if values.shape[1]:
            values = as_matrix(values, "values", None, rows.ids)
        self.engine = Engine.restore(self.contract, keys, rows.b, rows.mu, self.cold)
        self._support = None
        self.table.value_width = values.shape[1]
        self.table.put_many(range(len(rows.ids)), rows.ids, rows.subjects, values)

    def _rebuild(self, keys: Floats) -> None:
        """Replace a broken engine by a new one over the same rows, given in order of arrival."""
        engine = Engine(self.contract, keys.shape[1], self.cold)
        slots = engine.insert(keys)
        self.table.reassign(self.table.names(), slots)
        self.engine = engine
