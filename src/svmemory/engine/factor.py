"""Upper Cholesky factor of the margin system, kept as rows join and leave.

``U' U = K_SS + ridge I`` in the order of the margin list, in the leading s x s corner of a square
array whose rows are contiguous, so that every inner loop below runs along memory.
"""

from __future__ import annotations

import math

from numba import njit

PIVOT_FLOOR = 1e-12
"""Smallest squared pivot. Only reached at ridge 0, where twins make the margin system singular."""


@njit(cache=True)
def dot(x, y, n):  # type: ignore[no-untyped-def]
    """Sum of ``x[i] y[i]`` over i < n, in eight interleaved sums (fixed order, short error)."""
    a = b = c = d = e = f = g = h = 0.0
    last = n - n % 8
    for i in range(0, last, 8):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
        e += x[i + 4] * y[i + 4]
        f += x[i + 5] * y[i + 5]
        g += x[i + 6] * y[i + 6]
        h += x[i + 7] * y[i + 7]
    rest = 0.0
    for i in range(last, n):
        rest += x[i] * y[i]
    return ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest


@njit(cache=True)
def solve_transposed(U, s, x):  # type: ignore[no-untyped-def]
    """Solve ``U' y = x`` in place."""
    for k in range(s):
        row = U[k]
        value = x[k] / row[k]
        x[k] = value
        for j in range(k + 1, s):
            x[j] -= value * row[j]


@njit(cache=True)
def solve(U, s, x):  # type: ignore[no-untyped-def]
    """Solve ``(U' U) y = x`` in place."""
    solve_transposed(U, s, x)
    for k in range(s - 1, -1, -1):
        row = U[k]
        x[k] = (x[k] - dot(row[k + 1 :], x[k + 1 :], s - k - 1)) / row[k]


@njit(cache=True)
def append(U, s, column, diagonal, work):  # type: ignore[no-untyped-def]
    """Grow the factor by a row with couplings ``column[:s]`` and the given diagonal."""
    for k in range(s):
        work[k] = column[k]
    solve_transposed(U, s, work)
    pivot = diagonal - dot(work, work, s)
    for k in range(s):
        U[k, s] = work[k]
    U[s, s] = math.sqrt(max(pivot, PIVOT_FLOOR))


@njit(cache=True)
def delete(U, s, q):  # type: ignore[no-untyped-def]
    """Shrink the factor by row and column ``q``: shift left, then rotate the trailing rows."""
    for k in range(q):
        row = U[k]
        for j in range(q, s - 1):
            row[j] = row[j + 1]
    for k in range(q, s - 1):
        upper = U[k]
        lower = U[k + 1]
        a = upper[k + 1]
        b = lower[k + 1]
        length = math.sqrt(a * a + b * b)
        cosine = a / length
        sine = b / length
        upper[k] = length
        for j in range(k + 1, s - 1):
            t = upper[j + 1]
            u = lower[j + 1]
            upper[j] = cosine * t + sine * u
            lower[j + 1] = cosine * u - sine * t
