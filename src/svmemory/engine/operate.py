"""Whole operations in compiled code: many rows in, many rows out, each at the optimum.

An operation that runs out of room returns ``GROW`` in the middle of whatever it does; the phase in
the state says what is under way, and calling again goes on from there.
"""

from __future__ import annotations

from numba import njit

from . import moving, sets
from .compile import inner
from .look import note_due, slack_of
from .settle import highest_error, refresh, settle
from .state import (
    DIRECTION,
    IDLE,
    LOOKS,
    MASS,
    MU,
    PHASE,
    RESERVE,
    ROWS,
    SETTLING,
    TOTAL,
    WALKING,
    WARMING,
    WATCH,
)
from .walk import DONE, GROW, walk
from .warmup import all_to_error


@inner
def top_of_errors(s):  # type: ignore[no-untyped-def]
    """Multiplier of an empty margin."""
    refresh(s)
    s.value[MU] = s.h[highest_error(s)]


@njit(cache=True)
def proceed(s):  # type: ignore[no-untyped-def]
    """Go on with what is under way until it is done: ``DONE``, ``GROW`` or ``LOST``."""
    if s.tally[PHASE] == WALKING:
        outcome = walk(s)
        if outcome != DONE:
            return outcome
        s.tally[PHASE] = SETTLING
    if s.tally[PHASE] == WARMING:
        if not all_to_error(s):
            return GROW
        s.value[TOTAL] = float(s.tally[ROWS])
        top_of_errors(s)
        s.tally[PHASE] = IDLE
    if s.tally[PHASE] == SETTLING:
        outcome = settle(s)
        if outcome != DONE:
            return outcome
        s.tally[PHASE] = IDLE
    return DONE


@inner
def enter(s, slot):  # type: ignore[no-untyped-def]
    """Admit the row in ``slot``, up to where its path begins."""
    s.tally[ROWS] += 1
    n = s.tally[ROWS]
    before = s.value[TOTAL]
    s.value[TOTAL] = min(s.value[MASS], float(n))
    if n <= s.value[MASS]:
        sets.start_error(s, slot)
        top_of_errors(s)
        return
    spare = s.value[TOTAL] - before  # what the last step of warm-up leaves for the newcomer
    if spare > 0.0:
        moving.admit_moving(s, slot, spare)
        top_of_errors(s)
    else:
        if s.tally[WATCH]:
            s.tally[LOOKS] += 1
            if sets.watch(s, slot) >= 0.0:
                return
        else:
            s.code[slot] = RESERVE
            if slack_of(s, slot) >= 0.0:
                note_due(s, slot)
                return
        moving.admit_moving(s, slot, 0.0)
    s.tally[DIRECTION] = 1
    s.tally[PHASE] = WALKING


@inner
def leave(s, slot):  # type: ignore[no-untyped-def]
    """Begin to remove the row in ``slot``; at least one other row must stay."""
    n = s.tally[ROWS] - 1
    warm = n <= s.value[MASS]
    if s.code[slot] == RESERVE:
        if s.tally[WATCH]:
            sets.deactivate(s, s.place[slot], RESERVE)
        sets.wipe(s, slot)
    else:
        moving.start_moving(s, s.place[slot])
        if warm:
            moving.stop_gone(s)
        else:
            s.tally[DIRECTION] = -1
            s.tally[PHASE] = WALKING
    if warm:  # at most m rows remain: all of them rest at the cap
        s.tally[PHASE] = WARMING


@njit(cache=True)
def insert_rows(s, slots, done):  # type: ignore[no-untyped-def]
    """Admit the rows in ``slots[done:]`` one after the other; ``(rows begun, outcome)``."""
    while True:
        outcome = proceed(s)
        if outcome != DONE or done == len(slots):
            return done, outcome
        if not sets.has_room(s):
            return done, GROW
        enter(s, slots[done])
        done += 1


@njit(cache=True)
def remove_rows(s, slots, done):  # type: ignore[no-untyped-def]
    """Remove the rows in ``slots[done:]`` one after the other; ``(rows begun, outcome)``."""
    while True:
        outcome = proceed(s)
        if outcome != DONE or done == len(slots):
            return done, outcome
        if not sets.has_room(s):
            return done, GROW
        leave(s, slots[done])
        done += 1
