"""Moves of many rows at once: into warm-up, off a path that was lost, and out before a build."""

from __future__ import annotations

from numba import njit

from . import moving, sets
from .compile import inner
from .look import advance
from .state import ACTIVE, DIRECTION, MARGIN, MARGINS, MOVER, RESERVE, TOP


@njit(cache=True)
def all_to_error(s):  # type: ignore[no-untyped-def]
    """Warm-up: every row rests at the cap. False where arrays are full: make room, call again."""
    while s.tally[MARGINS] > 0:
        sets.margin_to_error(s, s.margin[s.tally[MARGINS] - 1])
    for slot in range(s.tally[TOP]):
        if s.code[slot] == RESERVE:
            if not sets.has_room(s):
                return False
            sets.start_error(s, slot)
    return True


@njit(cache=True)
def leave_path(s):  # type: ignore[no-untyped-def]
    """Give the walk up: the mover stays where it is, or goes at once; settling does the rest."""
    if s.tally[DIRECTION] > 0:
        moving.stop_in_margin(s)
    else:
        drive_out(s)


@inner
def drive_out(s):  # type: ignore[no-untyped-def]
    """Off the path: hand the moving row's mass to rows that have room, whatever their slack."""
    c = s.tally[MOVER]
    for i in range(s.tally[ACTIVE]):
        if s.code[s.slot[i]] == MARGIN:
            part = min(1.0 - s.b[i], s.b[c])
            s.b[i] += part
            s.b[c] -= part
    if s.b[c] > 0.0:
        for slot in range(s.tally[TOP]):
            if s.code[slot] == RESERVE:
                p = sets.reserve_to_margin(s, slot)
                s.b[p] = s.b[c]
                break
    s.b[c] = 0.0
    advance(s, 4.0)  # at most one row's mass went from here to there: 2 in the 1-norm
    moving.stop_gone(s)


@njit(cache=True)
def wipe_rows(s, slots):  # type: ignore[no-untyped-def]
    """Free many slots and overwrite their keys; a build must follow."""
    for i in range(len(slots)):
        sets.wipe(s, slots[i])
