"""A quick, approximate optimum of many rows: pairwise descent on a small working set.

Building a memory from scratch needs no path. Most rows end in reserve and never matter, so the
descent (sequential minimal optimisation: move mass between the two rows that gain most) sees a
sample first, then the sample's support and the rows that violate it, until few rows violate. What
it leaves to do, the exact settling of :mod:`svmemory.engine.settle` does.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..kernel import fill_kernel
from .factor import dot


@njit(cache=True)
def heights(near, n, b, gamma, ridge, h):  # type: ignore[no-untyped-def]
    """``h = (K + ridge I) b`` of the first n columns of ``near``."""
    column = np.empty(n)
    for i in range(n):
        h[i] = ridge * b[i]
    for j in range(n):
        if b[j] != 0.0:
            fill_kernel(near, n, near[:, j], gamma, column)
            for i in range(n):
                h[i] += b[j] * column[i]


@njit(cache=True)
def descend(near, n, b, h, gamma, ridge, tolerance, limit):  # type: ignore[no-untyped-def]
    """Move mass in pairs until no pair's ``h`` differ by more than ``tolerance``.

    The receiver is the row with the smallest ``h`` that has room; the giver is the one whose pair
    with it lowers the objective most. ``b`` and ``h`` are updated in place; returns the number of
    moves.
    """
    up = np.empty(n)
    down = np.empty(n)
    for move in range(limit):
        i = -1
        low = np.inf
        high = -np.inf
        for k in range(n):
            if b[k] < 1.0 and h[k] < low:
                low = h[k]
                i = k
            if b[k] > 0.0 and h[k] > high:
                high = h[k]
        if i < 0 or high - low <= tolerance:
            return move
        fill_kernel(near, n, near[:, i], gamma, up)
        j = -1
        best = 0.0
        for k in range(n):
            if b[k] > 0.0 and h[k] > low:
                fall = h[k] - low
                gain = fall * fall / (2.0 * (1.0 + ridge - up[k]) + 1e-12)
                if gain > best and k != i:
                    best = gain
                    j = k
        if j < 0:
            return move
        fill_kernel(near, n, near[:, j], gamma, down)
        step = (h[j] - h[i]) / (2.0 * (1.0 + ridge - up[j]) + 1e-12)
        step = min(step, 1.0 - b[i], b[j])
        for k in range(n):
            h[k] += step * (up[k] - down[k])
        b[i] = 1.0 if step == 1.0 - b[i] else b[i] + step
        b[j] = 0.0 if step == b[j] else b[j] - step
        h[i] += step * ridge
        h[j] -= step * ridge
    return limit


@njit(cache=True)
def screen(near, n, b, keys, rows, gamma, slack):  # type: ignore[no-untyped-def]
    """``slack[i] = (K b)`` at row ``rows[i]`` of ``keys``, from the n columns of ``near``."""
    column = np.empty(n)
    for i in range(len(rows)):
        fill_kernel(near, n, keys[rows[i]], gamma, column)
        slack[i] = dot(column, b, n)
