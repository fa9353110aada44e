"""Moves of one row between sets; positions, kernel, exact sums and factor stay in step.

Every function assumes that the arrays have room (see :func:`has_room`) and leaves ``h`` to the
caller.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..kernel import fill_kernel
from . import factor
from .compile import inner
from .regions import bound_kernel
from .state import (
    ACTIVE,
    ERROR,
    ERRORS,
    FREE,
    GAMMA,
    MARGIN,
    MARGINS,
    MOVER,
    MU,
    REGIONS,
    RESERVE,
    RIDGE,
    ROWS,
    WATCH,
)

_UNIT = 4503599627370496.0  # 2**52
_HALF = 67108864  # 2**26


@inner
def has_room(s):  # type: ignore[no-untyped-def]
    """Whether one more row can become active and one more margin row can be added."""
    return s.tally[ACTIVE] + 1 < len(s.b) and s.tally[MARGINS] + 2 < len(s.margin)


@inner
def kernel_to(s, slot):  # type: ignore[no-untyped-def]
    """Fill ``s.column`` with the kernel between the row in ``slot`` and every active row."""
    fill_kernel(s.near, s.tally[ACTIVE], s.keys[slot], s.value[GAMMA], s.column)


@inner
def count_errors(s, row, sign):  # type: ignore[no-untyped-def]
    """Add ``sign`` times a kernel column to the exact sums over error rows."""
    for i in range(s.tally[ACTIVE]):
        units = np.int64(row[i] * _UNIT)
        high = units // _HALF
        s.high[i] += sign * high
        s.low[i] += sign * (units - high * _HALF)


@inner
def activate(s, slot, code):  # type: ignore[no-untyped-def]
    """Give the row in ``slot`` an active position; its kernel column is left in ``s.column``."""
    kernel_to(s, slot)
    p = s.tally[ACTIVE]
    s.column[p] = 1.0
    s.tally[ACTIVE] = p + 1
    s.slot[p] = slot
    s.place[slot] = p
    s.code[slot] = code
    s.order[p] = -1
    s.owner[p] = -1
    s.b[p] = 0.0
    s.db[p] = 0.0
    for j in range(s.keys.shape[1]):
        s.near[j, p] = s.keys[slot, j]
    if not s.tally[WATCH]:
        bound_kernel(s.centres, s.tally[REGIONS], s.keys[slot], s.value[GAMMA], s.ball[:, p])
    high = np.int64(0)
    low = np.int64(0)
    for i in range(p):
        if s.code[s.slot[i]] == ERROR:
            units = np.int64(s.column[i] * _UNIT)
            part = units // _HALF
            high += part
            low += units - part * _HALF
    s.high[p] = high
    s.low[p] = low
    for m in range(s.tally[MARGINS]):
        row = s.owner[s.margin[m]]
        s.P[row, p] = s.column[s.margin[m]]
    mover = s.tally[MOVER]
    if mover >= 0 and mover != p and s.owner[mover] >= 0:
        s.P[s.owner[mover], p] = s.column[mover]
    return p


@inner
def position(s, slot, code):  # type: ignore[no-untyped-def]
    """The row's position, a new one if it has none, with its kernel column in ``s.column``."""
    p = np.int64(s.place[slot])
    if p < 0:
        return activate(s, slot, code)
    kernel_to(s, slot)
    s.code[slot] = code
    return p


@inner
def take_kernel_row(s, p):  # type: ignore[no-untyped-def]
    """Give active row ``p`` a row of ``P`` filled from ``s.column``."""
    owned = s.tally[MARGINS]
    mover = s.tally[MOVER]
    if mover >= 0 and mover != p and s.owner[mover] >= 0:
        owned += 1
    row = s.spare[len(s.spare) - owned - 1]
    s.owner[p] = row
    for i in range(s.tally[ACTIVE]):
        s.P[row, i] = s.column[i]


@inner
def give_back_kernel_row(s, p):  # type: ignore[no-untyped-def]
    """Undo :func:`take_kernel_row`; call after the row has left the margin list."""
    owned = s.tally[MARGINS]
    mover = s.tally[MOVER]
    if mover >= 0 and mover != p and s.owner[mover] >= 0:
        owned += 1
    for i in range(s.tally[ACTIVE]):  # a row that leaves later must leave no kernel values here
        s.P[s.owner[p], i] = 0.0
    s.spare[len(s.spare) - owned - 1] = s.owner[p]
    s.owner[p] = -1


@inner
def join_margin(s, p):  # type: ignore[no-untyped-def]
    """Append active row ``p``, which owns its kernel row, to the margin and its factor."""
    m = s.tally[MARGINS]
    row = s.P[s.owner[p]]
    for k in range(m):
        s.w[k] = row[s.margin[k]]
    factor.append(s.U, m, s.w, 1.0 + s.value[RIDGE], s.x)
    s.margin[m] = p
    s.order[p] = m
    s.code[s.slot[p]] = MARGIN
    s.tally[MARGINS] = m + 1


@inner
def leave_margin(s, p):  # type: ignore[no-untyped-def]
    """Take active row ``p`` out of the margin and its factor; it keeps its kernel row."""
    q = s.order[p]
    m = s.tally[MARGINS]
    factor.delete(s.U, m, q)
    for k in range(q, m - 1):
        s.margin[k] = s.margin[k + 1]
        s.order[s.margin[k]] = k
    s.order[p] = -1
    s.tally[MARGINS] = m - 1


