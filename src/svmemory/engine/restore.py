"""Put an engine's state together from rows and their masses, as a file gives them."""

from __future__ import annotations

import numpy as np
from numba import njit

from . import sets
from .compile import inner
from .look import first_reserve, note_due, slack_of
from .settle import highest_error, refresh
from .state import (
    ACTIVE,
    ERROR,
    ERRORS,
    FREE,
    MARGIN,
    MARGINS,
    MOVER,
    MU,
    RESERVE,
    TOP,
    WATCH,
)


@njit(cache=True)
def clear_active(s):  # type: ignore[no-untyped-def]
    """Every held row to reserve, unlooked at; no active row is left."""
    for p in range(s.tally[ACTIVE]):
        s.slot[p] = -1
        s.near[:, p] = 0.0
        s.P[:, p] = 0.0
        s.order[p] = -1
        s.owner[p] = -1
        s.b[p] = 0.0
        s.high[p] = 0
        s.low[p] = 0
    for k in range(len(s.spare)):
        s.spare[k] = len(s.spare) - 1 - k
    for slot in range(s.tally[TOP]):
        s.place[slot] = -1
        if s.code[slot] != FREE:
            s.code[slot] = RESERVE
            s.due[slot] = -np.inf
    s.tally[ACTIVE] = 0
    s.tally[MARGINS] = 0
    s.tally[ERRORS] = 0
    s.tally[MOVER] = -1
    s.odometer[:] = 0.0
    s.next_due[:] = -np.inf


@njit(cache=True)
def place_rows(s, slots, b, start):  # type: ignore[no-untyped-def]
    """Move reserve rows ``start`` and on into the sets that their masses name.

    Returns the first row not placed: ``len(b)`` when done, less where the arrays are full.
    """
    for i in range(start, len(b)):
        if not sets.has_room(s):
            return i
        if b[i] >= 1.0:
            sets.start_error(s, slots[i])
        elif b[i] > 0.0:
            p = sets.reserve_to_margin(s, slots[i])
            s.b[p] = b[i]
        elif s.tally[WATCH]:
            sets.activate(s, slots[i], RESERVE)
    return len(b)


@njit(cache=True)
def balance(s):  # type: ignore[no-untyped-def]
    """Set the multiplier by the placed rows, and look at every reserve row once."""
    refresh(s)
    top = highest_error(s)
    total = 0.0
    for k in range(s.tally[MARGINS]):
        total += s.h[s.margin[k]]
    s.value[MU] = total / s.tally[MARGINS] if s.tally[MARGINS] > 0 else s.h[top]
    look_at_all(s)


@inner
def look_at_all(s):  # type: ignore[no-untyped-def]
    """Look at every reserve row; returns the smallest slack. Heights must be up to date."""
    least = np.inf
    if s.tally[WATCH]:
        return first_reserve(s, np.inf)[1]
    s.next_due[:] = np.inf
    for slot in range(s.tally[TOP]):
        if s.code[slot] == RESERVE:
            least = min(least, slack_of(s, slot))
            note_due(s, slot)
    return least


@njit(cache=True)
def violation(s):  # type: ignore[no-untyped-def]
    """Largest violation of a sign or of the margin's balance; looks at every row once."""
    refresh(s)
    mu = s.value[MU]
    worst = 0.0
    for i in range(s.tally[ACTIVE]):
        slack = s.h[i] - mu
        if s.code[s.slot[i]] == MARGIN:
            worst = max(worst, abs(slack))
        elif s.code[s.slot[i]] == ERROR:
            worst = max(worst, slack)
    return max(worst, -look_at_all(s))
