"""The optimum of one problem from its kernel matrix, compiled.

Three stages, each only if the one before has not ended at the optimum:

1. *Guess* the sets: a few conjugate-gradient steps on the free rows, then every row is put where
   its mass and gradient say, many at once. A product with the kernel matrix costs a fiftieth of a
   factorisation, so the sets are nearly right before the first factor is computed.
2. *Correct* them with exact solves: factor the free rows' matrix, solve, move every row that is in
   the wrong set, until none is. Usually one or two rounds; it may cycle.
3. *Walk*: the primal active-set method with one change at a time, which cannot cycle on the
   strictly convex problem that a ridge makes.

The answer does not depend on the stage that found it: a problem is solved when the optimality
conditions hold in float64, and otherwise says so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .linear import cholesky, compiled, inner, multiply, solve
from .problems import ERROR, MARGIN, RESERVE

Floats = NDArray[np.float64]

_GUESSES = 8  # rounds of stage 1
_STEPS = 12  # conjugate-gradient steps in one
_ROUNDS = 25  # of stage 2
_PATIENCE = 4  # rounds of stage 2 without progress
_TOLERANCE = 1e-12  # on h, per unit of mass
_DUST = 4e-15  # rounding of a mass, per unit of mass and of 1/ridge
_REFINEMENTS = 5  # of a margin's solution
_EXACT = 1e-14  # error of h, per unit of mass, at which no refinement is worth its time


class Work(NamedTuple):
    """Scratch for problems of up to n rows; one per thread."""

    b: Floats  # (n,) masses
    h: Floats  # (n,) (K + ridge I) b
    code: NDArray[np.int8]  # (n,)
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
            code=np.zeros(n, np.int8),
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


@compiled
def settle(K, n, mass, ridge, w):  # type: ignore[no-untyped-def]
    """Optimum of the first n rows, from the codes and masses in ``w``.

    Leaves masses, h and codes in ``w``; the margin in ``w.rows``, its factor in ``w.U`` and
    ``(K_SS + ridge I)^-1 1`` in ``w.ones``. Returns (mu, size of the margin, converged).
    """
    guess(K, n, mass, ridge, w)
    mu, s, converged = correct(K, n, mass, ridge, w)
    if not converged:
        mu, s, converged = walk(K, n, mass, ridge, w)
    if converged and snap(n, mass, ridge, w):
        s = margin_rows(w, n)
        mu = margin_optimum(K, n, s, mass, ridge, w) if s else top(K, n, ridge, w)
    return mu, s, converged


@inner
def correct(K, n, mass, ridge, w):  # type: ignore[no-untyped-def]
    """Stage 2: many changes of set at a time."""
    best = n + 1
    waiting = 0
    for _ in range(_ROUNDS):
        s = margin_rows(w, n)
        if s == 0:
            break
        mu = margin_optimum(K, n, s, mass, ridge, w)
        wrong = reassign(n, mu, _TOLERANCE * mass * (1.0 + ridge), w)
        if wrong == 0:
            return mu, s, True
        waiting = 0 if wrong < best else waiting + 1
        best = min(best, wrong)
        if waiting == _PATIENCE:
            break
    return 0.0, 0, False


@inner
def snap(n, mass, ridge, w):  # type: ignore[no-untyped-def]
    """Put margin rows that are at a bound to rounding into its set; whether there were any."""
    dust = _DUST * mass * (1.0 + 1.0 / ridge)
    moved = False
    for i in range(n):
        if w.code[i] == MARGIN:
            if w.b[i] <= dust:
                w.b[i] = 0.0
                w.code[i] = RESERVE
                moved = True
            elif w.b[i] >= 1.0 - dust:
                w.b[i] = 1.0
                w.code[i] = ERROR
                moved = True
    return moved


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
def guess(K, n, mass, ridge, w):  # type: ignore[no-untyped-def]
    """Stage 1: sets that are nearly right."""
    b, h, p, q = w.b, w.h, w.p, w.q
    for _ in range(_GUESSES):
        s = margin_rows(w, n)
        if s == 0:
            return
        total = 0.0
        for i in range(n):
            total += b[i]
        shift = (mass - total) / s
        for t in range(s):
            b[w.rows[t]] += shift
        s = gather(w, n, MARGIN)
        multiply(K, n, w.rows, s, b, ridge, h)
        s = margin_rows(w, n)
        mu = level(h, w.rows, s)
        power = 0.0
        for i in range(n):
            p[i] = 0.0
        for t in range(s):
            i = w.rows[t]
            p[i] = mu - h[i]
            power += p[i] * p[i]
        enough = 1e-4 * power
        for _ in range(_STEPS):
            if power <= 1e-26 * mass * mass:
                break
            multiply(K, n, w.rows, s, p, ridge, q)
            bend = 0.0
            for t in range(s):
                i = w.rows[t]
                bend += p[i] * q[i]
            length = power / bend
            for t in range(s):
                i = w.rows[t]
                b[i] += length * p[i]
            for i in range(n):
                h[i] += length * q[i]
            mu = level(h, w.rows, s)
            before = power
            power = 0.0
            for t in range(s):
                r = mu - h[w.rows[t]]
                power += r * r
            turn = power / before
            for t in range(s):
                i = w.rows[t]
                p[i] = (mu - h[i]) + turn * p[i]
            if power <= enough:
                break
        if reassign(n, mu, np.sqrt(power / s), w) == 0:
            return


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
def walk(K, n, mass, ridge, w):  # type: ignore[no-untyped-def]
    """Stage 3: one change of set at a time from a feasible point."""
    b, code = w.b, w.code
    feasible(n, mass, w)
    point = b.copy()  # the feasible point; w.b is where the margin's minimum would be
    mu = 0.0
    for _ in range(100 + 20 * n):
        s = margin_rows(w, n)
        if s:
            mu = margin_optimum(K, n, s, mass, ridge, w)
            length = 1.0
            stop = -1
            for t in range(s):
                i = w.rows[t]
                if b[i] < 0.0 or b[i] > 1.0:
                    bound = 0.0 if b[i] < 0.0 else 1.0
                    limit = (bound - point[i]) / (b[i] - point[i])
                    if limit < length or stop < 0:
                        length = max(limit, 0.0)
                        stop = i
            if stop >= 0:
                full = b[stop] > 1.0
                for t in range(s):
                    i = w.rows[t]
                    point[i] = min(max(point[i] + length * (b[i] - point[i]), 0.0), 1.0)
                point[stop] = 1.0 if full else 0.0
                code[stop] = ERROR if full else RESERVE
                b[:n] = point[:n]
                continue
            point[:n] = b[:n]
        else:
            mu = top(K, n, ridge, w)
        worst = -1
        amount = _TOLERANCE * mass * (1.0 + ridge)
        for i in range(n):
            wrong = -1.0
            if code[i] == RESERVE:
                wrong = mu - w.h[i]
            elif code[i] == ERROR:
                wrong = w.h[i] - mu
            if wrong > amount:
                amount = wrong
                worst = i
        if worst < 0:
            return mu, s, True
        if s == 0:  # a pair must move: the error row with the largest gradient gives
            for i in range(n):
                if code[i] == ERROR and w.h[i] >= mu:
                    code[i] = MARGIN
                    break
        code[worst] = MARGIN
    s = margin_rows(w, n)
    if s:  # leave a factor that belongs to the sets
        mu = margin_optimum(K, n, s, mass, ridge, w)
    return mu, s, False


@inner
def feasible(n, mass, w):  # type: ignore[no-untyped-def]
    """Masses in the box with the right sum, near those in ``w``; codes to match."""
    b, code = w.b, w.code
    for i in range(n):
        b[i] = min(max(b[i], 0.0), 1.0)
    for _ in range(60):
        missing = mass
        room = 0.0
        for i in range(n):
            missing -= b[i]
        for i in range(n):
            room += 1.0 - b[i] if missing > 0.0 else b[i]
        if abs(missing) <= 1e-15 * mass:
            break
        for i in range(n):
            space = 1.0 - b[i] if missing > 0.0 else b[i]
            b[i] = min(max(b[i] + missing * space / room, 0.0), 1.0)
    for i in range(n):
        code[i] = RESERVE if b[i] == 0.0 else ERROR if b[i] == 1.0 else MARGIN


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
