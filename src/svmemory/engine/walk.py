"""The adiabatic path: one row's mass moves, the others follow under the KKT conditions.

This is the incremental support-vector path of Cauwenberghs and Poggio (2000) for the problem of
:mod:`svmemory.problem`. Between events the path is a straight line: the margin absorbs the change,
``(K_SS + ridge) db = dmu 1 - k_c dt`` with ``sum(db) = -dt``. An event is a margin row reaching a
bound, an error or reserve row whose slack reaches zero, or the moving row reaching its goal. A
step of length zero is an event like any other; among events at the same point the smallest slot
goes first, which is Murty's rule and cannot cycle. With an empty margin the masses cannot move:
the multiplier slides until a row enters.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .compile import inner
from .factor import dot, solve
from .glance import due_rows, glance, new_part
from .look import (
    advance,
    choose_paces,
    first_reserve,
    note_due,
    rounding,
    slack_of,
)
from .moving import stop_gone, stop_in_error, stop_in_margin
from .sets import cross, has_room
from .state import (
    ACTIVE,
    DIRECTION,
    ERROR,
    EVENTS,
    MARGIN,
    MARGINS,
    MOVER,
    MU,
    PATIENCE,
    REGIONS,
    RESERVE,
    RIDGE,
    SEEN,
    ZERO_STEPS,
)

DONE, GROW, LOST = 0, 1, 2
FLAT = 1e-15  # relative rounding of a slope
TIE = 1e-14  # step lengths (in rows of mass) closer than this are the same event


@inner
def set_direction(s):  # type: ignore[no-untyped-def]
    """Fill ``db`` and ``dh`` per unit of movement.

    Returns ``dmu``, the rate at which the mover's slack shrinks, the pace of the centre, and the
    size below which a slope is only rounding.
    """
    n = s.tally[ACTIVE]
    m = s.tally[MARGINS]
    c = s.tally[MOVER]
    sign = float(s.tally[DIRECTION])
    ridge = s.value[RIDGE]
    kernel = s.P[s.owner[c]]
    sum_w = 0.0
    sum_z = 0.0
    total = 1.0
    for k in range(m):
        s.w[k] = 1.0
        s.x[k] = kernel[s.margin[k]]
    solve(s.U, m, s.w)
    solve(s.U, m, s.x)
    for k in range(m):
        sum_w += s.w[k]
        sum_z += s.x[k]
    dmu = sign * (sum_z - 1.0) / sum_w
    for i in range(n):
        s.db[i] = 0.0
        s.dh[i] = sign * kernel[i]
    for k in range(m):
        p = s.margin[k]
        step = dmu * s.w[k] - sign * s.x[k]
        s.db[p] = step
        total += abs(step)
        row = s.P[s.owner[p]]
        for i in range(n):
            s.dh[i] += step * row[i]
        s.dh[p] += ridge * step
    s.db[c] = sign
    s.dh[c] += sign * ridge
    flat = FLAT * total
    # |Db|_K^2 <= Db' (K + ridge I) Db, with room for the rounding of that sum
    pace = math.sqrt(max(dot(s.db, s.dh, n), 0.0) + 8.0 * flat)
    return dmu, max(sign * (s.dh[c] - dmu), 0.0), pace, flat


@inner
def next_event(s, dmu, rate, pace, flat):  # type: ignore[no-untyped-def]
    """First event ahead: ``(step length, slot)``; the mover's own slot means arrival."""
    n = s.tally[ACTIVE]
    c = s.tally[MOVER]
    mu = s.value[MU]
    if s.tally[DIRECTION] > 0:
        length = 1.0 - s.b[c]
        behind = mu - s.h[c]  # the mover rests when its slack has risen to zero
        if behind <= 0.0:
            length = 0.0
        elif rate > 0.0:
            length = min(length, behind / rate)
    else:
        length = s.b[c]
    winner = s.slot[c]
    for i in range(n):
        slot = s.slot[i]
        code = s.code[slot]
        t = np.inf
        if code == MARGIN:
            if s.db[i] < -flat:
                t = max(s.b[i], 0.0) / -s.db[i]
            elif s.db[i] > flat:
                t = max(1.0 - s.b[i], 0.0) / s.db[i]
        elif code == ERROR:
            slope = s.dh[i] - dmu
            if slope > flat:
                t = max(mu - s.h[i], 0.0) / slope
        elif code == RESERVE:
            slope = s.dh[i] - dmu
            if slope < -flat:
                t = max(s.h[i] - mu, 0.0) / -slope
        if t < length - TIE or (t <= length + TIE and slot < winner and winner != s.slot[c]):
            length = min(t, length)
            winner = slot
    s.tally[SEEN] = 0
    if choose_paces(s, length, pace, dmu):
        due = due_rows(s, length)
        part = new_part(s, len(due))
        for slot in due:
            r = s.region[slot]
            if s.due[slot] - s.odometer[r] > length * s.pace[r]:  # the step is shorter by now
                note_due(s, slot)
                continue
            if glance(s, part, slot):
                slack, slope = part.answer[0], part.answer[1] - dmu
                blur = rounding(s) + (n + 16) * flat * length
                if min(slack, slack + length * slope) > blur:
                    remember(s, slot, slack, slope)
                    continue
            slack = slack_of(s, slot)
            slope = dot(s.column, s.db, n) - dmu
            remember(s, slot, slack, slope)
            if slope < -flat:
                t = max(slack, 0.0) / -slope
                if t < length - TIE or (
                    t <= length + TIE and slot < winner and winner != s.slot[c]
                ):
                    length = min(t, length)
                    winner = slot
    return length, winner


