"""The least that a deletion along the path has to do, counted, and timed by its two parts.

For a memory with A active rows, s of them on the margin, keys of width d, a deletion with e events
needs at least, by any method that keeps the margin's kernel columns and a factor:

* e + 1 kernel columns against the active rows (the victim's, and that of each row that changes its
  set): 8 d A bytes read and (3 d + 30) A operations each; the exponential is a polynomial of degree
  13 with its reduction, and rounding to the grid.
* e + 1 passes over the margin's columns (a direction for each segment, and the residual at the end
  that proves the optimum): 8 s A bytes read and 2 s A operations each.
* e solves and updates of the factor: 4 s^2 bytes and 4 s^2 operations each.

Looks at reserve rows are not in the floor: a better bound on their slack would need none.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np
from numba import njit

from svmemory import SupportVectorMemory
from svmemory.kernel import fill_kernel


@dataclass(frozen=True)
class Floor:
    """Sizes, and seconds of one kernel column and of one pass over the margin's columns."""

    active: int
    margin: int
    dimension: int
    column_seconds: float
    pass_seconds: float

    def bytes(self, events: float) -> float:
        """Bytes that must be read for a deletion with so many events."""
        columns = (events + 1) * 8 * self.dimension * self.active
        passes = (events + 1) * 8 * self.margin * self.active
        return columns + passes + events * 4 * self.margin**2

    def flops(self, events: float) -> float:
        """Floating-point operations of that deletion."""
        columns = (events + 1) * (3 * self.dimension + 30) * self.active
        passes = (events + 1) * 2 * self.margin * self.active
        return columns + passes + events * 4 * self.margin**2

    def forget(self, events: float) -> float:
        """Seconds of the columns and passes alone, at the rates measured here."""
        return (events + 1) * (self.column_seconds + self.pass_seconds)


@njit
def _columns(near, n, gamma, out, rounds):  # type: ignore[no-untyped-def]
    for turn in range(rounds):
        fill_kernel(near, n, near[:, turn % n], gamma, out)


@njit
def _passes(block, mass, out, rounds):  # type: ignore[no-untyped-def]
    for _ in range(rounds):
        for k in range(block.shape[0]):
            row = block[k]
            for i in range(block.shape[1]):
                out[i] += mass[k] * row[i]


def measure(memory: SupportVectorMemory) -> Floor:
    """Floor of one deletion from a memory, timed on arrays of its sizes."""
    sets = memory.partition
    wanted = set(sets.margin) | set(sets.error)
    keys = memory.keys[[name in wanted for name in memory.ids]]
    near = np.ascontiguousarray(keys.T)
    active, margin = len(keys), len(sets.margin)
    out = np.zeros(active)
    block = np.random.default_rng(0).random((margin, active))
    mass = np.full(margin, 1e-3)
    gamma = memory.contract.gamma
    _columns(near, active, gamma, out, 1)
    _passes(block, mass, out, 1)
    rounds = 50
    column, run = [], []
    for _ in range(7):
        start = time.perf_counter()
        _columns(near, active, gamma, out, rounds)
        middle = time.perf_counter()
        _passes(block, mass, out, rounds)
        column.append((middle - start) / rounds)
        run.append((time.perf_counter() - middle) / rounds)
    return Floor(active, margin, keys.shape[1], statistics.median(column), statistics.median(run))
