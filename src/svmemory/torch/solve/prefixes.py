"""One set of rows, solved on several of its prefixes, and the derivative of that; compiled.

The kernel matrix is computed once and lives in the core's cache; each prefix starts from the
optimum of the one before.
"""

from __future__ import annotations

import numpy as np

from .activeset import gather, margin_rows, residual, warm_up
from .ends import conclude, packed, without_solving
from .linear import compiled, exp_negative, inner, multiply, solve_packed
from .problems import EMPTY, ERROR, MARGIN, OPTIMAL, RESERVE, WARMUP
from .settle import settle

_BLOCK = 16


@compiled
def kernel_from_products(G, n, gamma, w):  # type: ignore[no-untyped-def]
    """Inner products of keys, in place, to kernel values; reads the upper triangle only."""
    for i in range(n):
        w.x[i] = G[i, i]
    for i in range(n):
        row = G[i, i:]
        for j in range(n - i):
            row[j] = gamma * max(w.x[i] + w.x[i + j] - 2.0 * row[j], 0.0)
        exp_negative(row, n - i, w.q, w.bits)
        row[0] = 1.0
    _mirror(G, n)


@compiled
def kernel_from_keys(keys, n, gamma, K, w):  # type: ignore[no-untyped-def]
    """Kernel values from differences of keys: where products would cancel too many digits."""
    for i in range(n):
        row = K[i, i:]
        for j in range(n - i):
            square = 0.0
            for k in range(keys.shape[1]):
                difference = keys[i, k] - keys[i + j, k]
                square += difference * difference
            row[j] = gamma * square
        exp_negative(row, n - i, w.q, w.bits)
        row[0] = 1.0
    _mirror(K, n)


@inner
def _mirror(K, n):  # type: ignore[no-untyped-def]
    """Copy the upper triangle below the diagonal, in blocks that fit the first cache."""
    for top in range(0, n, _BLOCK):
        for left in range(top, n, _BLOCK):
            for j in range(left, min(left + _BLOCK, n)):
                row = K[j, top:]
                for i in range(min(_BLOCK, j - top)):
                    row[i] = K[top + i, j]


@compiled
def solve_prefixes(K, counts, finite, mass, ridge, start, warm, keep, w, out):  # type: ignore[no-untyped-def]
    """Solve prefixes of ``counts[l]`` rows; ``finite`` is how many leading rows are finite.

    ``start`` holds weights if ``warm``. ``out`` is (weights, offset, codes, residual, status) of
    one problem. Returns the factors of all margins, upper triangles row by row, each followed by
    ``(K_SS + ridge I)^-1 1``, if ``keep``.
    """
    offset = out[1]
    store = np.empty(0)
    used = 0
    before = 0  # rows of the prefix whose optimum w holds
    mu = 0.0
    for prefix in range(len(counts)):
        n = counts[prefix]
        status = without_solving(prefix, n, finite, mass, out)
        if status == WARMUP:
            offset[prefix] = warm_up(K, n, ridge, w)
        if status != OPTIMAL:
            continue
        if before:
            _extend(K, before, n, mu, ridge, w)
        elif not (warm and prefix == 0 and _take(start, n, mass, w)):
            w.b[:n] = mass / n
            w.code[:n] = MARGIN
        mu, s, converged = settle(K, n, mass, ridge, w)
        wrong = residual(n, mass, mu, w)
        converged = conclude(prefix, n, mass, ridge, mu, converged, wrong, w.b, w.code, out)
        before = n if converged else 0
        if keep:
            store = packed(store, used, w.U, w.ones, s)
            used += s * (s + 3) // 2
    return store[:used]


@inner
def _extend(K, before, n, mu, ridge, w):  # type: ignore[no-untyped-def]
    """Start a longer prefix at the optimum of a shorter one."""
    active = gather(w, before, MARGIN)
    for i in range(before, n):
        w.b[i] = 0.0
    multiply(K, n, w.rows, active, w.b, ridge, w.h)
    for i in range(before, n):
        w.code[i] = MARGIN if w.h[i] < mu else RESERVE


