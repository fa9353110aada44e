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

import numpy as np

from .activeset import (
    TOLERANCE,
    gather,
    level,
    margin_optimum,
    margin_rows,
    reassign,
    top,
)
from .linear import compiled, inner, multiply
from .problems import ERROR, MARGIN, RESERVE
from .walk import walk

_GUESSES = 8  # rounds of stage 1
_STEPS = 12  # conjugate-gradient steps in one
_ROUNDS = 25  # of stage 2
_PATIENCE = 4  # rounds of stage 2 without progress
_DUST = 4e-15  # rounding of a mass, per unit of mass and of 1/ridge


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
        wrong = reassign(n, mu, TOLERANCE * mass * (1.0 + ridge), w)
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
