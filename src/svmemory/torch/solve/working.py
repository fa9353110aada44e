"""Prefixes of a long sequence, without its kernel matrix; compiled.

From one prefix to the next few rows change sets: the optimum is sought on a *working set*, the
active rows and those that violate their conditions, whose kernel matrix is small. Of the whole
matrix only the columns of rows that were ever active are computed, once each: with them every other
row is checked, and a row that violates its condition joins the working set, until none does. The
answer is that of :func:`.prefixes.solve_prefixes`: the same conditions on all rows.
"""

from __future__ import annotations

import numpy as np

from .activeset import TOLERANCE, Floats, residual, warm_up
from .columns import Long, combine, complete, kernel_values, lengthen
from .ends import conclude, packed, without_solving
from .linear import compiled, inner
from .problems import ERROR, MARGIN, OPTIMAL, RESERVE, WARMUP
from .settle import settle

_ROUNDS = 60  # of solving the working set and checking the rest
_FIRST = 384  # rows of the first working set that has room


def solve_long(  # type: ignore[no-untyped-def]
    keys: Floats, gamma, counts, finite, mass, ridge, keep, room: list[Long], out
) -> Floats:
    """Solve prefixes of ``counts[l]`` rows of ``keys`` (d, n), its rows contiguous.

    ``room`` holds the thread's scratch, replaced by a larger one where working sets outgrow it. The
    rest is as in :func:`svmemory.torch.solve.prefixes.solve_prefixes`.
    """
    d, n = keys.shape
    m = min(_FIRST, n)
    while True:
        if not room or len(room[0].b) < n or len(room[0].small.b) < m:
            room[:] = [Long.of(n, d, m)]
        m = len(room[0].small.b)
        v = room[0]
        store, fits = _solve(keys, gamma, counts, finite, mass, ridge, keep, v, v.small, out)
        if fits:
            return np.asarray(store)
        m = min(2 * m, n)


@compiled
def _solve(keys, gamma, counts, finite, mass, ridge, keep, v, w, out):  # type: ignore[no-untyped-def]
    """Returns the factors, and whether the scratch was large enough."""
    offset = out[1]
    store = np.empty(0)
    used = 0
    before = 0  # rows of the prefix whose optimum v holds
    held = 0  # columns
    s = 0
    mu = 0.0
    v.slot[:] = -1
    for prefix in range(len(counts)):
        n = counts[prefix]
        status = without_solving(prefix, n, finite, mass, out)
        if status == WARMUP:
            if n > len(w.b):
                return store[:0], False
            v.b[:n] = 1.0
            v.code[:n] = ERROR
            K, m = _matrix(keys, gamma, n, v, w)
            offset[prefix] = warm_up(K, m, ridge, w)
        if status != OPTIMAL:
            continue
        if before:
            moved = _extend(keys, gamma, before, n, mu, v)
        else:
            moved = n
            v.b[:n] = mass / n
            v.code[:n] = MARGIN
        converged = True
        for _ in range(_ROUNDS):
            if moved == 0 or not converged:
                break
            if _listed(n, v) > len(w.b):
                return store[:0], False
            K, m = _matrix(keys, gamma, n, v, w)
            mu, s, converged = settle(K, m, mass, ridge, w)
            for t in range(m):
                v.b[v.rows[t]] = w.b[t]
                v.code[v.rows[t]] = w.code[t]
            held = complete(keys, gamma, n, held, v)
            if held < 0:
                return store[:0], False
            moved = _check(n, mu, TOLERANCE * mass * (1.0 + ridge), ridge, v)
        wrong = residual(n, mass, mu, v)
        converged = conclude(
            prefix, n, mass, ridge, mu, converged and moved == 0, wrong, v.b, v.code, out
        )
        before = n if converged else 0
        if keep:
            store = packed(store, used, w.U, w.ones, s)
            used += s * (s + 3) // 2
    return store[:used], True


@inner
def _listed(n, v):  # type: ignore[no-untyped-def]
    """List the rows that are not in reserve; how many."""
    m = 0
    for i in range(n):
        if v.code[i] >= MARGIN:
            v.rows[m] = i
            m += 1
    return m


@inner
def _matrix(keys, gamma, n, v, w):  # type: ignore[no-untyped-def]
    """Kernel matrix, masses and codes of the working set ``v.rows[:m]``; (matrix, m)."""
    m = _listed(n, v)
    K = v.matrix[: m * m].reshape(m, m)
    f = 0  # rows without a column
    for t in range(m):
        i = v.rows[t]
        w.b[t] = v.b[i]
        w.code[t] = v.code[i]
        at = v.slot[i]
        if at < 0:
            v.fresh[f] = t
            for k in range(len(keys)):
                v.nearby[k, f] = keys[k, i]
            f += 1
        else:
            lengthen(keys, gamma, at, i, n, v)
            column = v.columns[at]
            for u in range(m):
                K[t, u] = column[v.rows[u]]
    for p in range(f):
        t = v.fresh[p]
        kernel_values(v.nearby, v.nearby, p, p, f, gamma, v.x, w.q, w.bits)
        for q in range(p, f):
            u = v.fresh[q]
            K[t, u] = v.x[q - p]
            K[u, t] = v.x[q - p]
        for u in range(m):
            if v.slot[v.rows[u]] >= 0:
                K[t, u] = K[u, t]
    return K, m


@inner
def _extend(keys, gamma, before, n, mu, v):  # type: ignore[no-untyped-def]
    """Start at the optimum of ``before`` rows; how many of the rows since then have to move."""
    v.b[before:n] = 0.0
    v.h[before:n] = 0.0
    for i in range(before):
        if v.code[i] >= MARGIN:
            at = v.slot[i]
            lengthen(keys, gamma, at, i, n, v)
            value = v.b[i]
            target = v.h[before:n]
            column = v.columns[at, before:n]
            for j in range(n - before):
                target[j] += value * column[j]
    moved = 0
    for i in range(before, n):
        v.code[i] = RESERVE
        if v.h[i] < mu:
            v.code[i] = MARGIN
            moved += 1
    return moved


@inner
def _check(n, mu, tolerance, ridge, v):  # type: ignore[no-untyped-def]
    """Make h that of the masses; reserve rows that violate their condition join; how many."""
    active = 0
    for i in range(n):
        if v.code[i] >= MARGIN:
            v.rows[active] = v.slot[i]
            v.x[active] = v.b[i]
            active += 1
    combine(v.columns, n, v.rows, active, v.x, v.h)
    moved = 0
    for i in range(n):
        v.h[i] += ridge * v.b[i]
        if v.code[i] == RESERVE and v.h[i] < mu - tolerance:
            v.code[i] = MARGIN
            moved += 1
    return moved
