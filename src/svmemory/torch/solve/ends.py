"""How a prefix ends: answers that need no solve, and what is written down of those that did."""

from __future__ import annotations

import numpy as np

from .linear import inner
from .problems import EMPTY, ERROR, MASKED, NOT_CONVERGED, OPTIMAL, RESERVE, WARMUP


@inner
def without_solving(prefix, n, finite, mass, out):  # type: ignore[no-untyped-def]
    """Answer a prefix of no rows, of rows that are not finite, or (but for its offset) in warm-up.

    ``out`` is (weights, offset, codes, residual, status) of one problem. Returns the status, or
    OPTIMAL where there is something to solve.
    """
    weights, offset, codes, misfit, status = out
    weights[prefix, :] = 0.0
    codes[prefix, :] = MASKED
    if n == 0:
        status[prefix] = EMPTY
    elif n > finite:
        status[prefix] = NOT_CONVERGED
        weights[prefix, :n] = np.nan
        codes[prefix, :n] = RESERVE
        offset[prefix] = np.nan
        misfit[prefix] = np.inf
    elif n <= mass:
        status[prefix] = WARMUP
        codes[prefix, :n] = ERROR
        weights[prefix, :n] = 1.0 / n
    else:
        status[prefix] = OPTIMAL
    return status[prefix]


@inner
def conclude(prefix, n, mass, ridge, mu, converged, wrong, b, code, out):  # type: ignore[no-untyped-def]
    """Write down the end of a solve with KKT residual ``wrong``; whether it is an optimum."""
    weights, offset, codes, misfit, status = out
    converged = converged and wrong <= max(min(1e-6 * ridge, 1e-9), 1e-11)
    misfit[prefix] = wrong
    status[prefix] = OPTIMAL if converged else NOT_CONVERGED
    offset[prefix] = 1.0 + ridge - 2.0 * mu / mass
    for i in range(n):
        weights[prefix, i] = b[i] / mass
        codes[prefix, i] = code[i]
    return converged


@inner
def packed(store, used, U, ones, s):  # type: ignore[no-untyped-def]
    """Append the factor of a margin of s rows, and ``(K_SS + ridge I)^-1 1``; the grown store."""
    need = used + s * (s + 3) // 2
    if need > len(store):
        larger = np.empty(max(need, 2 * len(store)))
        larger[:used] = store[:used]
        store = larger
    for t in range(s):
        target = store[used : used + s - t]
        source = U[t, t:s]
        for u in range(s - t):
            target[u] = source[u]
        used += s - t
    store[used:need] = ones[:s]
    return store