@inner
def _take(start, n, mass, w):  # type: ignore[no-untyped-def]
    """Start from given weights; False if they leave no row free."""
    inside = 0
    for i in range(n):
        b = start[i] * mass
        if not b > 0.0:
            w.b[i] = 0.0
            w.code[i] = RESERVE
        elif b >= 1.0 - 1e-6:
            w.b[i] = 1.0
            w.code[i] = ERROR
        else:
            w.b[i] = b
            w.code[i] = MARGIN
            inside += 1
    return inside > 0


@compiled
def pull_back(K, counts, gamma, ridge, store, found, grads, w, P):  # type: ignore[no-untyped-def]
    """Cotangents of weights and offset to those of the kernel matrix and of C.

    ``found`` is (weights, codes, status) and ``grads`` (weights, offset) of one problem. On return
    ``P X`` is the cotangent of keys X: with ``W_ij = 2 gamma K_ij (dL/dK_ij + dL/dK_ji)``,
    ``P_ij = W_ij`` and ``P_ii = -sum_j W_ij``. Returns dL/dC.
    """
    weights, codes, status = found
    weights_bar, offset_bar = grads
    cap_bar = 0.0
    at = 0
    P[:] = 0.0
    for prefix in range(len(counts)):
        n = counts[prefix]
        a = weights[prefix]
        s = 0
        for i in range(n):
            w.b[i] = 0.0
            w.code[i] = codes[prefix, i]
        if status[prefix] == EMPTY or np.isnan(a[0]):
            continue  # no rows, or no answer that could be differentiated
        if status[prefix] != WARMUP:
            s = margin_rows(w, n)
        if s:
            end = at + s * (s + 1) // 2
            inverse_one = store[end : end + s]
            load = 0.0
            weight = 0.0
            for t in range(s):
                w.x[t] = weights_bar[prefix, w.rows[t]]
            solve_packed(store[at:end], s, w.x)
            for t in range(s):
                load += w.x[t]
                weight += inverse_one[t]
            level_bar = (load - 2.0 * offset_bar[prefix]) / weight
            for t in range(s):
                w.b[w.rows[t]] = w.x[t] - level_bar * inverse_one[t]
            at = end + s
            active = margin_rows(w, n)
            multiply(K, n, w.rows, active, w.b, ridge, w.h)
            for i in range(n):
                if w.code[i] == ERROR:
                    cap_bar += weights_bar[prefix, i] - w.h[i] - level_bar
        elif offset_bar[prefix] != 0.0:
            # the offset follows the error row with the largest gradient
            for i in range(n):
                w.p[i] = a[i]
            active = gather(w, n, ERROR)
            multiply(K, n, w.rows, active, w.p, ridge, w.h)
            top = w.rows[0]
            for t in range(1, active):
                if w.h[w.rows[t]] > w.h[top]:
                    top = w.rows[t]
            w.b[top] = 2.0 * offset_bar[prefix]
        for i in range(n):  # w.b and a are zero off the active rows
            if a[i] != 0.0:
                _outer(P[i, i:n], w.b[i:n], a[i:n], w.b[i], a[i], n - i)
    rows = counts[-1]
    sums = w.x
    sums[:rows] = 0.0
    for i in range(rows):
        _scale(P[i, i:rows], K[i, i:rows], sums[i:rows], 2.0 * gamma, rows - i)
    for i in range(rows):
        sums[i] += P[i, i + 1 : rows].sum()
        P[i, i] = -sums[i]
    _mirror(P, rows)
    return cap_bar


@inner
def _outer(out, x, y, left, right, n):  # type: ignore[no-untyped-def]
    for j in range(n):
        out[j] -= left * y[j] + right * x[j]


@inner
def _scale(out, by, sums, factor, n):  # type: ignore[no-untyped-def]
    """Scale a row from its diagonal on, and add what follows the diagonal to the columns' sums."""
    for j in range(n):
        out[j] *= factor * by[j]
    for j in range(1, n):
        sums[j] += out[j]
