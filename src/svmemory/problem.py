"""The problem every memory solves, and how to judge an answer to it.

    minimise   f(a) = a' Q a - diag(Q)' a     subject to   sum(a) = 1,   0 <= a_i <= cap

with ``Q = K + ridge I``, ``K_ii = 1`` and ``cap = 1/m'``, where ``m' = min(m, n)`` is the mass held
by n rows (:meth:`svmemory.contract.Contract.held_mass`). The functions take ``m'`` and not the cap,
because ``m'`` is exact and its reciprocal is not. They also take the vector ``q = Q a`` instead of
the matrix, so that a caller with many rows never needs one; :func:`product` computes it from a
dense kernel matrix.

A row is *reserve* if ``a_i = 0``, *error* if ``a_i = cap``, else *margin*. With multiplier ``rho``
(the offset), ``g_i = rho - Q_ii + 2 (Q a)_i`` is zero on the margin, at most zero on error rows and
at least zero on reserve rows of the optimum.

The bounds are rigorous: every rounding is counted and counted outwards. Their derivation, for the
optimum ``a*`` and ``D = a - a*``:

1. Since ``D'Q a* >= 0`` (optimality), ``D'Q D <= D'Q a``. As ``sum(D) = 0``, any constant c may be
   taken off: ``D'Q D <= sum_i D_i p_i`` with ``p_i = (Q a)_i - c``.
2. ``D_i`` lies between ``a_i - cap`` and ``a_i``, so ``D'Q D <= gap/2`` with
   ``gap = 2 sum_i (a_i max(p_i, 0) + (cap - a_i) max(-p_i, 0))``. The smallest such gap, the
   Frank-Wolfe gap, has c = the k-th smallest ``(Q a)_i``, ``k = ceil(m')``. It also bounds
   ``f(a) - f*``, because the two differ by ``D'Q D``.
3. The same sum is at most ``|v| |D| <= |v| sqrt(D'Q D / ridge)``, where ``v_i`` is the part of
   ``p_i`` with the wrong sign. So ``sqrt(D'Q D) <= |v| / sqrt(ridge)``: worse than 2 far from the
   optimum, better near it.
4. At the optimum the k-th smallest ``(Q a*)_i`` is ``mu*/m'``: fewer than k rows lie below the
   margin and at least k at or below it, and with an empty margin the k-th is the largest error row,
   which is the rule. One entry of ``Q D`` is at most ``sqrt(Q_ii D'Q D)``, and the k-th smallest of
   a vector moves no more than its entries do. That bounds ``rho*`` in all cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Floats = NDArray[np.float64]

_U = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class ScoreBound:
    """How far a state can be from the optimum; see :func:`score_bound`.

    Attributes
    ----------
    score : float
        Bound on ``|s(x) - s*(x)|`` for every point x.
    offset_low, offset_high : float
        Interval that holds the optimal offset ``rho*``.
    distance : float
        Bound on the distance of the two centres in the kernel's feature space.
    weight : float
        Bound on every ``|a_i - a*_i|``; infinite without a ridge, where the optimal weights need
        not be unique.
    """

    score: float
    offset_low: float
    offset_high: float
    distance: float
    weight: float


def product(kernel: Floats, ridge: float, a: Floats) -> Floats:
    """``Q a`` from a dense (n, n) kernel matrix; shape (n,)."""
    return np.asarray(kernel @ a + ridge * a, dtype=np.float64)


def objective(a: Floats, q: Floats, ridge: float) -> float:
    """``f(a) = a' Q a - diag(Q)' a``, with ``q = Q a``."""
    return float(a @ q - (1.0 + ridge) * a.sum())


def gradient(q: Floats, ridge: float, rho: float) -> Floats:
    """KKT residuals ``g_i = rho - Q_ii + 2 (Q a)_i`` of all rows, shape (n,)."""
    return rho - (1.0 + ridge) + 2.0 * q


def offset_from_mu(mu: float, ridge: float, held: float) -> float:
    """Offset ``rho = 1 + ridge - 2 mu / m'``, by the one formula that fixes its bits."""
    return 1.0 + ridge - 2.0 * mu / held


