"""The maintained optimum: rows in, rows out, always at the solution.

:class:`Engine` knows keys and slots only; ids, subjects and values live in :mod:`svmemory.memory`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..contract import MASS_BITS, Contract
from ..errors import ConvergenceError, InputError
from .adopt import adopt
from .build import approximate_optimum
from .exact import Canonical, canonical_form
from .operate import insert_rows, proceed, remove_rows
from .restore import balance, violation
from .source import EngineSource
from .state import (
    ERRORS,
    EVENTS,
    FREE,
    LOOKS,
    MARGINS,
    MU,
    PHASE,
    RESERVE,
    ROWS,
    SETTLING,
    TOP,
    TOTAL,
    WALKING,
    State,
)
from .stats import Stats
from .storage import Storage
from .walk import DONE, GROW, LOST
from .warmup import leave_path, wipe_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]
Operation = Callable[[State, Ints, int], tuple[int, int]]

BULK = 256
"""At least so many new rows, and no fewer than are held, are built at once and not one by one."""

BULK_ACTIVE = 8
"""Fewer departing active rows than this leave one by one, each by its path."""

CHUNK = 256
"""Rows between two reports of progress, which are also the places to interrupt."""


class Engine(Storage):
    """Support vectors of a set of keys, maintained under insertion and removal.

    Parameters
    ----------
    contract : Contract
    dimension : int
        Width of a key.
    cold : path, optional
        Keep the keys of all rows in a file in this folder; only active ones stay in memory as well.

    Notes
    -----
    Every operation ends at the optimum or raises ConvergenceError. Its cost follows the number of
    active rows, not the number of rows.
    """

    @classmethod
    def restore(
        cls,
        contract: Contract,
        keys: Floats,
        b: Floats,
        mu: float,
        cold: str | os.PathLike[str] | None = None,
    ) -> Engine:
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
        engine = cls(contract, dimension, cold)
        held = contract.held_mass(n)
        inside = b.min() >= 0 and b.max() <= 1
        if not (inside and abs(math.fsum(b) - held) <= 1e-9 * (held + 1.0)):  # NaN fails too
            raise InputError(f"the masses do not lie in [0, 1] or do not add up to {held:g}")
        engine._choose_watch(n)
        slots = engine._allocate(keys)
        engine._state.tally[ROWS] = n
        engine._place(slots, b)
        value = engine._state.value
        value[TOTAL], value[MU] = held, mu
        if not violation(engine._state) <= 1e-9 * (held + 1.0):
            raise InputError("the weights are not the optimum of these rows")
        return engine

    @property
    def stats(self) -> Stats:
        """Counts of the work done so far."""
        events, zero, corrections, looks = self._state.tally[EVENTS : LOOKS + 1].tolist()
        return Stats(events, zero, corrections, self._refits, looks)

    @property
    def warmup(self) -> bool:
        """Whether the cap leaves no choice: all weights are 1/n."""
        return len(self) <= self.contract.mass

    # -- operations -------------------------------------------------------------------------------

    def insert(self, keys: Floats, progress: Progress | None = None) -> Ints:
        """Add keys (n, d), end at the optimum and return the slots that hold them.

        If an error or an interrupt stops this while the engine is consistent, no row was added.
        """
        slots = self._allocate(keys)
        try:
            self._choose_watch(len(self) + len(keys))
            if len(keys) >= max(BULK, len(self)):
                self._state.tally[PHASE] = SETTLING
                self._state.code[slots] = RESERVE
                self._state.tally[ROWS] += len(slots)
                self._build(progress)
            else:
                self._run(insert_rows, slots, progress)
        except BaseException:
            if self.consistent:
                held = self._state.code[slots] != FREE
                if int(held.sum()) == len(self):
                    self._clear()
                else:
                    self.remove(slots[held])
                    self._free.extend(slots[~held].tolist())
            raise
        return slots

    def remove(self, slots: Ints, progress: Progress | None = None) -> None:
        """Drive the rows' masses to zero, end at the optimum of the others and wipe the slots.

        If an error or an interrupt stops this while the engine is consistent, the rows that are
        already gone have code FREE.
        """
        if len(slots) == len(self):
            self._clear()
            if progress is not None:
                progress(len(slots), len(slots))
            return
        try:
            if len(slots) >= BULK_ACTIVE and self._quicker_anew(slots):
                self._state.tally[PHASE] = SETTLING
                wipe_rows(self._state, slots)
                self._build(progress)
            else:
                self._run(remove_rows, slots, progress)
            self._choose_watch(len(self))
        except BaseException:
            self._free.extend(slots[self.codes(slots) == FREE].tolist())
            raise
        self._free.extend(slots.tolist())

    def canonicalise(self) -> Canonical:
        """Put the state in canonical form and return it; ContractError at ridge 0."""
        total = min(self.contract.mass_units, len(self) << MASS_BITS)
        form = canonical_form(EngineSource(self._state), total, self.contract.ridge_units)
        adopt(form, self.contract.held_mass(len(self)), self._with_room)
        return form

    # -- parts ------------------------------------------------------------------------------------

    def _quicker_anew(self, slots: Ints) -> bool:
        """Whether these rows leave sooner by a rebuild of the rest than by their paths.

        The margin's size decides what a path costs against a build: measured, not derived.
        """
        leaving = np.count_nonzero(self.codes(slots) > RESERVE)
        margin, error = self._state.tally[[MARGINS, ERRORS]].tolist()
        least = max(BULK_ACTIVE, (margin + error) // max(margin, 1), margin // 64)
        return bool(leaving >= least) and len(self) - len(slots) > self.contract.mass

    def _run(self, operation: Operation, slots: Ints, progress: Progress | None) -> None:
        """Carry out an operation on slots, in chunks, so that it can report and be interrupted."""
        for start in range(0, len(slots), CHUNK):
            chunk = slots[start : start + CHUNK]
            done, outcome = operation(self._state, chunk, 0)
            while outcome != DONE:
                self._help(outcome)
                done, outcome = operation(self._state, chunk, done)
            self._space.let_go()
            if progress is not None:
                progress(start + len(chunk), len(slots))

    def _help(self, outcome: int) -> None:
        """Do what compiled code cannot: make room, or get off a lost path."""
        if outcome == GROW:
            self._make_room()
        elif outcome == LOST and self._state.tally[PHASE] == WALKING:
            self._make_room()
            self._refits += 1
            leave_path(self._state)
            self._state.tally[PHASE] = SETTLING
        else:
            raise ConvergenceError(
                "the optimum was not reached; a larger ridge makes the problem easier"
            )

    def _build(self, progress: Progress | None) -> None:
        """From masses that need not fit the rows any more to the optimum."""
        s = self._state
        slots = np.flatnonzero(s.code[: s.tally[TOP]] != FREE)
        n = len(slots)
        total = self.contract.held_mass(n)
        b = self.masses(slots)
        if n > total:
            b = approximate_optimum(
                s.keys, slots, b, total, self.contract.gamma, self.contract.ridge
            )
        else:
            b[:] = 1.0
        self._place(slots, b)
        self._state.value[TOTAL] = total
        balance(self._state)
        while (outcome := proceed(self._state)) != DONE:
            self._help(outcome)
        self._space.let_go()
        if progress is not None:
            progress(n, n)
