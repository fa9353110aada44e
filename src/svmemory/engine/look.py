"""Reserve rows and their mileage.

A reserve row carries nothing, so it need not be touched while the state moves. Its slack ``h_j -
mu`` falls by at most ``|Db|_K + |Dmu|`` when the masses move by ``Db`` and the multiplier by
``Dmu`` (Cauchy-Schwarz, since ``k(x, x) = 1``). The state's odometer adds these amounts up; a row
whose slack was ``t`` at reading ``D`` is provably still in reserve until the odometer passes ``D +
t``, its *due* reading. Bounds on rounding are taken off every slack, so that this stays a proof in
float64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .compile import inner
from .factor import dot
from .sets import kernel_to
from .state import ACTIVE, LOOKS, MU, NEXT_DUE, ODOMETER, RESERVE, TOP, TOTAL


@njit(cache=True)
def rounding(s):  # type: ignore[no-untyped-def]
    """Bound on the rounding error of one ``h`` or ``mu``: A products that total at most m'."""
    return 4.5e-16 * ((s.tally[ACTIVE] + 16) * (s.value[TOTAL] + 1.0) + s.value[ODOMETER])


@njit(cache=True)
def advance(s, distance):  # type: ignore[no-untyped-def]
    """Add to the odometer, rounded so that it never reads too little."""
    s.value[ODOMETER] += distance * (1.0 + 1e-12) + 4.5e-16 * (s.value[ODOMETER] + 1.0)


@njit(cache=True)
def slack_of(s, slot):  # type: ignore[no-untyped-def]
    """Slack ``h - mu`` of a reserve row; sets its due reading, leaves ``s.column`` filled."""
    kernel_to(s, slot)
    s.tally[LOOKS] += 1
    slack = dot(s.column, s.b, s.tally[ACTIVE]) - s.value[MU]
    s.due[slot] = s.value[ODOMETER] + slack - rounding(s)
    return slack


@inner
def first_reserve(s, reach):  # type: ignore[no-untyped-def]
    """Reserve row with the smallest slack, if that is at most ``reach``.

    Returns ``(slot, slack)``, or ``(-1, reach)`` when every reserve row is provably further away.
    """
    best = -1
    least = reach
    odometer = s.value[ODOMETER]
    if s.value[NEXT_DUE] - odometer > reach:
        return best, least
    next_due = np.inf
    for slot in range(s.tally[TOP]):
        if s.code[slot] != RESERVE:
            continue
        if s.due[slot] - odometer <= least:
            slack = slack_of(s, slot)
            if slack <= least and (best < 0 or slack < least):
                best = slot
                least = slack
        next_due = min(next_due, s.due[slot])
    s.value[NEXT_DUE] = next_due
    return best, least
