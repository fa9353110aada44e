"""Dense linear algebra on one small problem, compiled; everything stays in the core's cache.

Matrices are row-major with contiguous rows, so every inner loop runs along memory and needs no
re-association to vectorise. ``contract`` lets the compiler fuse a product and a sum, nothing else.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from ...engine.factor import dot

compiled: Any = njit(cache=True, nogil=True, fastmath={"contract"})
inner: Any = njit(  # type: ignore[call-overload]
    cache=True,
    nogil=True,
    fastmath={"contract"},
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
"""For functions that only compiled code calls: without entry points they compile faster."""

loose: Any = njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
"""Sums in any order: for what is never compared bit for bit."""

_PIVOT_FLOOR = 1e-14
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
_INV_LN2 = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
_TAYLOR = tuple(1.0 / math.factorial(k) for k in range(12, -1, -1))


@inner
def exp_negative(x, n, scratch, bits):  # type: ignore[no-untyped-def]
    """``x[i] = exp(-x[i])`` for x >= 0; ``bits`` is an int64 view of ``scratch``."""
    for i in range(n):
        scratch[i] = max(-x[i], -700.0) * _INV_LN2 + _ROUND
    for i in range(n):
        k = scratch[i] - _ROUND
        r = (max(-x[i], -700.0) - k * _LN2_HIGH) - k * _LN2_LOW
        p = _TAYLOR[0] * r + _TAYLOR[1]
        p = p * r + _TAYLOR[2]
        p = p * r + _TAYLOR[3]
        p = p * r + _TAYLOR[4]
        p = p * r + _TAYLOR[5]
        p = p * r + _TAYLOR[6]
        p = p * r + _TAYLOR[7]
        p = p * r + _TAYLOR[8]
        p = p * r + _TAYLOR[9]
        p = p * r + _TAYLOR[10]
        p = p * r + _TAYLOR[11]
        x[i] = p * r + _TAYLOR[12]
    for i in range(n):
        bits[i] = (bits[i] + 1023) << 52  # the integer as a power of two
    for i in range(n):
        x[i] = min(x[i] * scratch[i], 1.0)


@inner
def multiply(K, n, rows, count, x, ridge, out):  # type: ignore[no-untyped-def]
    """``out[:n] = (K + ridge I) x`` for x supported on ``rows[:count]``."""
    for i in range(n):
        out[i] = ridge * x[i]
    last = count - count % 4
    for t in range(0, last, 4):
        a, b, c, d = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        ka, kb, kc, kd = K[a], K[b], K[c], K[d]
        xa, xb, xc, xd = x[a], x[b], x[c], x[d]
        for i in range(n):
            out[i] += (xa * ka[i] + xb * kb[i]) + (xc * kc[i] + xd * kd[i])
    for t in range(last, count):
        row = K[rows[t]]
        value = x[rows[t]]
        for i in range(n):
            out[i] += value * row[i]


@inner
def cholesky(A, s):  # type: ignore[no-untyped-def]
    """Upper factor ``U' U = A`` in place of the upper triangle; True if every pivot was sound.

    Inner loops run over slices from 0: an index that might be negative keeps them scalar.
    """
    sound = True
    for k in range(0, s, 4):
        end = min(k + 4, s)
        for p in range(k, end):
            row = A[p, p:s]
            for q in range(k, p):
                above = A[q, p:s]
                factor = -above[0]
                for j in range(s - p):
                    row[j] += factor * above[j]
            pivot = row[0]
            if not pivot > _PIVOT_FLOOR:
                sound = False
                pivot = _PIVOT_FLOOR
                row[0] = pivot
            scale = 1.0 / math.sqrt(pivot)
            for j in range(s - p):
                row[j] *= scale
        for i in range(end, s):  # the rows below lose what these four contribute
            row = A[i, i:s]
            u, v, w, z = A[k, i:s], A[k + 1, i:s], A[k + 2, i:s], A[k + 3, i:s]
            a, b, c, d = -u[0], -v[0], -w[0], -z[0]
            for j in range(s - i):
                row[j] = row[j] + a * u[j] + b * v[j] + c * w[j] + d * z[j]
    return sound


@inner
def solve(U, s, x):  # type: ignore[no-untyped-def]
    """Solve ``U' U y = x`` in place."""
    for k in range(s):
        row = U[k, k:s]
        rest = x[k:s]
        value = rest[0] / row[0]
        for j in range(s - k):
            rest[j] -= value * row[j]
        rest[0] = value
    for k in range(s - 1, -1, -1):
        x[k] = (x[k] - dot(U[k, k + 1 : s], x[k + 1 : s], s - k - 1)) / U[k, k]


@inner
def solve_packed(store, s, x):  # type: ignore[no-untyped-def]
    """:func:`solve` with the upper triangle packed row by row."""
    at = 0
    for k in range(s):
        row = store[at : at + s - k]
        rest = x[k:s]
        value = rest[0] / row[0]
        for j in range(s - k):
            rest[j] -= value * row[j]
        rest[0] = value
        at += s - k
    for k in range(s - 1, -1, -1):
        at -= s - k
        row = store[at : at + s - k]
        x[k] = (x[k] - dot(row[1:], x[k + 1 : s], s - k - 1)) / row[0]
