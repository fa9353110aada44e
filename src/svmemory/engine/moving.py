"""The one row on the move: into no set while a path changes its mass, and out of it at the end."""

from __future__ import annotations

from numba import njit

from . import factor
from .sets import (
    count_errors,
    deactivate,
    give_back_kernel_row,
    join_margin,
    kernel_to,
    leave_margin,
    position,
    take_kernel_row,
    wipe,
)
from .state import ACTIVE, ERROR, ERRORS, FREE, MARGIN, MOVER, MOVING, RIDGE


@njit(cache=True)
def start_moving(s, p):  # type: ignore[no-untyped-def]
    """Take an active row out of its set so that a path can move its mass; it keeps its mass."""
    slot = s.slot[p]
    if s.code[slot] == MARGIN:
        leave_margin(s, p)
        s.tally[MOVER] = p
    else:
        kernel_to(s, slot)
        count_errors(s, s.column, -1)
        s.tally[ERRORS] -= 1
        take_kernel_row(s, p)
        s.tally[MOVER] = p
    s.code[slot] = MOVING


@njit(cache=True)
def admit_moving(s, slot, mass):  # type: ignore[no-untyped-def]
    """A new row enters as the moving row with the given mass; returns its active position."""
    p = position(s, slot, MOVING)
    s.b[p] = mass
    s.h[p] = factor.dot(s.column, s.b, s.tally[ACTIVE]) + s.value[RIDGE] * mass
    take_kernel_row(s, p)
    s.tally[MOVER] = p
    return p


@njit(cache=True)
def stop_in_margin(s):  # type: ignore[no-untyped-def]
    """The moving row joins the margin."""
    p = s.tally[MOVER]
    s.tally[MOVER] = -1
    join_margin(s, p)


@njit(cache=True)
def stop_in_error(s):  # type: ignore[no-untyped-def]
    """The moving row becomes an error row."""
    p = s.tally[MOVER]
    s.b[p] = 1.0
    s.code[s.slot[p]] = ERROR
    count_errors(s, s.P[s.owner[p]], 1)
    s.tally[ERRORS] += 1
    s.tally[MOVER] = -1
    give_back_kernel_row(s, p)


@njit(cache=True)
def stop_gone(s):  # type: ignore[no-untyped-def]
    """The moving row is erased: its slot becomes free and its bytes are overwritten."""
    p = s.tally[MOVER]
    slot = s.slot[p]
    s.tally[MOVER] = -1
    give_back_kernel_row(s, p)
    deactivate(s, p, FREE)
    wipe(s, slot)
