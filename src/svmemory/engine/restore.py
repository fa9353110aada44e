"""Put an engine's state together from rows and their masses, as a file gives them."""

from __future__ import annotations

import numpy as np
from numba import njit

from . import sets
from .look import slack_of
from .settle import refresh
from .state import ACTIVE, ERROR, MARGIN, MU, NEXT_DUE, RESERVE, TOP


@njit(cache=True)
def place_rows(s, b, start):  # type: ignore[no-untyped-def]
    """Enter rows ``start`` and on into the sets their masses name.

    Returns the first row not entered: ``len(b)`` when done, less where the arrays are full.
    """
    for slot in range(start, len(b)):
        if not sets.has_room(s):
            return slot
        s.code[slot] = RESERVE
        if b[slot] >= 1.0:
            sets.start_error(s, slot)
        elif b[slot] > 0.0:
            p = sets.reserve_to_margin(s, slot)
            s.b[p] = b[slot]
    return len(b)


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
    next_due = np.inf
    for slot in range(s.tally[TOP]):
        if s.code[slot] == RESERVE:
            worst = max(worst, -slack_of(s, slot))
            next_due = min(next_due, s.due[slot])
    s.value[NEXT_DUE] = next_due
    return worst
