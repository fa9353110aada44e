"""Accelerated projected gradient steps in float32 on one problem, compiled; for :mod:`.paper`."""

from __future__ import annotations

import math

import numpy as np

from .linear import inner, loose

_HALVINGS = 40  # of the interval in which the shift of a projection is sought


@inner
def fista(K, cap, steps):  # type: ignore[no-untyped-def]
    """Weights (n,) after ``steps`` from 1/n on a float32 K (n, n); step 1/L, L the largest row sum.

    Weights lie in [0, cap] and have sum 1, to float32.
    """
    n = len(K)
    after, image = np.empty(n, np.float32), np.empty(n, np.float32)
    x = np.full(n, np.float32(1.0 / n))
    y = x.copy()
    largest = np.float32(1.0)
    for i in range(n):
        largest = max(largest, K[i].sum())
    step = np.float32(1.0 / largest)  # half of the curvature 2 K, times the gradient 2 K y
    t = 1.0
    for _ in range(steps):
        _times(K, n, y, image)
        for i in range(n):
            image[i] = y[i] - step * image[i]
        project(image, n, cap, after)
        t_after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        push = np.float32((t - 1.0) / t_after)
        for i in range(n):
            y[i] = after[i] + push * (after[i] - x[i])
            x[i] = after[i]
        t = t_after
    return x


@inner
def _times(K, n, y, out):  # type: ignore[no-untyped-def]
    """``out = K y``."""
    out[:] = 0.0
    last = n - n % 4
    for t in range(0, last, 4):
        a, b, c, d = K[t], K[t + 1], K[t + 2], K[t + 3]
        ya, yb, yc, yd = y[t], y[t + 1], y[t + 2], y[t + 3]
        for i in range(n):
            out[i] += (ya * a[i] + yb * b[i]) + (yc * c[i] + yd * d[i])
    for t in range(last, n):
        row = K[t]
        value = y[t]
        for i in range(n):
            out[i] += value * row[i]


@loose
def project(y, n, cap, out):  # type: ignore[no-untyped-def]
    """Nearest point with sum 1 and entries in [0, cap], by bisection of the shift.

    Sums may be taken in any order: nothing that is compared bit for bit comes from here.
    """
    low = y[0]
    high = low
    for i in range(n):
        low = min(low, y[i])
        high = max(high, y[i])
    low -= cap
    for _ in range(_HALVINGS):
        middle = np.float32(0.5) * (low + high)
        total = np.float32(0.0)
        for i in range(n):
            total += min(max(y[i] - middle, np.float32(0.0)), cap)
        if total > 1.0:
            low = middle
        else:
            high = middle
    for i in range(n):
        out[i] = min(max(y[i] - high, np.float32(0.0)), cap)
