"""Rows and their optimum held together: one change to both, or none.

:class:`Holding` pairs the engine (keys and slots) with the table of ids, subjects and values. Every
change is a transaction: on any failure, an interrupt included, the rows are what they were, and
since the canonical form depends on the rows alone, so is the digest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .contract import Contract
from .digest import Rows, id_order
from .engine import Engine, Stats
from .engine.state import FREE
from .errors import EmptyMemoryError, InputError
from .rows import RowTable, as_matrix

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]


class Holding:
    """Rows in an engine and a table.

    Parameters
    ----------
    contract : Contract
    """

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.table = RowTable()
        self.engine: Engine | None = None
        self._past = Stats()  # work of engines that ended with their last row
        self._support: tuple[Floats, Floats, Floats] | None = None

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
        if self.engine is None:
            raise EmptyMemoryError(f"an empty memory {what}; add rows first")
        return self.engine

    def copy(self) -> Holding:
        """An independent holding in the same state."""
        twin = Holding(self.contract)
        twin.table = self.table.copy()
        twin.engine = None if self.engine is None else self.engine.copy()
        twin._past = self._past
        return twin

    # -- reading ----------------------------------------------------------------------------------

    def support(self) -> tuple[Floats, Floats, Floats]:
        """Keys (d, A), weights (A,) and values (A, dv) of the active rows, in id order."""
        engine = self.need("has no support")
        if self._support is None:
            slots = engine.active_slots()
            slots = slots[engine.masses(slots) > 0.0]
            slots = slots[id_order(self.table.names(slots))]
            near = np.ascontiguousarray(engine.keys(slots).T)
            self._support = near, engine.masses(slots) / self.held_mass, self.table.values(slots)
        return self._support

    def in_id_order(self) -> Rows:
        """All rows and their present weights, as :func:`svmemory.digest.digest` takes them."""
        engine = self.need("has no rows to list")
        names = list(self.table.slots)
        ordered = [names[i] for i in id_order(names)]
        slots = self.table.in_order(ordered)
        subjects = [self.table.subject(name) for name in ordered]
        return Rows(
            ordered,
            subjects,
            engine.keys(slots),
            self.table.values(slots),
            engine.masses(slots),
            engine.mu,
        )

    # -- changing ---------------------------------------------------------------------------------

    def canonicalise(self) -> None:
        """Put the weights in canonical form."""
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
        engine = self.engine or Engine(self.contract, keys.shape[1])
        self._support = None
        try:
            slots = engine.insert(keys, progress)
        except BaseException:
            if self.engine is not None and not engine.consistent:
                self._rebuild(engine.keys(self.table.in_order()))
            raise
        self.engine = engine
        self.table.value_width = values.shape[1]
        for row, (name, slot) in enumerate(zip(names, slots, strict=True)):
            self.table.put(slot, name, subjects[row], values[row])

    def remove(self, names: list[str], progress: Progress | None) -> None:
        """Remove held rows, all or none."""
        engine = self.engine
        if engine is None or not names:
            return
        slots = self.table.in_order(names)
        keys = engine.keys(slots)
        self._support = None
        try:
            engine.remove(slots, progress)
        except BaseException:
            if engine.consistent:
                gone = np.flatnonzero(engine.codes(slots) == FREE)
                if len(gone):
                    back = engine.insert(keys[gone])
                    self.table.reassign([names[i] for i in gone.tolist()], back.tolist())
            else:
                everything = engine.keys(self.table.in_order())
                position = {name: i for i, name in enumerate(self.table.slots)}
                everything[[position[name] for name in names]] = keys
                self._rebuild(everything)
            raise
        for name in names:
            self.table.drop(name)
        if not len(self):
            self._past = self._past.plus(engine.stats)
            self.engine = None
            self.table.clear()

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
        self.engine = Engine.restore(self.contract, keys, rows.b, rows.mu)
        self._support = None
        self.table.value_width = values.shape[1]
        for row, name in enumerate(rows.ids):
            self.table.put(row, name, rows.subjects[row], values[row])

    def _rebuild(self, keys: Floats) -> None:
        """Replace a broken engine by a new one over the same rows, given in order of arrival."""
        engine = Engine(self.contract, keys.shape[1])
        slots = engine.insert(keys)
        self.table.reassign(list(self.table.slots), slots.tolist())
        self.engine = engine