def offset(a: Floats, q: Floats, ridge: float, held: float) -> float:
    """Offset ``rho`` of a state.

    On the margin ``g = 0`` (the mean, where rows differ by roundings). With an empty margin every
    rho between two ends is a multiplier; the rule takes the upper end, the largest ``(Q a)_i`` of
    the error rows, so that rho never depends on a reserve row.

    Raises
    ------
    InputError
        If every weight is zero.
    """
    cap = 1.0 / held
    margin = (a > 0.0) & (a < cap)
    if margin.any():
        return float(1.0 + ridge - 2.0 * q[margin].mean())
    error = a >= cap
    if error.any():
        return float(1.0 + ridge - 2.0 * q[error].max())
    raise InputError("a state without a positive weight has no offset")


def kkt_residual(a: Floats, q: Floats, ridge: float, held: float, rho: float) -> float:
    """Largest violation of the optimality conditions; 0 at an exact optimum.

    The largest of: ``|g|`` on the margin, ``max(g, 0)`` on error rows, ``max(-g, 0)`` on reserve
    rows, ``|sum(a) - 1|``, and the distance of a weight from ``[0, cap]``.
    """
    if a.size == 0:
        return 0.0
    cap = 1.0 / held
    g = gradient(q, ridge, rho)
    wrong = np.where(a <= 0.0, -g, np.where(a >= cap, g, np.abs(g)))
    outside = np.maximum(-a, a - cap)
    return max(0.0, float(wrong.max()), float(outside.max()), abs(math.fsum(a) - 1.0))


def gaussian_error(dimension: int) -> float:
    """Bound on ``|K_ij - exp(-gamma |x_i - x_j|^2)|`` for kernel values of this package.

    An exponent t has a relative error below ``(d + 3) 2^-53``, which moves exp(-t) by at most
    ``(d + 3) 2^-53 / e``; the polynomial and the rounding to the grid add less than ``2.5 2^-53``.
    Not for a gamma above about 1e290, where squared differences that underflow would count.
    """
    return (4.0 + 0.4 * dimension) * _U


def duality_gap(
    a: Floats,
    q: Floats,
    ridge: float,
    held: float,
    kernel_error: float,
    error: float | None = None,
) -> float:
    """Frank-Wolfe gap, rounded up: ``gap >= f(a) - f*`` and ``gap / 2 >= D'Q D``.

    Parameters
    ----------
    a, q : (n,) arrays
        Weights and ``Q a``. Weights may miss the box and the sum by roundings: that is counted.
    ridge, held : float
        Ridge and mass ``m'``.
    kernel_error : float
        Bound on the error of a kernel value (:func:`gaussian_error`). A rounded kernel matrix is
        positive semidefinite only up to n times it; a ridge above that absorbs it, and the gap
        pays for the rest.
    error : float, optional
        Bound on the absolute error of ``q``. By default that of a product summed in any order.

    Returns
    -------
    float
        0 for no rows.
    """
    n = a.size
    if n == 0:
        return 0.0
    cap = 1.0 / held
    p, slip = q - _split(q, held)[0], _slip(a, cap)
    room = np.where(a < cap, cap - a + _U * cap, 0.0)
    linear = float(np.maximum(a, 0.0) @ np.maximum(p, 0.0) + room @ np.maximum(-p, 0.0))
    linear += (2.0 + slip) * _product_error(a, ridge, error)
    linear += (1.0 + ridge) * (1.0 + slip) * slip  # sum(D) and the box are missed by slip
    indefinite = max(0.0, n * kernel_error - ridge) * (2.0 + slip) * (cap + slip)
    return _up(2.0 * (linear + indefinite), n)


