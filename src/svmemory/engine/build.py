"""From scratch, or after a large change: many rows to their optimum at once.

One by one, n rows cost n walks; but most rows end in reserve and their arrival moves nothing. So
the rows that may matter are found by pairwise descent on a working set (a sample, then its support
and the rows that violate it), and :mod:`.settle` takes the result to the exact optimum. The end
state is the same: it is a function of the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .descend import descend, heights, screen
from .feasible import spread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROUNDS = 30
_COARSE = 1e-3  # tolerance on h of the descent, per unit of kernel
_FINE = 1e-4
_FEW = 20  # so many violators are left to the settling
_MOVES = 60  # of the descent, per row of the working set


def approximate_optimum(
    keys: Floats, slots: Ints, b: Floats, total: float, gamma: float, ridge: float
) -> Floats:
    """Masses close to the optimum of the rows in ``slots``.

    Parameters
    ----------
    keys : (N, d) array
    slots : (n,) array
        Which of them hold rows, in any order.
    b : (n,) array
        Where to start: masses in [0, 1]. Any sum will do.
    total : float
        Their sum at the end, at most n.
    gamma, ridge : float

    Returns
    -------
    (n,) array
        Masses in [0, 1] that sum to ``total`` up to rounding.
    """
    n = len(slots)
    b = b.copy()
    idle = np.random.default_rng(0).permutation(np.flatnonzero(b <= 0))
    missing = total - b.sum()
    tolerance = _COARSE if missing > 0.5 * total else _FINE  # who starts near goes straight on
    if missing > 0:  # a sample at the cap; which rows it has does not matter in the end
        b[idle[: int(missing)]] = 1.0
        b[idle[int(missing) : int(missing) + 1]] = missing - int(missing)
    active = np.flatnonzero(b > 0)
    b[active] = spread(b[active], total)
    sample = idle[: max(0, int(4 * total) + 200 - len(active))]
    work = np.union1d(active, sample)
    h = np.empty(n)  # (K + ridge I) b, wherever it is known
    near = np.ascontiguousarray(keys[slots[work]].T)
    known = np.empty(len(work))
    heights(near, len(work), b[work], gamma, ridge, known)
    h[work] = known
    for _ in range(_ROUNDS):
        near = np.ascontiguousarray(keys[slots[work]].T)
        masses, known = b[work], h[work]
        descend(near, len(work), masses, known, gamma, ridge, tolerance, _MOVES * len(work))
        b[work], h[work] = masses, known
        support = work[masses > 0.0]
        inner = (masses > 0.0) & (masses < 1.0)
        mu = known[inner].mean() if inner.any() else known[masses >= 1.0].max()
        others = np.flatnonzero(b <= 0.0)
        near = np.ascontiguousarray(keys[slots[support]].T)
        screened = np.empty(len(others))
        screen(near, len(support), b[support], keys, slots[others], gamma, screened)
        h[others] = screened
        slack = screened - mu
        wrong = int((slack < -tolerance).sum())
        if wrong <= _FEW and tolerance <= _FINE:
            break
        keep = min(len(others), max(2 * wrong, 200), int(4 * total) + 2000)
        best = np.argpartition(slack, keep - 1)[:keep] if keep < len(others) else slice(None)
        work = np.concatenate([support, others[best]])
        tolerance = max(tolerance * 0.1, _FINE)
    return even_out(keys[slots], b)


def even_out(keys: Floats, b: Floats) -> Floats:
    """Give identical rows equal masses, as the ridge does at the optimum; the sum stays."""
    mark = np.zeros(len(keys))
    weights = np.asarray(np.random.default_rng(1).standard_normal(keys.shape[1]))
    for j in range(keys.shape[1]):
        mark += weights[j] * keys[:, j]  # the same for identical rows; chance twins do no harm
    _, group, size = np.unique(mark, return_inverse=True, return_counts=True)
    if len(size) == len(b):
        return b
    return np.asarray(np.bincount(group, weights=b)[group] / size[group])
