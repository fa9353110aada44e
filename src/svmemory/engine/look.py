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

import numpy as np
from numba import njit

from .compile import inner
from .factor import dot
from .regions import find_region, set_paces
from .sets import kernel_to
from .state import ACTIVE, LOOKS, MARGINS, MU, REGIONS, RESERVE, TOP, TOTAL, WATCH


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
def choose_paces(s, length, pace, dmu):  # type: ignore[no-untyped-def]
    """Set the regions' paces for a step of at most ``length``; whether any row may be due in it.

    The centre's own pace holds everywhere and costs nothing. The regions get their own where
    computing them takes less than the looks that it would ask for.
    """
    if s.tally[WATCH]:
        return False
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
    if 8 * count * s.tally[ACTIVE] > s.tally[MARGINS] * s.tally[REGIONS]:
        set_paces(s, pace, dmu)
    return count > 0


@inner
def note_due(s, slot):  # type: ignore[no-untyped-def]
    """Let the region know when its row is due."""
    r = s.region[slot]
    s.next_due[r] = min(s.next_due[r], s.due[slot])


@njit(cache=True)
def slack_of(s, slot):  # type: ignore[no-untyped-def]
    """Slack ``h - mu`` of a reserve row; sets its due reading, leaves ``s.column`` filled."""
    if s.region[slot] == 0:
        s.region[slot] = find_region(s, slot)
    kernel_to(s, slot)
    s.tally[LOOKS] += 1
    slack = dot(s.column, s.b, s.tally[ACTIVE]) - s.value[MU]
    s.due[slot] = s.odometer[s.region[slot]] + slack - rounding(s)
    return slack


@inner
def first_reserve(s, reach):  # type: ignore[no-untyped-def]
    """Reserve row with the smallest slack, if that is at most ``reach``.

    Returns ``(slot, slack)``, or ``(-1, reach)`` when every reserve row is provably further away.
    """
    best = -1
    least = reach
    if s.tally[WATCH]:
        for i in range(s.tally[ACTIVE]):
            slack = s.h[i] - s.value[MU]
            if slack > least or s.code[s.slot[i]] != RESERVE:
                continue
            if best < 0 or slack < least or s.slot[i] < best:
                best = int(s.slot[i])
                least = slack
        return best, least
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
