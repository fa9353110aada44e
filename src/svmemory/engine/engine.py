"""The maintained optimum: rows in, rows out, always at the solution.

:class:`Engine` knows keys and slots only; ids, subjects and values live in :mod:`svmemory.memory`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..contract import MASS_BITS, Contract
from ..errors import ConvergenceError, InputError
from . import sets, state
from .exact import Canonical, canonical_form
from .look import advance, slack_of
from .restore import place_rows, violation
from .settle import highest_error, refresh, settle
from .source import EngineSource
from .state import (
    ACTIVE,
    ERROR,
    EVENTS,
    MARGIN,
    MARGINS,
    MU,
    NEXT_DUE,
    RESERVE,
    ROWS,
    TOP,
    TOTAL,
    State,
)
from .stats import Stats
from .walk import DONE, GROW, LOST, walk
from .warmup import all_to_error, drive_out

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Engine:
    """Support vectors of a set of keys, maintained under insertion and removal.

    Parameters
    ----------
    contract : Contract
    dimension : int
        Width of a key.

    Notes
    -----
    Every operation ends at the optimum or raises ConvergenceError. Its cost follows the number of
    active rows, not the number of rows.
    """

    def __init__(self, contract: Contract, dimension: int) -> None:
        self.contract = contract
        self.consistent = True  # False while an operation is under way, and after one has failed
        self._refits = 0
        self._state = state.new_state(contract, dimension)
        self._free: list[int] = []

    @classmethod
    def restore(cls, contract: Contract, keys: Floats, b: Floats, mu: float) -> Engine:
        """Engine over rows whose optimum is known; row i is in slot i.

        Parameters
        ----------
        contract : Contract
        keys : (n, d) array
        b : (n,) array
            Masses of the optimum.
        mu : float
            Its multiplier.

        Raises
        ------
        InputError
            If these are not the optimum, to rounding.
        """
        n, dimension = keys.shape
        engine = cls(contract, dimension)
        held = contract.held_mass(n)
        inside = b.min() >= 0 and b.max() <= 1
        if not (inside and abs(math.fsum(b) - held) <= 1e-9 * (held + 1.0)):  # NaN fails too
            raise InputError(f"the masses do not lie in [0, 1] or do not add up to {held:g}")
        for key in keys:
            engine._new_slot(key)
        entered = 0
        while (entered := place_rows(engine._state, b, entered)) < n:
            engine._make_room()
        value = engine._state.value
        value[TOTAL], value[MU] = held, mu
        if not violation(engine._state) <= 1e-9 * (held + 1.0):
            raise InputError("the weights are not the optimum of these rows")
        return engine

    # -- rows
    # ---------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._state.tally[ROWS])

    @property
    def dimension(self) -> int:
        """Width of a key."""
        return int(self._state.keys.shape[0])

    @property
    def mu(self) -> float:
        """Multiplier of the mass constraint, in kernel units times rows."""
        return float(self._state.value[MU])

    @property
    def stats(self) -> Stats:
        """Counts of the work done so far."""
        events, zero, corrections, looks = self._state.tally[EVENTS:].tolist()
        return Stats(events, zero, corrections, self._refits, looks)

    @property
    def warmup(self) -> bool:
        """Whether the cap leaves no choice: all weights are 1/n."""
        return len(self) <= self.contract.mass

    @property
    def capacity(self) -> int:
        """Slots are below this number."""
        return len(self._state.code)

    def codes(self, slots: Ints) -> NDArray[np.int8]:
        """Set of each slot's row: RESERVE, MARGIN or ERROR."""
        return self._state.code[slots]

    def masses(self, slots: Ints) -> Floats:
        """Mass of each slot's row."""
        place = self._state.place[slots]
        return np.where(place >= 0, self._state.b[place], 0.0)

    def keys(self, slots: Ints) -> Floats:
        """Keys of slots, (n, d)."""
        return np.ascontiguousarray(self._state.keys[:, slots].T)

    def active_slots(self) -> Ints:
        """Slots of margin and error rows."""
        return self._state.slot[: self._state.tally[ACTIVE]].copy()

    # -- operations
    # ---------------------------------------------------------------------------------

    def insert(self, key: Floats) -> int:
        """Add one key, walk to the new optimum and return the slot that holds it."""
        self.consistent = False
        slot = self._insert(key)
        self.consistent = True
        return slot

    def remove(self, slot: int) -> None:
        """Drive the row's mass to zero, walk to the optimum of the others and wipe the slot."""
        self.consistent = False
        self._remove(slot)
        self.consistent = True

    def _insert(self, key: Floats) -> int:
        slot = self._new_slot(key)
        self._make_room()
        s = self._state
        before = s.value[TOTAL]
        n = len(self)
        s.value[TOTAL] = self.contract.held_mass(n)
        if n <= self.contract.mass:
            sets.start_error(s, slot)
            self._top_of_errors()
            return slot
        spare = s.value[TOTAL] - before  # what the last steps of warm-up leave for the newcomer
        if spare > 0:
            sets.admit_moving(s, slot, spare)
            self._top_of_errors()
        else:
            s.code[slot] = RESERVE
            if slack_of(s, slot) >= 0.0:
                s.value[NEXT_DUE] = min(s.value[NEXT_DUE], s.due[slot])
                return slot
            sets.admit_moving(s, slot, 0.0)
        self._move(+1)
        return slot

    def _remove(self, slot: int) -> None:
        s = self._state
        n = len(self) - 1
        if n == 0:
            self._clear()
            return
        if s.code[slot] == RESERVE:
            sets.wipe(s, slot)
        elif n <= self.contract.mass:
            self._make_room()
            sets.start_moving(self._state, s.place[slot])
            sets.stop_gone(self._state)
        self._free.append(slot)
        if n <= self.contract.mass:  # at most m rows remain: all of them rest at the cap
            while not all_to_error(self._state):
                self._make_room()
            self._state.value[TOTAL] = float(n)
            self._top_of_errors()
        elif s.code[slot] > RESERVE:
            self._make_room()
            sets.start_moving(self._state, s.place[slot])
            self._move(-1)

    def canonicalise(self) -> Canonical:
        """Put the state in canonical form and return it; ContractError at ridge 0."""
        total = min(self.contract.mass_units, len(self) << MASS_BITS)
        form = canonical_form(EngineSource(self._state), total, self.contract.ridge_units)
        self._adopt(form)
        return form

    def copy(self) -> Engine:
        """An independent engine in the same state."""
        twin = Engine.__new__(Engine)
        twin.contract = self.contract
        twin.consistent = self.consistent
        twin._refits = self._refits
        twin._state = State._make(array.copy() for array in self._state)
        twin._free = list(self._free)
        return twin

    # -- parts
    # ----------------------------------------------------------------------------------------

    def _new_slot(self, key: Floats) -> int:
        s = self._state
        if self._free:
            slot = self._free.pop()
        else:
            slot = int(s.tally[TOP])
            if slot == len(s.code):
                s = self._state = state.grow_rows(s)
            s.tally[TOP] += 1
        s.keys[:, slot] = key
        s.tally[ROWS] += 1
        return slot

    def _make_room(self) -> None:
        s = self._state
        if s.tally[ACTIVE] + 2 >= len(s.b):
            s = state.grow_active(s)
        if s.tally[MARGINS] + 3 >= len(s.margin):
            s = state.grow_margin(s)
        self._state = s

    def _move(self, direction: int) -> None:
        self._state.tally[state.DIRECTION] = direction
        while (outcome := walk(self._state)) == GROW:
            self._make_room()
        if outcome == LOST:
            self._refits += 1
            if direction > 0:
                sets.stop_in_margin(self._state)
            else:
                self._make_room()
                drive_out(self._state)
        self._settle()

    def _settle(self) -> None:
        while (outcome := settle(self._state)) == GROW:
            self._make_room()
        if outcome != DONE or not math.isfinite(self.mu):
            raise ConvergenceError(
                "the optimum was not reached; a larger ridge makes the problem easier"
            )

    def _top_of_errors(self) -> None:
        """Multiplier of an empty margin."""
        s = self._state
        refresh(s)
        s.value[MU] = s.h[highest_error(s)]

    def _clear(self) -> None:
        counts = self._state.tally[EVENTS:].copy()
        self._state = state.new_state(self.contract, self.dimension)
        self._state.tally[EVENTS:] = counts
        self._free = []

    def _adopt(self, form: Canonical) -> None:
        """Take over sets, masses and multiplier of the canonical form."""
        s = self._state
        active = self.active_slots()
        old = self.masses(active).sum()
        margin, error = set(form.margin.tolist()), set(form.error.tolist())
        for slot in sorted({*active.tolist(), *margin, *error}):
            goal = MARGIN if slot in margin else ERROR if slot in error else RESERVE
            while s.code[slot] != goal:
                self._make_room()
                s = self._state
                if s.code[slot] == MARGIN:
                    s.b[s.place[slot]] = float(goal == ERROR)
                sets.cross(s, slot)
        place = s.place[form.margin]
        moved = np.abs(s.b[place] - form.b).sum()
        if form.corrections:
            moved += old + self.contract.held_mass(
                len(self)
            )  # sets changed: bound it by everything
        s.b[place] = form.b
        advance(s, moved + abs(s.value[MU] - form.mu))
        s.value[MU] = form.mu
        refresh(s)
