"""Where an engine's rows are: their slots, the room for them, and which of them have positions."""

from __future__ import annotations

import os
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..contract import Contract
from ..space import RowSpace
from . import state
from .restore import clear_active, place_rows
from .settle import refresh
from .state import (
    ACTIVE,
    EVENTS,
    FREE,
    IDLE,
    LOOKS,
    MARGINS,
    MU,
    PHASE,
    RESERVE,
    ROWS,
    SETTLING,
    TOP,
    WATCH,
    State,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WATCHED = 1024
"""Reserve rows of a memory with at most so many rows, or 4/C, are watched ..."""

MOST_WATCHED = 8192
"""... but not of one with more than this."""


class Storage:
    """An engine's state, read by slot, and the room that it has; see :class:`.engine.Engine`."""

    def __init__(
        self, contract: Contract, dimension: int, cold: str | os.PathLike[str] | None = None
    ) -> None:
        self.contract = contract
        self._space = RowSpace(dimension, cold)
        self._refits = 0
        self._state = state.new_state(contract, self._space.array)
        self._free: list[int] = []

    def __len__(self) -> int:
        return int(self._state.tally[ROWS])

    @property
    def dimension(self) -> int:
        """Width of a key."""
        return int(self._state.keys.shape[1])

    @property
    def mu(self) -> float:
        """Multiplier of the mass constraint, in kernel units times rows."""
        return float(self._state.value[MU])

    @property
    def capacity(self) -> int:
        """Slots are below this number."""
        return len(self._state.code)

    def codes(self, slots: Ints) -> NDArray[np.int32]:
        """Set of each slot's row: RESERVE, MARGIN or ERROR."""
        return self._state.code[slots]

    def masses(self, slots: Ints) -> Floats:
        """Mass of each slot's row."""
        place = self._state.place[slots]
        return np.where(place >= 0, self._state.b[place], 0.0)

    def keys(self, slots: Ints) -> Floats:
        """Keys of slots, (n, d)."""
        return self._state.keys[slots]

    def active_slots(self) -> Ints:
        """Slots of margin and error rows."""
        slots = self._state.slot[: self._state.tally[ACTIVE]]
        return slots[self._state.code[slots] > RESERVE]

    @property
    def consistent(self) -> bool:
        """False once an operation has failed half-way: then this engine must be thrown away."""
        return bool(self._state.tally[PHASE] == IDLE)

    def copy(self) -> Self:
        """An independent engine in the same state."""
        twin = type(self).__new__(type(self))
        twin.contract = self.contract
        twin._refits = self._refits
        twin._space = self._space.copy()
        bare = self._state._replace(keys=np.zeros((0, 0)))  # the space has copied the keys
        twin._state = State._make(array.copy() for array in bare)._replace(keys=twin._space.array)
        twin._free = list(self._free)
        return twin

    # -- parts ------------------------------------------------------------------------------------

    def _allocate(self, keys: Floats) -> Ints:
        """Slots for new keys: freed ones first. They stay FREE until their row is admitted."""
        n = len(keys)
        reused = [self._free.pop() for _ in range(min(n, len(self._free)))]
        top = int(self._state.tally[TOP])
        fresh = n - len(reused)
        if top + fresh > len(self._state.code):
            self._state = state.grow_rows(self._state, self._space.ensure(top + fresh))
        self._state.tally[TOP] += fresh
        slots = np.array([*reused, *range(top, top + fresh)], np.int64)
        self._state.keys[slots] = keys
        return slots

    def _with_room(self) -> State:
        self._make_room()
        return self._state

    def _make_room(self) -> None:
        s = self._state
        if s.tally[ACTIVE] + 2 >= len(s.b):
            s = state.grow_active(s)
        if s.tally[MARGINS] + 3 >= len(s.margin):
            s = state.grow_margin(s)
        self._state = s

    def _place(self, slots: Ints, b: Floats) -> None:
        """Put all rows into the sets that their masses name."""
        self._state.code[slots] = RESERVE
        clear_active(self._state)
        placed = 0
        while (placed := place_rows(self._state, slots, b, placed)) < len(slots):
            self._make_room()

    def _choose_watch(self, rows: int) -> None:
        """Begin or cease to watch reserve rows, as suits so many rows.

        A watched row costs a number for every row of the margin and needs no looks: cheaper than
        mileage as long as reserve rows are not many more than the others.
        """
        tally = self._state.tally
        watched = bool(tally[WATCH])
        limit = min(max(WATCHED, 4 * self.contract.mass), MOST_WATCHED)
        few = rows <= (1.5 * limit if watched else limit)  # no to and fro at the limit
        wanted = few and self._space.folder is None
        if wanted == watched:
            return
        if len(self):
            tally[PHASE] = SETTLING
            slots = np.flatnonzero(self._state.code[: tally[TOP]] != FREE)
            b = self.masses(slots)
            if watched:  # give the room of watched rows back
                self._state = state.without_active(self._state, self.contract)
            self._state.tally[WATCH] = wanted
            self._place(slots, b)
            refresh(self._state)
            self._state.tally[PHASE] = IDLE
        self._state.tally[WATCH] = wanted

    def _clear(self) -> None:
        counts = self._state.tally[EVENTS : LOOKS + 1].copy()
        self._space = RowSpace(self.dimension, self._space.folder)
        self._state = state.new_state(self.contract, self._space.array)
        self._state.tally[EVENTS : LOOKS + 1] = counts
        self._free = []
