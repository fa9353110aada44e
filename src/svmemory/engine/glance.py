"""Glances: many reserve rows looked at through the active rows near them alone.

Kernel values and masses are not negative, so the height of a row is at least what the active rows
near its region contribute, and the others can change it at most as fast as their bounds on the
kernel allow. Where that proves that a row stays in reserve, a glance has replaced a look at every
active row; where it does not, a look follows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernel import fill_kernel
from .compile import inner
from .factor import dot
from .look import note_due, rounding
from .state import ACTIVE, GAMMA, LOOKS, MU, REGIONS, RESERVE, TOP

Floats = NDArray[np.float64]

_NEAR = 1e-2  # bound on the kernel from which an active row is near a region
_MANY = 64  # so many due rows are worth the packing


class Part(NamedTuple):
    """Active rows near one region, packed."""

    keys: Floats  # (d, A), or (d, 0) where nothing is packed
    b: Floats  # (A,) their masses ...
    db: Floats  # (A,) ... and their direction
    column: Floats  # (A,) scratch
    tally: NDArray[np.int64]  # (2,) the region, -1 before the first; how many rows
    answer: Floats  # (3,) slack and slope of the last glance; how fast all others can lower a slack


@inner
def due_rows(s, length):  # type: ignore[no-untyped-def]
    """Slots of the reserve rows that are due within a step, region by region."""
    regions = s.tally[REGIONS]
    ends = np.zeros(regions + 1, np.int64)
    for slot in range(s.tally[TOP]):
        if s.code[slot] == RESERVE:
            r = s.region[slot]
            if s.due[slot] - s.odometer[r] <= length * s.pace[r]:
                ends[r + 1] += 1
    for r in range(regions):
        ends[r + 1] += ends[r]
    due = np.empty(ends[regions], np.int64)
    s.next_due[:regions] = np.inf
    for slot in range(s.tally[TOP]):
        if s.code[slot] == RESERVE:
            r = s.region[slot]
            if s.due[slot] - s.odometer[r] <= length * s.pace[r]:
                due[ends[r]] = slot
                ends[r] += 1
            else:
                note_due(s, slot)
    return due


@inner
def new_part(s, count):  # type: ignore[no-untyped-def]
    """Room for the active rows near a region, if glances at so many rows are worth it."""
    n = s.tally[ACTIVE] if count >= _MANY else 0
    return Part(
        np.empty((s.near.shape[0], n)),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.array([-1, 0]),
        np.zeros(3),
    )


@inner
def pack(s, part, r):  # type: ignore[no-untyped-def]
    """Collect the active rows near region ``r``."""
    count = 0
    others = 0.0
    ball = s.ball[r]
    for i in range(s.tally[ACTIVE]):
        bound = ball[i]
        if bound < _NEAR:
            others += abs(s.db[i]) * bound
            continue
        for j in range(part.keys.shape[0]):
            part.keys[j, count] = s.near[j, i]
        part.b[count] = s.b[i]
        part.db[count] = s.db[i]
        count += 1
    part.tally[0] = r
    part.tally[1] = count
    part.answer[2] = others * (1.0 + 1e-12)


@inner
def glance(s, part, slot):  # type: ignore[no-untyped-def]
    """Lower bounds on a row's slack and (without ``dmu``) its slope, into ``part.answer``.

    False where a glance would hardly be cheaper than a look.
    """
    room = len(part.b)
    r = s.region[slot]
    if room == 0 or r == 0:
        return False
    if part.tally[0] != r:
        pack(s, part, r)
    count = part.tally[1]
    if 2 * count > room:
        return False
    fill_kernel(part.keys, count, s.keys[slot], s.value[GAMMA], part.column)
    s.tally[LOOKS] += 1
    part.answer[0] = dot(part.column, part.b, count) - s.value[MU]
    part.answer[1] = dot(part.column, part.db, count) - part.answer[2]
    s.due[slot] = s.odometer[r] + part.answer[0] - rounding(s)
    return True
