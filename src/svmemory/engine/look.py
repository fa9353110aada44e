"""Reserve rows and their mileage.

A reserve row carries nothing, so it need not be touched while the state moves. When the masses
move by ``Db`` and the multiplier by ``Dmu``, its slack ``h_j - mu`` falls by at most

    min( |Db|_K , sum_i |Db_i| k(j, i) ) + |Dmu|,

by Cauchy-Schwarz with ``k(x, x) = 1``, or term by term. Odometers add such amounts up, one for
each *region* of keys: a ball in which the second bound is small when all that moves is far away. A
row whose slack was ``t`` at its region's reading ``D`` is provably still in reserve until that
odometer passes ``D + t``, its *due* reading. Bounds on rounding are taken off every slack, so that
this stays a proof in float64.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..kernel import exp_negative
from .compile import inner
from .factor import dot
from .sets import kernel_to
from .state import ACTIVE, GAMMA, LOOKS, MU, REGIONS, RESERVE, TOP, TOTAL

_CLOSE = 0.9  # kernel between a region's centre and its rows, at least


@njit(cache=True)
def rounding(s):  # type: ignore[no-untyped-def]
    """Bound on the rounding error of one ``h`` or ``mu``: A products that total at most m'."""
    return 4.5e-16 * ((s.tally[ACTIVE] + 16) * (s.value[TOTAL] + 1.0) + s.odometer[0])


@njit(cache=True)
def advance(s, distance):  # type: ignore[no-untyped-def]
    """Add the same to every odometer, rounded so that none ever reads too little."""
    for r in range(s.tally[REGIONS]):
        s.odometer[r] += distance * (1.0 + 1e-12) + 4.5e-16 * (s.odometer[r] + 1.0)


@inner
def set_paces(s, pace, dmu):  # type: ignore[no-untyped-def]
    """Per unit of the coming step, how fast each region's odometer runs."""
    gamma = s.value[GAMMA]
    radius = math.sqrt(-math.log(_CLOSE) / gamma) * (1.0 + 1e-9)
    n = s.tally[ACTIVE]
    s.pace[0] = pace + abs(dmu)
    for r in range(1, s.tally[REGIONS]):
        for i in range(n):
            s.column[i] = 0.0
        for j in range(s.centres.shape[0]):
            row = s.near[j]
            x = s.centres[j, r]
            for i in range(n):
                difference = row[i] - x
                s.column[i] += difference * difference
        total = 0.0
        for i in range(n):
            gap = max(math.sqrt(s.column[i]) * (1.0 - 1e-9) - radius, 0.0)
            s.column[i] = min(gamma * gap * gap, 44.0)
        exp_negative(s.column, n)
        for i in range(n):
            total += abs(s.db[i]) * s.column[i]
            s.column[i] = 0.0
        s.pace[r] = min(total * (1.0 + 1e-12) + 1e-15, pace) + abs(dmu)


@inner
def choose_paces(s, length, pace, dmu):  # type: ignore[no-untyped-def]
    """Set the regions' paces for a step of at most ``length``; whether any row may be due in it.

    The centre's own pace holds everywhere and costs nothing. Only where it would have more rows
    looked at than there are regions to compute are the regions worth their own.
    """
    most = pace + abs(dmu)
    due = False
    for r in range(s.tally[REGIONS]):
        s.pace[r] = most
        due = due or s.next_due[r] - s.odometer[r] <= length * most
    if not due:
        return False
    count = 0
    for slot in range(s.tally[TOP]):
        if s.code[slot] == RESERVE and s.due[slot] - s.odometer[s.region[slot]] <= length * most:
            count += 1
    if count > 2 * s.tally[REGIONS]:
        set_paces(s, pace, dmu)
    return count > 0


@inner
def find_region(s, slot):  # type: ignore[no-untyped-def]
    """Region of a row: the nearest centre that is close enough, a new one, or region 0."""
    n = s.tally[REGIONS]
    gamma = s.value[GAMMA]
    width = s.centres.shape[0]
    limit = -math.log(_CLOSE) / gamma
    for r in range(1, n):
        square = 0.0
        for j in range(width):
            difference = s.centres[j, r] - s.keys[slot, j]
            square += difference * difference
            if square > limit:
                break
        if square <= limit:
            return r
    if n == len(s.odometer):
        return 0
    # A centre is a point of a grid near the row, never the row's own key, which may be forgotten.
    grid = 0.1 * math.sqrt(limit / width)
    for j in range(width):
        s.centres[j, n] = math.floor(s.keys[slot, j] / grid + 0.5) * grid
    s.odometer[n] = 0.0
    s.tally[REGIONS] = n + 1
    return n


@inner
def note_due(s, slot):  # type: ignore[no-untyped-def]
    """Let the region know when its row is due."""
    r = s.region[slot]
    s.next_due[r] = min(s.next_due[r], s.due[slot])


@njit(cache=True)
def slack_of(s, slot):  # type: ignore[no-untyped-def]
    """Slack ``h - mu`` of a reserve row; sets its due reading, leaves ``s.column`` filled."""
    kernel_to(s, slot)
    s.tally[LOOKS] += 1
    slack = dot(s.column, s.b, s.tally[ACTIVE]) - s.value[MU]
    if s.region[slot] == 0:
        s.region[slot] = find_region(s, slot)
    s.due[slot] = s.odometer[s.region[slot]] + slack - rounding(s)
    return slack


@inner
def first_reserve(s, reach):  # type: ignore[no-untyped-def]
    """Reserve row with the smallest slack, if that is at most ``reach``.

    Returns ``(slot, slack)``, or ``(-1, reach)`` when every reserve row is provably further away.
    """
    best = -1
    least = reach
    due = False
    for r in range(s.tally[REGIONS]):
        due = due or s.next_due[r] - s.odometer[r] <= reach
    if not due:
        return best, least
    s.next_due[: s.tally[REGIONS]] = np.inf
    for slot in range(s.tally[TOP]):
        if s.code[slot] != RESERVE:
            continue
        if s.due[slot] - s.odometer[s.region[slot]] <= least:
            slack = slack_of(s, slot)
            if slack <= least and (best < 0 or slack < least):
                best = slot
                least = slack
        note_due(s, slot)
    return best, least
