"""The batched scheme of arXiv 2607.12204, for comparison only.

80 FISTA steps in float32 on the problem without a ridge give the sets; then a linear system with
the ridge on the margin's diagonal gives the weights. The two stages solve different problems, and
nothing checks the sets, so the answer is the optimum of neither. Where the paper does not say, this
reads: start at 1/n, step 1/L with L the largest absolute row sum, a row is at a bound within a
thousandth of the cap, and weights that leave the box are put back on it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .problems import (
    EMPTY,
    ERROR,
    MARGIN,
    MASKED,
    NOT_CONVERGED,
    OPTIMAL,
    RESERVE,
    WARMUP,
    Problems,
    Solved,
    no_answer,
    stacked,
)

_STEPS = 80
_HALVINGS = 40
_EDGE = 1e-3


def solve_paper(problems: Problems) -> Solved:
    """Solve every problem the paper's way; see :mod:`svmemory.torch.problems`.

    The status is *not converged* wherever the KKT residual of the ridged problem exceeds 1e-5.
    """
    count, n, _ = problems.keys.shape
    if not n:
        return stacked(
            [no_answer(0, EMPTY, problems.keys.device)] * (count * len(problems.lengths)), problems
        )
    keys = problems.keys.to(torch.float32)
    mask = problems.mask
    if mask is None:
        mask = torch.ones(count, n, dtype=torch.bool, device=keys.device)
    usable = torch.isfinite(keys).all(-1) | ~mask
    keys = torch.where((mask & usable).unsqueeze(-1), keys, 0.0)
    square = torch.cdist(keys, keys, compute_mode="donot_use_mm_for_euclid_dist").square()
    kernel = torch.exp(-problems.gamma.to(torch.float32)[:, None, None] * square)
    found = [_prefix(problems, kernel, mask, usable, length) for length in problems.lengths]
    return Solved(*(torch.stack(x, 1) for x in zip(*found, strict=True)))


def _prefix(
    problems: Problems, kernel: Tensor, mask: Tensor, usable: Tensor, length: int
) -> Solved:
    n = mask.shape[1]
    here = mask & (torch.arange(n, device=mask.device) < length)
    both = here.unsqueeze(1) & here.unsqueeze(2)
    K = torch.where(both, kernel, 0.0)
    rows = here.sum(1)
    mass = torch.minimum(problems.mass.to(torch.float32), rows.clamp_min(1).to(torch.float32))
    cap = 1.0 / mass
    with torch.no_grad():
        a = _fista(K, here, cap)
        codes = torch.where(a <= _EDGE * cap[:, None], RESERVE, MARGIN)
        codes = torch.where(a >= (1.0 - _EDGE) * cap[:, None], ERROR, codes)
        warm = (rows <= problems.mass) & (rows > 0)
        codes = torch.where(warm[:, None], ERROR, codes)
        codes = torch.where(here, codes, MASKED)
    C = problems.C.to(torch.float32)
    C = torch.where(warm, cap, C + (cap - C).detach())
    weights, level = _margin(K, codes, C, problems.ridge)
    offset = 1.0 + problems.ridge - 2.0 * level
    with torch.no_grad():
        q = (K @ weights.unsqueeze(-1)).squeeze(-1) + problems.ridge * weights
        g = 2.0 * (q - level[:, None])
        wrong = torch.where(codes == MARGIN, g.abs(), torch.where(codes == ERROR, g, -g))
        residual = torch.where(here, wrong, 0.0).amax(1).clamp_min(0.0)
        residual = torch.maximum(residual, (weights.sum(1) - 1.0).abs())
        bad = (here & ~usable).any(1)
        residual = torch.where(bad, torch.inf, torch.where(rows > 0, residual, 0.0))
        status = torch.where(residual <= 1e-5, OPTIMAL, NOT_CONVERGED)
        status = torch.where(warm & ~bad, WARMUP, status)
        status = torch.where(rows == 0, EMPTY, status)
    weights = torch.where(bad[:, None] & here, torch.nan, weights)
    offset = torch.where(rows > 0, torch.where(bad, torch.nan, offset), 0.0)
    return Solved(weights, offset, codes.to(torch.int8), residual, status.to(torch.int8))


def _fista(K: Tensor, here: Tensor, cap: Tensor) -> Tensor:
    """Weights after a fixed number of accelerated projected gradient steps."""
    step = 1.0 / (2.0 * K.sum(-1).amax(-1).clamp_min(1.0))[:, None]
    x = here / here.sum(1, keepdim=True).clamp_min(1)
    y, t = x, 1.0
    for _ in range(_STEPS):
        gradient = 2.0 * (K @ y.unsqueeze(-1)).squeeze(-1)
        after = _project(y - step * gradient, here, cap)
        t_after = 0.5 * (1.0 + (1.0 + 4.0 * t * t) ** 0.5)
        y = after + (t - 1.0) / t_after * (after - x)
        x, t = after, t_after
    return x


def _project(y: Tensor, here: Tensor, cap: Tensor) -> Tensor:
    """Nearest point with sum 1 and entries in [0, cap], by bisection of the shift."""
    infinite = torch.inf
    low = torch.where(here, y, infinite).amin(1) - cap
    high = torch.where(here, y, -infinite).amax(1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        inside = torch.minimum((y - middle[:, None]).clamp_min(0.0), cap[:, None])
        too_much = torch.where(here, inside, 0.0).sum(1) > 1.0
        low = torch.where(too_much, middle, low)
        high = torch.where(too_much, high, middle)
    inside = torch.minimum((y - high[:, None]).clamp_min(0.0), cap[:, None])
    return torch.where(here, inside, 0.0)


def _margin(K: Tensor, codes: Tensor, C: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights and common gradient of given sets, differentiable in K and C."""
    S, E = codes == MARGIN, codes == ERROR
    pair = S.unsqueeze(1) & S.unsqueeze(2)
    system = torch.where(pair, K, 0.0) + torch.diag_embed(torch.where(S, ridge, 1.0))
    errors = C[:, None] * E
    load = torch.where(S, (K @ errors.unsqueeze(-1)).squeeze(-1), 0.0)
    right = torch.stack([S.to(K.dtype), load], -1)
    # a factor that fails leaves NaN, which the residual then reports
    solution = torch.cholesky_solve(right, torch.linalg.cholesky_ex(system).L)
    has = S.any(1)
    weight = torch.where(has, solution[..., 0].sum(1), 1.0)
    level = (1.0 - C * E.sum(1) + solution[..., 1].sum(1)) / weight
    inner = level[:, None] * solution[..., 0] - solution[..., 1]
    weights = torch.where(S, torch.minimum(inner.clamp_min(0.0), C[:, None]), errors)
    q = (K @ errors.unsqueeze(-1)).squeeze(-1) + ridge * errors
    top = torch.where(E, q, -torch.inf).amax(1)
    return weights, torch.where(has, level, torch.where(E.any(1), top, 0.0))
