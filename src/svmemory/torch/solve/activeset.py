"""The active set of one problem: its rows, their optimum, the violations; compiled.

:mod:`.settle` finds the sets with these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .linear import cholesky, compiled, inner, multiply, solve
from .problems import ERROR, MARGIN, RESERVE

Floats = NDArray[np.float64]

TOLERANCE = 1e-12  # on h, per unit of mass
_REFINEMENTS = 5  # of a margin's solution
_EXACT = 1e-14  # error of h, per unit of mass, at which no refinement is worth its time


class Work(NamedTuple):
    """Scratch for problems of up to n rows; one per thread."""

    b: Floats  # (n,) masses
    h: Floats  # (n,) (K + ridge I) b
    code: NDArray[np.int32]  # (n,) not 8 bits: see svmemory.engine.state
    rows: NDArray[np.int64]  # (n,) the margin, or all active rows
    p: Floats  # (n,) search direction
    q: Floats  # (n,) its image
    x: Floats  # (n,) right-hand sides over the margin
    ones: Floats  # (n,) (K_SS + ridge I)^-1 1
    U: Floats  # (n, n) factor of the margin
    bits: NDArray[np.int64]  # (n,) view of q

    @classmethod
    def of(cls, n: int) -> Work:
        """Fresh scratch."""
        vectors = [np.zeros(n) for _ in range(6)]
        b, h, p, q, x, ones = vectors
        return cls(
            b=b,
            h=h,
            code=np.zeros(n, np.int32),
            rows=np.zeros(n, np.int64),
            p=p,
            q=q,
            x=x,
            ones=ones,
            U=np.empty((n, n)),
            bits=q.view(np.int64),
        )


@inner
def gather(w, n, least):  # type: ignore[no-untyped-def]
    """List the rows whose code is at least ``least`` in ``w.rows``; how many."""
    count = 0
    for i in range(n):
        if w.code[i] >= least:
            w.rows[count] = i
            count += 1
    return count


@inner
def margin_rows(w, n):  # type: ignore[no-untyped-def]
    """List the margin in ``w.rows``; its size."""
    count = 0
    for i in range(n):
        if w.code[i] == MARGIN:
            w.rows[count] = i
            count += 1
    return count


@inner
def top(K, n, ridge, w):  # type: ignore[no-untyped-def]
    """Update h, and the largest of it over error rows: the multiplier of an empty margin."""
    active = gather(w, n, MARGIN)
    multiply(K, n, w.rows, active, w.b, ridge, w.h)
    mu = -np.inf
    for i in range(n):
        if w.code[i] == ERROR:
            mu = max(mu, w.h[i])
    return mu


@inner
def warm_up(K, n, ridge, w):  # type: ignore[no-untyped-def]
    """Give every row the mass 1; the offset."""
    w.b[:n] = 1.0
    w.code[:n] = ERROR
    return 1.0 + ridge - 2.0 * top(K, n, ridge, w) / n


@inner
def level(h, rows, s):  # type: ignore[no-untyped-def]
    """Mean of h over the margin."""
    total = 0.0
    for t in range(s):
        total += h[rows[t]]
    return total / s


@inner
def reassign(n, mu, tolerance, w):  # type: ignore[no-untyped-def]
    """Put every row into the set that its mass or gradient asks for; how many moved."""
    moved = 0
    for i in range(n):
        code = w.code[i]
        if code == MARGIN:
            if w.b[i] < 0.0:
                w.code[i] = RESERVE
                w.b[i] = 0.0
                moved += 1
            elif w.b[i] > 1.0:
                w.code[i] = ERROR
                w.b[i] = 1.0
                moved += 1
        elif (code == RESERVE and w.h[i] < mu - tolerance) or (
            code == ERROR and w.h[i] > mu + tolerance
        ):
            w.code[i] = MARGIN
            moved += 1
    return moved


@inner
def margin_optimum(K, n, s, mass, ridge, w):  # type: ignore[no-untyped-def]
    """Minimise over the margin ``w.rows[:s]`` with all other rows held; box ignored. Returns mu."""
    rows, U = w.rows, w.U
    for t in range(s):
        source = K[rows[t]]
        target = U[t, t:s]
        columns = rows[t:s]
        for u in range(s - t):
            target[u] = source[columns[u]]
        target[0] += ridge
        w.ones[t] = 1.0
    cholesky(U, s)
    solve(U, s, w.ones)
    weight = 0.0
    for t in range(s):
        weight += w.ones[t]
    mu = 0.0
    last = np.inf
    for _ in range(_REFINEMENTS):
        active = gather(w, n, MARGIN)
        multiply(K, n, rows, active, w.b, ridge, w.h)
        margin_rows(w, n)
        missing = mass
        for i in range(n):
            missing -= w.b[i]
        mu = level(w.h, rows, s)
        error = abs(missing)
        for t in range(s):
            w.x[t] = w.h[rows[t]] - mu
            error = max(error, abs(w.x[t]))
        if error <= _EXACT * mass or not error < 0.5 * last:
            break
        last = error
        solve(U, s, w.x)
        for t in range(s):
            missing += w.x[t]
        shift = missing / weight
        for t in range(s):
            w.b[rows[t]] += shift * w.ones[t] - w.x[t]
    return mu


@compiled
def residual(n, mass, mu, w):  # type: ignore[no-untyped-def]
    """Largest violation of the optimality conditions, in gate-score units; NaN is infinite."""
    worst = -mass
    for i in range(n):
        worst += w.b[i]
    worst = abs(worst) / mass
    for i in range(n):
        g = 2.0 * (w.h[i] - mu) / mass
        wrong = abs(g) if w.code[i] == MARGIN else (g if w.code[i] == ERROR else -g)
        wrong = max(wrong, -w.b[i], (w.b[i] - 1.0) / mass)
        if not wrong <= worst:
            worst = wrong
    return worst if worst == worst else np.inf
