"""Columns of the kernel matrix of a long sequence: only of rows that were ever active; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .activeset import Floats, Work
from .linear import exp_negative, inner
from .problems import MARGIN

_TILE = 256  # rows whose keys stay in the second cache while several columns are computed


class Long(NamedTuple):
    """Scratch for one long problem of n rows with working sets of up to m; one per thread."""

    b: Floats  # (n,) masses
    h: Floats  # (n,) (K + ridge I) b
    code: NDArray[np.int32]  # (n,)
    rows: NDArray[np.int64]  # (n,) the working set, then the active rows
    slot: NDArray[np.int64]  # (n,) where a row's column is, or -1
    columns: Floats  # (2 m, n) kernel values of rows that were ever active
    filled: NDArray[np.int64]  # (2 m,) how many leading values of a column are there
    matrix: Floats  # (m * m,) kernel matrix of the working set
    fresh: NDArray[np.int64]  # (n,) rows without a column
    nearby: Floats  # (d, m) keys of such rows
    x: Floats  # (n,)
    bits: NDArray[np.int64]  # (n,) view of x
    small: Work  # of m rows

    @classmethod
    def of(cls, n: int, d: int, m: int) -> Long:
        """Fresh scratch; large arrays cost memory only where they are written."""
        b, h, x = np.zeros(n), np.zeros(n), np.zeros(n)
        return cls(
            b=b,
            h=h,
            code=np.zeros(n, np.int32),
            rows=np.zeros(n, np.int64),
            slot=np.zeros(n, np.int64),
            columns=np.empty((min(2 * m, n), n)),
            filled=np.zeros(min(2 * m, n), np.int64),
            matrix=np.empty(m * m),
            fresh=np.zeros(n, np.int64),
            nearby=np.empty((d, m)),
            x=x,
            bits=x.view(np.int64),
            small=Work.of(m),
        )


@inner
def complete(keys, gamma, n, held, v):  # type: ignore[no-untyped-def]
    """See to it that all active rows have whole columns; how many there are, -1 if no room."""
    fresh = 0
    for i in range(n):
        if v.code[i] >= MARGIN:
            if v.slot[i] < 0:
                if held == len(v.columns):
                    return -1
                v.slot[i] = held
                held += 1
                v.fresh[fresh] = i
                fresh += 1
            else:
                lengthen(keys, gamma, v.slot[i], i, n, v)
    for low in range(0, n, _TILE):
        high = min(low + _TILE, n)
        for t in range(fresh):
            i = v.fresh[t]
            target = v.columns[v.slot[i], low:high]
            kernel_values(keys, keys, i, low, high, gamma, target, v.x, v.bits)
    for t in range(fresh):
        v.filled[v.slot[v.fresh[t]]] = n
    return held


@inner
def lengthen(keys, gamma, at, i, n, v):  # type: ignore[no-untyped-def]
    """Fill the column of row i, kept at ``at``, up to n values."""
    known = v.filled[at]
    if known < n:
        kernel_values(keys, keys, i, known, n, gamma, v.columns[at, known:n], v.x, v.bits)
        v.filled[at] = n


@inner
def kernel_values(left, keys, i, low, high, gamma, out, scratch, bits):  # type: ignore[no-untyped-def]
    """Kernel values of row i of ``left`` (d, .) with rows low to high of ``keys`` (d, .).

    From differences, which cancel nothing and are the same bits for both orders of a pair.
    """
    size = high - low
    d = len(keys)
    out[:size] = 0.0
    whole = d - d % 4
    for k in range(0, whole, 4):
        a, b, c, e = left[k, i], left[k + 1, i], left[k + 2, i], left[k + 3, i]
        ka, kb = keys[k, low:high], keys[k + 1, low:high]
        kc, ke = keys[k + 2, low:high], keys[k + 3, low:high]
        for j in range(size):
            p = a - ka[j]
            q = b - kb[j]
            r = c - kc[j]
            s = e - ke[j]
            out[j] += (p * p + q * q) + (r * r + s * s)
    for k in range(whole, d):
        a = left[k, i]
        row = keys[k, low:high]
        for j in range(size):
            p = a - row[j]
            out[j] += p * p
    for j in range(size):
        out[j] *= gamma
    exp_negative(out, size, scratch, bits)


@inner
def combine(columns, n, slots, count, x, out):  # type: ignore[no-untyped-def]
    """``out[:n] = sum_t x[t] columns[slots[t]]``."""
    out[:n] = 0.0
    last = count - count % 4
    for t in range(0, last, 4):
        ka, kb = columns[slots[t], :n], columns[slots[t + 1], :n]
        kc, kd = columns[slots[t + 2], :n], columns[slots[t + 3], :n]
        xa, xb, xc, xd = x[t], x[t + 1], x[t + 2], x[t + 3]
        for i in range(n):
            out[i] += (xa * ka[i] + xb * kb[i]) + (xc * kc[i] + xd * kd[i])
    for t in range(last, count):
        row = columns[slots[t], :n]
        value = x[t]
        for i in range(n):
            out[i] += value * row[i]