@inner
def remember(s, slot, slack, slope):  # type: ignore[no-untyped-def]
    """Keep what was seen of a reserve row for the end of the step, where there is room for it."""
    k = s.tally[SEEN]
    if k == len(s.seen):
        note_due(s, slot)
        return
    s.seen[k] = slot
    s.seen_slack[k] = slack
    s.seen_slope[k] = slope
    s.tally[SEEN] = k + 1


@inner
def slide(s):  # type: ignore[no-untyped-def]
    """Empty margin: move the multiplier until a row can enter, and return its slot (-1 if none).

    The mover's own slot means that it can rest where it is.
    """
    c = s.tally[MOVER]
    mu = s.value[MU]
    if s.tally[DIRECTION] > 0:
        top = c
        for i in range(s.tally[ACTIVE]):
            if s.code[s.slot[i]] == ERROR and (
                s.h[i] > s.h[top] or (top != c and s.h[i] == s.h[top] and s.slot[i] < s.slot[top])
            ):
                top = i
        s.value[MU] = s.h[top]
        winner = s.slot[top]
    else:
        winner, slack = first_reserve(s, np.inf)
        if winner < 0:
            return winner
        s.value[MU] += slack
    advance(s, abs(s.value[MU] - mu))
    return winner


@inner
def stride(s):  # type: ignore[no-untyped-def]
    """Move along the path up to the next event; returns its slot and the length of the step."""
    dmu, rate, pace, flat = set_direction(s)
    length, winner = next_event(s, dmu, rate, pace, flat)
    for i in range(s.tally[ACTIVE]):
        s.b[i] = min(max(s.b[i] + length * s.db[i], 0.0), 1.0)  # never past a bound by a rounding
        s.h[i] += length * s.dh[i]
    s.value[MU] += length * dmu
    for r in range(s.tally[REGIONS]):
        s.odometer[r] += length * s.pace[r] * (1.0 + 1e-12) + 4.5e-16 * (s.odometer[r] + 1.0)
    # What was looked at is known at the end of the step too, better than the mileage tells.
    blur = rounding(s) + (s.tally[ACTIVE] + 16) * flat * length
    for k in range(s.tally[SEEN]):
        slack = s.seen_slack[k] + length * s.seen_slope[k]
        slot = s.seen[k]
        s.due[slot] = max(s.due[slot], s.odometer[s.region[slot]] + slack - blur)
        note_due(s, slot)
    return winner, length


@njit(cache=True)
def walk(s):  # type: ignore[no-untyped-def]
    """Move the mover to its goal: ``DONE``, ``GROW`` (make room, call again) or ``LOST``."""
    limit = s.tally[EVENTS] + s.value[PATIENCE] * (1.0 + 0.1 * s.tally[ACTIVE])
    while True:
        if not has_room(s):
            return GROW
        if s.tally[EVENTS] > limit:
            return LOST
        c = s.tally[MOVER]
        length = 0.0
        if s.tally[DIRECTION] < 0 and s.b[c] == 0.0:
            winner = s.slot[c]
        elif s.tally[MARGINS] == 0:
            winner = slide(s)
            if winner < 0:
                return LOST
        else:
            winner, length = stride(s)
        s.tally[EVENTS] += 1
        if length <= TIE:
            s.tally[ZERO_STEPS] += 1
        if winner != s.slot[c]:
            cross(s, winner)
            continue
        if s.tally[DIRECTION] < 0:
            stop_gone(s)
        elif s.b[c] >= 1.0 - TIE:
            stop_in_error(s)
        else:
            stop_in_margin(s)
        return DONE
