"""The batched scheme of arXiv 2607.12204, for comparison only.

80 FISTA steps in float32 on the problem without a ridge give the sets; then a linear system with
the ridge on the margin's diagonal gives the weights. The two stages solve different problems, and
nothing checks the sets, so the answer is the optimum of neither. Where the paper does not say, this
reads: start at 1/n, step 1/L with L the largest absolute row sum, a row is at a bound within a
thousandth of the cap, and weights that leave the box are put back on it. The system is solved in
float64, which can only favour the scheme.
"""

from __future__ import annotations

import numpy as np
import torch

from .activeset import gather, margin_optimum, margin_rows, residual, top, warm_up
from .ends import conclude, packed, without_solving
from .fista import fista
from .linear import compiled, multiply
from .problems import ERROR, MARGIN, NOT_CONVERGED, OPTIMAL, RESERVE, WARMUP, Problems, Solved
from .vjp import solve_with_gradient

_STEPS = 80
_EDGE = 1e-3
_CLOSE = 1e-5  # KKT residual below which the answer counts as optimal


def solve_paper(problems: Problems) -> Solved:
    """Solve every problem the paper's way; see :mod:`svmemory.torch.solve.problems`.

    The status is *not converged* wherever the KKT residual of the ridged problem exceeds 1e-5.
    """
    found = solve_with_gradient(problems._replace(start=None), paper_prefixes)
    rows = (found.codes >= 0).sum(-1, keepdim=True).clamp_min(1)
    cap = torch.maximum(1.0 / problems.mass.to(rows.device)[:, None, None], 1.0 / rows)
    # a weight put back on the box has no derivative; one that is on it keeps its own
    weights = torch.where(found.weights < 0.0, 0.0, found.weights)
    return found._replace(weights=torch.where(weights > cap, cap, weights))


@compiled
def paper_prefixes(K, counts, finite, mass, ridge, start, warm, keep, w, out):  # type: ignore[no-untyped-def]
    """As :func:`svmemory.torch.solve.prefixes.solve_prefixes`, but each prefix from nothing.

    Weights may leave the box; the residual is that of weights put back on it.
    """
    offset, status = out[1], out[4]
    store = np.empty(0)
    used = 0
    for prefix in range(len(counts)):
        n = counts[prefix]
        found = without_solving(prefix, n, finite, mass, out)
        if found == WARMUP:
            offset[prefix] = warm_up(K, n, ridge, w)
        if found != OPTIMAL:
            continue
        cap = 1.0 / mass
        a = fista(K[:n, :n].astype(np.float32), np.float32(cap), _STEPS)
        for i in range(n):
            w.code[i] = RESERVE if a[i] <= _EDGE * cap else MARGIN
            if a[i] >= (1.0 - _EDGE) * cap:
                w.code[i] = ERROR
            w.b[i] = 1.0 if w.code[i] == ERROR else 0.0
        s = margin_rows(w, n)
        mu = margin_optimum(K, n, s, mass, ridge, w) if s else top(K, n, ridge, w)
        b = w.b[:n].copy()
        for i in range(n):
            w.b[i] = min(max(w.b[i], 0.0), 1.0)
        active = gather(w, n, MARGIN)
        multiply(K, n, w.rows, active, w.b, ridge, w.h)
        wrong = residual(n, mass, mu, w)
        conclude(prefix, n, mass, ridge, mu, True, wrong, b, w.code, out)
        status[prefix] = OPTIMAL if wrong <= _CLOSE else NOT_CONVERGED
        if keep:
            store = packed(store, used, w.U, w.ones, s)
            used += s * (s + 3) // 2
    return store[:used]