def score_bound(
    gap: float,
    a: Floats,
    q: Floats,
    ridge: float,
    held: float,
    rho: float,
    kernel_error: float,
    error: float | None = None,
) -> ScoreBound:
    """Rigorous bounds on the scores, the offset and the weights of a state.

    For every point x, ``s(x) = 2 sum_i a_i k(x, x_i) - rho`` differs from the optimum's score by at
    most ``2 sqrt(D'K D) + |rho - rho*|`` (Cauchy-Schwarz in feature space). Parameters as in
    :func:`duality_gap`, whose value is ``gap``; at least one row.

    Returns
    -------
    ScoreBound
        ``offset_low <= rho* <= offset_high`` under the empty-margin rule of :func:`offset`.
    """
    n = a.size
    product_error = _product_error(a, ridge, error)
    convexity = ridge - 1.0000001 * n * kernel_error  # D'Q D >= convexity |D|^2
    distance = _up(math.sqrt(gap / 2.0), n)
    weight, spread = math.inf, 2.0 + _slip(a, 1.0 / held)  # largest |D_i|, sum of |D_i|
    shift = distance + (kernel_error + ridge) * spread  # largest |(Q D)_i|
    if convexity > 0.0:
        near = _error_bound(a, q, ridge, held, convexity, product_error)
        distance = min(distance, _up(near, n))
        weight = _up(distance / math.sqrt(convexity), n)
        spread = min(spread, n * weight)
        shift = math.sqrt(1.0 + ridge) * distance
    reach = _up(2.0 * (shift + product_error) + 8.0 * _U * (1.0 + ridge), n)
    centre = 1.0 + ridge - 2.0 * _split(q, held)[0]
    low, high = centre - reach, centre + reach
    score = 2.0 * distance + 2.0 * kernel_error * spread + max(abs(rho - low), abs(high - rho))
    return ScoreBound(_up(score, n), low, high, distance, weight)


def _error_bound(
    a: Floats, q: Floats, ridge: float, held: float, convexity: float, error: float
) -> float:
    """``sqrt(D'Q D)`` bounded by the conditions that fail (point 3), or infinity.

    The argument needs a feasible point with the sets of ``a``: error rows exactly at the cap, the
    rest of the mass on the margin, which must have room for it. That point is ``slip`` away.
    """
    cap = 1.0 / held
    slip = _slip(a, cap)
    full, empty = a >= cap, a <= 0.0
    margin = ~(full | empty)
    if margin.any():
        fits = min(float(a[margin].sum()), float((cap - a[margin]).sum())) > 2.0 * slip
    else:
        fits = float(full.sum()) == held
    if not fits:
        return math.inf
    p = q - sum(_split(q, held)) / 2.0
    blur = error + (1.0 + ridge) * (slip + 4.0 * _U)
    wrong = np.where(full, p, np.where(empty, -p, np.abs(p))) + blur
    violation = float(np.linalg.norm(np.maximum(wrong, 0.0)))
    return violation / math.sqrt(convexity) + math.sqrt(1.0 + ridge) * slip


def _split(q: Floats, held: float) -> tuple[float, float]:
    """The ``ceil(m')``-th smallest entry of ``Q a`` and the ``floor(m') + 1``-st.

    At the optimum the first is ``mu / m'`` (point 4), and the second differs from it only with an
    empty margin. If every row is at the cap there is no second: any larger number will do.
    """
    ordered = np.sort(q)
    first, whole = float(ordered[math.ceil(held) - 1]), math.floor(held)
    return first, float(ordered[whole]) if whole < q.size else first + 1.0


def _slip(a: Floats, cap: float) -> float:
    """Distance (sum of absolute values) from ``a`` to a feasible point with its sets, or more."""
    outside = float(np.maximum(np.maximum(-a, a - cap), 0.0).sum())
    return abs(math.fsum(a) - 1.0) + 2.0 * outside + 8.0 * _U


def _product_error(a: Floats, ridge: float, error: float | None) -> float:
    """``error``, or the error of a sum of the nonzero terms in any order."""
    if error is not None:
        return error
    terms, size = np.count_nonzero(a), float(np.abs(a).sum())
    return float((terms + 4) * 1.01 * _U * (1.0 + ridge) * size)


def _up(value: float, n: int) -> float:
    """``value`` >= 0 raised by more than the roundings of the sums of n terms that made it."""
    return value * (1.0 + (n + 32) * 2.0 * _U)
