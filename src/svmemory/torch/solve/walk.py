"""The primal active-set method with one change of set at a time; compiled."""

from __future__ import annotations

from .activeset import TOLERANCE, margin_optimum, margin_rows, top
from .linear import compiled, inner
from .problems import ERROR, MARGIN, RESERVE


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
        amount = TOLERANCE * mass * (1.0 + ridge)
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