@inner
def error_to_margin(s, p):  # type: ignore[no-untyped-def]
    """An error row joins the margin at its full mass."""
    kernel_to(s, s.slot[p])
    count_errors(s, s.column, -1)
    s.tally[ERRORS] -= 1
    take_kernel_row(s, p)
    join_margin(s, p)


@inner
def margin_to_error(s, p):  # type: ignore[no-untyped-def]
    """A margin row reaches the cap."""
    s.b[p] = 1.0
    s.code[s.slot[p]] = ERROR
    count_errors(s, s.P[s.owner[p]], 1)
    s.tally[ERRORS] += 1
    leave_margin(s, p)
    give_back_kernel_row(s, p)


@inner
def deactivate(s, p, code):  # type: ignore[no-untyped-def]
    """Remove active position ``p`` (no margin row, no kernel row) by moving the last one there."""
    slot = s.slot[p]
    s.code[slot] = code
    s.place[slot] = -1
    last = s.tally[ACTIVE] - 1
    if p != last:
        s.slot[p] = s.slot[last]
        s.place[s.slot[p]] = p
        s.b[p] = s.b[last]
        s.h[p] = s.h[last]
        s.high[p] = s.high[last]
        s.low[p] = s.low[last]
        s.order[p] = s.order[last]
        s.owner[p] = s.owner[last]
        s.db[p] = s.db[last]
        s.dh[p] = s.dh[last]
        for j in range(s.keys.shape[1]):
            s.near[j, p] = s.near[j, last]
        for r in range(s.tally[REGIONS]):
            s.ball[r, p] = s.ball[r, last]
        if s.order[p] >= 0:
            s.margin[s.order[p]] = p
        if s.tally[MOVER] == last:
            s.tally[MOVER] = p
        for m in range(s.tally[MARGINS]):
            row = s.owner[s.margin[m]]
            s.P[row, p] = s.P[row, last]
        mover = s.tally[MOVER]
        if mover >= 0 and s.owner[mover] >= 0:
            row = s.owner[mover]
            s.P[row, p] = s.P[row, last]
    for row in range(len(s.margin)):
        s.P[row, last] = 0.0
    # Wipe the freed position: nothing of a departed row may stay behind.
    for j in range(s.keys.shape[1]):
        s.near[j, last] = 0.0
    s.ball[:, last] = 0.0
    s.b[last] = 0.0
    s.h[last] = 0.0
    s.db[last] = 0.0
    s.dh[last] = 0.0
    s.high[last] = 0
    s.low[last] = 0
    s.slot[last] = -1
    s.order[last] = -1
    s.owner[last] = -1
    s.tally[ACTIVE] = last


@inner
def margin_to_reserve(s, p):  # type: ignore[no-untyped-def]
    """A margin row reaches zero and stops being active; if not watched, it is due at once."""
    slot = s.slot[p]
    leave_margin(s, p)
    give_back_kernel_row(s, p)
    if s.tally[WATCH]:
        s.b[p] = 0.0
        s.db[p] = 0.0
        s.code[slot] = RESERVE
        return
    deactivate(s, p, RESERVE)
    s.due[slot] = -np.inf
    s.next_due[s.region[slot]] = -np.inf


@inner
def reserve_to_margin(s, slot):  # type: ignore[no-untyped-def]
    """A reserve row joins the margin at zero mass; returns its active position."""
    p = position(s, slot, MARGIN)
    take_kernel_row(s, p)
    join_margin(s, p)
    return p


@njit(cache=True)
def cross(s, slot):  # type: ignore[no-untyped-def]
    """Move a row over the boundary it has reached: into the margin, or out at the nearer bound.

    One function for all four moves, called from few places: compiled code stays small.
    """
    code = s.code[slot]
    p = s.place[slot]
    if code == RESERVE:
        p = reserve_to_margin(s, slot)
        s.h[p] = s.value[MU]
    elif code == ERROR:
        error_to_margin(s, p)
    elif s.b[p] < 0.5:
        margin_to_reserve(s, p)
    else:
        margin_to_error(s, p)


@njit(cache=True)
def start_error(s, slot):  # type: ignore[no-untyped-def]
    """A row becomes an error row at once (warm-up, where every row is at the cap)."""
    p = position(s, slot, ERROR)
    s.b[p] = 1.0
    count_errors(s, s.column, 1)
    s.tally[ERRORS] += 1
    return p


@inner
def watch(s, slot):  # type: ignore[no-untyped-def]
    """Give a reserve row a position, with its height; returns its slack."""
    p = activate(s, slot, RESERVE)
    s.h[p] = factor.dot(s.column, s.b, p)
    return s.h[p] - s.value[MU]


@njit(cache=True)
def wipe(s, slot):  # type: ignore[no-untyped-def]
    """Free a slot and overwrite its key."""
    for j in range(s.keys.shape[1]):
        s.keys[slot, j] = 0.0
    s.column[:] = 0.0
    s.code[slot] = FREE
    s.place[slot] = -1
    s.due[slot] = 0.0
    s.region[slot] = 0
    s.tally[ROWS] -= 1
