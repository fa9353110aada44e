"""The engine's own rows as a source of exact kernel values for the canonical form."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..kernel import fill_kernel
from . import state
from .look import rounding
from .state import ERROR, GAMMA, MARGIN, MU, RESERVE, TOP, State

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True)
def kernel_block(keys, rows, columns, gamma):  # type: ignore[no-untyped-def]
    """Kernel between slots ``rows`` and slots ``columns``, (len(rows), len(columns))."""
    near = np.empty((keys.shape[1], len(columns)))
    for j in range(keys.shape[1]):
        for i in range(len(columns)):
            near[j, i] = keys[columns[i], j]
    out = np.empty((len(rows), len(columns)))
    for i in range(len(rows)):
        fill_kernel(near, len(columns), keys[rows[i]], gamma, out[i])
    return out


@njit(cache=True)
def kernel_sums(keys, rows, columns, gamma):  # type: ignore[no-untyped-def]
    """Exact kernel sums over ``columns`` a row: multiples of 2**-26, and of 2**-52."""
    high = np.zeros(len(rows), np.int64)
    low = np.zeros(len(rows), np.int64)
    near = np.empty((keys.shape[1], len(columns)))
    for j in range(keys.shape[1]):
        for i in range(len(columns)):
            near[j, i] = keys[columns[i], j]
    line = np.empty(len(columns))
    for i in range(len(rows)):
        fill_kernel(near, len(columns), keys[rows[i]], gamma, line)
        for k in range(len(columns)):
            units = np.int64(line[k] * 4503599627370496.0)
            part = units // 67108864
            high[i] += part
            low[i] += units - part * 67108864
    return high, low


class EngineSource:
    """Kernel values of an engine's slots; what the engine already holds is not computed again."""

    def __init__(self, s: State) -> None:
        self._s = s
        active = s.slot[: s.tally[state.ACTIVE]]
        codes = s.code[active]
        self._margin = active[codes == MARGIN].copy()
        self._error = active[codes == ERROR].copy()
        self._b = s.b[s.place[self._margin]].copy()

    def start(self) -> tuple[Ints, Floats, Ints]:
        """The engine's present sets and masses."""
        return self._margin, np.clip(self._b, 0.0, 1.0), self._error

    def block(self, rows: Ints, columns: Ints) -> Floats:
        """Kernel values between slots."""
        s = self._s
        place, place_of_columns = s.place[rows], s.place[columns]
        owner = s.owner[place_of_columns]
        if (place >= 0).all() and (place_of_columns >= 0).all() and (owner >= 0).all():
            return np.ascontiguousarray(s.P[np.ix_(owner, place)].T)
        return np.asarray(kernel_block(s.keys, rows, columns, s.value[GAMMA]), np.float64)

    def error_sums(self, rows: Ints, error: Ints) -> list[int]:
        """Exact sums over error slots, in units of 2**-52."""
        s = self._s
        place = s.place[rows]
        if np.array_equal(error, self._error) and (place >= 0).all():
            high, low = s.high[place], s.low[place]
        else:
            high, low = kernel_sums(s.keys, rows, error, s.value[GAMMA])
        return [(a << 26) + b for a, b in zip(high.tolist(), low.tolist(), strict=True)]

    def suspects(self, margin: Ints, b: Floats, error: Ints, mu: float) -> Ints:
        """Reserve slots whose mileage does not cover the way from here to this state."""
        s = self._s
        change: dict[int, float] = dict.fromkeys(self._error.tolist(), 1.0)
        change.update(zip(self._margin.tolist(), self._b.tolist(), strict=True))
        for slot, mass in [
            *((slot, 1.0) for slot in error.tolist()),
            *zip(margin.tolist(), b.tolist(), strict=True),
        ]:
            change[slot] = change.get(slot, 0.0) - mass
        reach = sum(map(abs, change.values())) + abs(mu - s.value[MU]) + rounding(s)
        top = s.tally[TOP]
        if s.tally[state.WATCH]:
            held = s.slot[: s.tally[state.ACTIVE]]
            near = s.h[: len(held)] - s.value[MU] <= reach + rounding(s)
            others = held[(s.code[held] == RESERVE) & near]
        else:
            left = s.due[:top] - s.odometer[s.region[:top]]
            others = np.flatnonzero((s.code[:top] == RESERVE) & (left <= reach))
        return np.setdiff1d(
            np.concatenate([others, self._margin, self._error]), np.concatenate([margin, error])
        )

    def everyone_else(self, margin: Ints, error: Ints) -> Ints:
        """All held slots in neither set."""
        held = np.flatnonzero(self._s.code[: self._s.tally[TOP]] >= 0)
        return np.setdiff1d(held, np.concatenate([margin, error]))
