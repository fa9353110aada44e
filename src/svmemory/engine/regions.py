"""Regions of keys: balls whose rows share an odometer, see :mod:`svmemory.engine.look`.

Region 0 is everywhere. The others appear where rows are looked at; for each of them and every
active row the state keeps a bound on the kernel between that row and any key of the ball.
"""

from __future__ import annotations

import math

from ..kernel import exp_negative
from .compile import inner
from .factor import dot
from .state import ACTIVE, COVERED, GAMMA, REGIONS

_CLOSE = 0.7  # kernel between a region's centre and its rows, at least
_FEW = 16  # so many regions may be of no use


@inner
def bound_kernel(points, n, key, gamma, out):  # type: ignore[no-untyped-def]
    """Largest kernel between a key and a row of a region: one of them varies, over n columns."""
    radius = math.sqrt(-math.log(_CLOSE) / gamma) * (1.0 + 1e-9)
    for i in range(n):
        out[i] = 0.0
    for j in range(points.shape[0]):
        row = points[j]
        x = key[j]
        for i in range(n):
            difference = row[i] - x
            out[i] += difference * difference
    for i in range(n):
        gap = max(math.sqrt(out[i]) * (1.0 - 1e-9) - radius, 0.0)
        out[i] = min(gamma * gap * gap, 44.0)
    exp_negative(out, n)
    for i in range(n):
        out[i] = out[i] * (1.0 + 1e-12) + 1e-15


@inner
def set_paces(s, pace, dmu):  # type: ignore[no-untyped-def]
    """Per unit of the coming step, how fast each region's odometer runs."""
    regions = s.tally[REGIONS]
    n = s.tally[ACTIVE]
    for i in range(n):
        s.column[i] = abs(s.db[i])
    s.pace[0] = pace + abs(dmu)
    for r in range(1, regions):
        total = dot(s.column, s.ball[r], n)
        s.pace[r] = min(total * (1.0 + 1e-12), pace) + abs(dmu)


@inner
def find_region(s, slot):  # type: ignore[no-untyped-def]
    """Region of a row: the first whose centre is close enough, a new one, or region 0."""
    n = s.tally[REGIONS]
    gamma = s.value[GAMMA]
    width = s.centres.shape[0]
    limit = -math.log(_CLOSE) / gamma
    first = min(width, 8)  # dimensions taken for all centres together; the others one by one
    for r in range(n):
        s.square[r] = 0.0
    for j in range(first):
        row = s.centres[j]
        x = s.keys[slot, j]
        for r in range(n):
            difference = row[r] - x
            s.square[r] += difference * difference
    for r in range(1, n):
        square = s.square[r]
        for j in range(first, width):
            if square > limit:
                break
            difference = s.centres[j, r] - s.keys[slot, j]
            square += difference * difference
        if square <= limit:
            s.tally[COVERED] += 1
            return r
    # Where rows are far from one another, regions hold one row each and are not worth having.
    if n == len(s.odometer) or (n > _FEW and s.tally[COVERED] < 4 * n):
        return 0
    # A centre is a point of a grid near the row, never the row's own key, which may be forgotten.
    grid = 0.1 * math.sqrt(limit / width)
    for j in range(width):
        s.centres[j, n] = math.floor(s.keys[slot, j] / grid + 0.5) * grid
    active = s.tally[ACTIVE]
    bound_kernel(s.near, active, s.centres[:, n], gamma, s.ball[n])
    s.odometer[n] = 0.0
    s.pace[n] = s.pace[0]  # it may have come up in the middle of a step
    s.tally[REGIONS] = n + 1
    return n
