"""The Gaussian kernel, the same bits on every machine.

``k(x, y) = exp(-gamma |x - y|^2)`` rounded to whole multiples of 2**-52, so that kernel matrices
are integers and everything built on them can be exact. The bits depend on IEEE double addition,
multiplication and nothing else: distances add up the dimensions in order, the exponential is a
polynomial, and no operation may be fused or re-associated (no fast-math, no libm).

Two implementations agree to the bit: :func:`gaussian_kernel` (plain NumPy, one dimension at a
time) and :func:`fill_kernel` (compiled, for the engine).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding and subtracting it rounds to the nearest integer
_UNIT = 4503599627370496.0  # 2**52
_INV_LN2 = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490  # ln 2 with its low 32 bits clear: k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_FLUSH = (
    44.0  # exp(-44) is far below 2**-53 and rounds to zero; keeps powers of two inside the table
)
# Taylor coefficients 1/k!, highest first; on |r| <= ln(2)/2 the remainder is below 2**-57.
_TAYLOR = tuple(1.0 / float(f) for f in (
    6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1,
))  # fmt: skip
_POW2 = np.array([2.0**k for k in range(-64, 1)])


def gaussian_kernel(x: Floats, y: Floats, gamma: float) -> Floats:
    """Kernel matrix between two sets of keys.

    Parameters
    ----------
    x : (n, d) array
    y : (m, d) array
    gamma : float
        1 / (key unit)^2, > 0.

    Returns
    -------
    (n, m) array
        Values in [0, 1], whole multiples of 2**-52; 1 where keys are equal.
    """
    square = np.zeros((x.shape[0], y.shape[0]))
    with np.errstate(over="ignore"):  # infinite distances have kernel 0
        for left, right in zip(x.T, y.T, strict=True):  # dimensions in order
            difference = left[:, None] - right[None, :]
            square += difference * difference
        exponent = np.minimum(gamma * square, _FLUSH)
    k = (exponent * -_INV_LN2 + _ROUND) - _ROUND
    r = (-exponent - k * _LN2_HIGH) - k * _LN2_LOW
    p = np.full_like(r, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        p = p * r + coefficient
    value = np.minimum(p * _POW2[(k + 64.0).astype(np.int64)], 1.0)
    result: Floats = ((value * _UNIT + _UNIT) - _UNIT) / _UNIT
    return result


def kernel_units(x: Floats, y: Floats, gamma: float) -> NDArray[np.int64]:
    """:func:`gaussian_kernel` as integers in units of 2**-52."""
    return (gaussian_kernel(x, y, gamma) * _UNIT).astype(np.int64)


@njit(cache=True)
def exp_negative(x, n):  # type: ignore[no-untyped-def]
    """``x[i] = exp(-x[i])`` in place, ``0 <= x[i] <= 44``, i < n: twin of the code above."""
    for i in range(n):
        t = x[i]
        k = (t * -_INV_LN2 + _ROUND) - _ROUND
        r = (-t - k * _LN2_HIGH) - k * _LN2_LOW
        p = _TAYLOR[0]
        p = p * r + _TAYLOR[1]
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
        p = p * r + _TAYLOR[12]
        p = p * r + _TAYLOR[13]
        x[i] = min(p * _POW2[int(k) + 64], 1.0)


@njit(cache=True)
def fill_kernel(columns, n, key, gamma, out):  # type: ignore[no-untyped-def]
    """``out[i] = k(columns[:, i], key)`` for i < n.

    ``columns`` is (d, capacity) with one key a column, so that the inner loop runs over keys and
    vectorises without reordering any sum.
    """
    for i in range(n):
        out[i] = 0.0
    for j in range(columns.shape[0]):
        row = columns[j]
        value = key[j]
        for i in range(n):
            difference = row[i] - value
            out[i] += difference * difference
    for i in range(n):
        out[i] = min(gamma * out[i], _FLUSH)
    exp_negative(out, n)
    for i in range(n):
        out[i] = ((out[i] * _UNIT + _UNIT) - _UNIT) / _UNIT
