"""Settle: from any feasible state to the optimum of the KKT conditions, and proof that it is there.

A primal active-set method on the engine's own sets: solve the margin system, step until a margin
row meets a bound, otherwise release the row that violates its sign most. After a walk this costs
one residual and finds nothing to do; it is also how a memory is put together from weights that are
only nearly optimal. ``h`` is recomputed from the exact sums, so that no error accumulates over
operations.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .compile import inner
from .factor import solve
from .look import advance, first_reserve
from .sets import cross, has_room
from .state import (
    ACTIVE,
    CORRECTIONS,
    ERROR,
    ERRORS,
    MARGINS,
    MOVER,
    MU,
    RESIDUAL,
    RIDGE,
    TOTAL,
)
from .walk import DONE, GROW, LOST

_SMALL = 2.220446049250313e-16


@njit(cache=True)
def refresh(s):  # type: ignore[no-untyped-def]
    """Recompute ``h`` of every active row from exact error sums and the margin's kernel columns."""
    n = s.tally[ACTIVE]
    for i in range(n):
        s.h[i] = s.high[i] * 1.4901161193847656e-08 + s.low[i] * 2.220446049250313e-16
    for k in range(s.tally[MARGINS]):
        p = s.margin[k]
        row = s.P[s.owner[p]]
        mass = s.b[p]
        for i in range(n):
            s.h[i] += mass * row[i]
    mover = s.tally[MOVER]
    if mover >= 0:
        row = s.P[s.owner[mover]]
        for i in range(n):
            s.h[i] += s.b[mover] * row[i]
    for i in range(n):
        s.h[i] += s.value[RIDGE] * s.b[i]


@njit(cache=True)
def highest_error(s):  # type: ignore[no-untyped-def]
    """Active position of the error row with the largest ``h``, or -1."""
    top = -1
    for i in range(s.tally[ACTIVE]):
        if s.code[s.slot[i]] == ERROR and (top < 0 or s.h[i] > s.h[top]):
            top = i
    return top


@inner
def correction(s):  # type: ignore[no-untyped-def]
    """Newton step of the margin system into ``x``; returns ``dmu`` and the present residual."""
    m = s.tally[MARGINS]
    missing = s.value[TOTAL] - s.tally[ERRORS]
    mu = s.value[MU]
    residual = 0.0
    for k in range(m):
        p = s.margin[k]
        missing -= s.b[p]
        s.x[k] = mu - s.h[p]
        s.w[k] = 1.0
        residual = max(residual, abs(s.x[k]))
    solve(s.U, m, s.w)
    solve(s.U, m, s.x)
    sum_w = 0.0
    sum_x = 0.0
    for k in range(m):
        sum_w += s.w[k]
        sum_x += s.x[k]
    dmu = (missing - sum_x) / sum_w
    for k in range(m):
        s.x[k] += dmu * s.w[k]
    return dmu, max(residual, abs(missing))


@njit(cache=True)
def settle(s):  # type: ignore[no-untyped-def]
    """Run to the optimum. ``DONE``, ``GROW`` (make room, call again) or ``LOST``."""
    limit = s.tally[CORRECTIONS] + 1000 + 30 * s.tally[ACTIVE]
    polish = 0
    while True:
        if not has_room(s):
            return GROW
        if s.tally[CORRECTIONS] > limit:
            return LOST
        refresh(s)
        tolerance = 8.0 * _SMALL * (s.value[TOTAL] + 1.0)
        if s.tally[MARGINS] > 0 and s.value[TOTAL] == s.tally[ERRORS]:
            # Error rows hold all the mass, so every margin row is at zero: the margin is really
            # empty,
            # and the multiplier follows the error rows, not those.
            while s.tally[MARGINS] > 0:
                p = s.margin[s.tally[MARGINS] - 1]
                s.b[p] = 0.0
                cross(s, s.slot[p])
        if s.tally[MARGINS] == 0:
            top = highest_error(s)
            if top < 0:
                s.value[RESIDUAL] = 0.0
                return DONE
            advance(s, abs(s.h[top] - s.value[MU]))
            s.value[MU] = s.h[top]
            missing = s.value[TOTAL] - s.tally[ERRORS]
            slot, _ = first_reserve(s, -tolerance if missing == 0.0 else np.inf)
            if slot < 0 and missing >= 0.0:
                s.value[RESIDUAL] = missing
                return DONE if missing == 0.0 else LOST
            s.tally[CORRECTIONS] += 1
            upper = s.slot[top] if top >= 0 else -1
            if missing <= 0.0:
                cross(s, upper)
            if missing >= 0.0:
                cross(s, slot)
            continue
        dmu, residual = correction(s)
        if residual > tolerance and polish < 3:
            # Step towards the margin's own optimum, no further than the first bound.
            length = 1.0
            blocking = -1
            for k in range(s.tally[MARGINS]):
                p = s.margin[k]
                goal = s.b[p] + s.x[k]
                t = 1.0
                if goal < 0.0:
                    t = max(s.b[p], 0.0) / -s.x[k]
                elif goal > 1.0:
                    t = max(1.0 - s.b[p], 0.0) / s.x[k]
                if t < length:
                    length = t
                    blocking = p
            moved = 0.0
            energy = 0.0  # |Db|_K^2 <= x' (K + ridge I) x, and (K + ridge I) x = residual + dmu
            for k in range(s.tally[MARGINS]):
                p = s.margin[k]
                s.b[p] = min(max(s.b[p] + length * s.x[k], 0.0), 1.0)
                moved += abs(s.x[k])
                energy += s.x[k] * (s.value[MU] - s.h[p] + dmu)
            s.value[MU] += length * dmu
            energy += 4.5e-16 * (s.tally[MARGINS] + 16) * moved * moved
            advance(s, length * (min(moved, math.sqrt(max(energy, 0.0))) + abs(dmu)))
            if blocking < 0:
                polish += 1
                continue
            s.tally[CORRECTIONS] += 1
            polish = 0
            cross(s, s.slot[blocking])
            continue
        # The margin is in balance: release whoever violates its sign most.
        top = highest_error(s)
        worst = tolerance + rounding_of_h(s)
        if top >= 0 and s.h[top] - s.value[MU] > worst:
            worst = s.h[top] - s.value[MU]
        else:
            top = -1
        slot, _ = first_reserve(s, -worst)
        if slot < 0 and top < 0:
            s.value[RESIDUAL] = residual
            return DONE
        s.tally[CORRECTIONS] += 1
        polish = 0
        cross(s, slot if slot >= 0 else s.slot[top])


@inner
def rounding_of_h(s):  # type: ignore[no-untyped-def]
    """Typical (not worst-case) rounding error of ``h``: below it a violation means nothing."""
    return 2.0 * _SMALL * (s.value[TOTAL] + 1.0)
