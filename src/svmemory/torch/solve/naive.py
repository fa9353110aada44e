"""The gate in plain PyTorch, one problem at a time: slow, short, and the twin of the fast solvers.

The sets come from a primal active-set walk without gradient. Given the sets, the weights solve a
linear system whose entries are ordinary tensors, so autograd differentiates them to any order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .problems import (
    EMPTY,
    ERROR,
    MARGIN,
    NOT_CONVERGED,
    OPTIMAL,
    RESERVE,
    WARMUP,
    Problems,
    Solved,
    counted,
    embed,
    no_answer,
    stacked,
)


def solve_naive(problems: Problems) -> Solved:
    """Solve every problem; see :mod:`svmemory.torch.solve.problems`."""
    count, n, _ = problems.keys.shape
    answers = []
    for p in range(count):
        for length in problems.lengths:
            rows = counted(problems, p, length)
            answers.append(embed(_solve_rows(problems, p, rows), rows, n))
    return stacked(answers, problems)


def _solve_rows(problems: Problems, p: int, rows: Tensor) -> Solved:
    keys = problems.keys[p, rows].to(torch.float64)
    gamma, ridge = problems.gamma[p], problems.ridge
    n = len(rows)
    if n == 0:
        return no_answer(0, EMPTY, keys.device)
    if not bool(torch.isfinite(keys).all()):
        return no_answer(n, NOT_CONVERGED, keys.device)
    square = (keys[:, None, :] - keys[None, :, :]).square().sum(-1)
    Q = torch.exp(-gamma * square) + ridge * torch.eye(n, dtype=keys.dtype, device=keys.device)
    mass = float(problems.mass[p])
    if n <= mass:
        weights = keys.new_full((n,), 1.0 / n)
        offset = 1.0 + ridge - 2.0 * (Q @ weights).max()
        return _answer(weights, offset, [ERROR] * n, keys.new_zeros(()), WARMUP)
    C = problems.C[p]
    C = C + (1.0 / mass - C).detach()  # the contract's value, the caller's gradient
    codes, converged = walk(Q.detach(), mass, ridge)
    weights, offset = _differentiable(Q, C, ridge, codes)
    residual = kkt_residual(Q.detach(), weights.detach(), offset.detach(), ridge, codes)
    status = OPTIMAL if converged else NOT_CONVERGED
    return _answer(weights, offset, codes.tolist(), residual, status)


def _answer(
    weights: Tensor, offset: Tensor, codes: list[int], residual: Tensor, status: int
) -> Solved:
    device = weights.device
    return Solved(
        weights,
        offset,
        torch.tensor(codes, dtype=torch.int8, device=device),
        residual,
        torch.tensor(status, dtype=torch.int8, device=device),
    )


def _differentiable(Q: Tensor, C: Tensor, ridge: float, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and offset of given sets: ``Q_SS a_S + C Q_SE 1 = alpha``, ``sum(a) = 1``."""
    S, E = (codes == MARGIN).nonzero()[:, 0], (codes == ERROR).nonzero()[:, 0]
    weights = Q.new_zeros(len(Q)).index_put((E,), C.expand(len(E)))
    if not len(S):  # a vertex: the weights are fixed, the offset follows the largest error row
        weights = weights.detach()
        return weights, 1.0 + ridge - 2.0 * (Q[E] @ weights).max()
    ones = torch.ones_like(Q[S, 0])
    loads = C * Q[S][:, E].sum(1)
    solution = torch.linalg.solve(Q[S][:, S], torch.stack([ones, loads], 1))
    alpha = (1.0 - len(E) * C + solution[:, 1].sum()) / solution[:, 0].sum()
    weights = weights.index_put((S,), alpha * solution[:, 0] - solution[:, 1])
    return weights, 1.0 + ridge - 2.0 * alpha


def kkt_residual(Q: Tensor, a: Tensor, rho: Tensor, ridge: float, codes: Tensor) -> Tensor:
    """Largest violation of the optimality conditions, in gate-score units."""
    g = rho - (1.0 + ridge) + 2.0 * (Q @ a)
    wrong = torch.where(codes == MARGIN, g.abs(), torch.where(codes == ERROR, g, -g))
    return torch.maximum(wrong.max().clamp_min(0.0), (a.sum() - 1.0).abs())


def walk(Q: Tensor, mass: float, ridge: float) -> tuple[Tensor, bool]:
    """Sets of the optimum over masses in [0, 1] that sum to ``mass`` < n, and whether it is one.

    Minimise over the free rows with all others at their bound; stop where the first row meets its
    bound; at a minimum free the row whose gradient is most wrong.
    """
    n = len(Q)
    outermost = Q.sum(1).argsort(stable=True)
    b = Q.new_zeros(n)
    whole = int(mass)
    b[outermost[:whole]] = 1.0
    b[outermost[whole]] = mass - whole
    codes = torch.full((n,), RESERVE, dtype=torch.int8, device=Q.device)
    codes[b > 0] = MARGIN
    tolerance = 1e-12 * mass
    for _ in range(100 + 20 * n):
        S = (codes == MARGIN).nonzero()[:, 0]
        h = Q @ b
        if len(S):
            solution = torch.linalg.solve(Q[S][:, S], torch.stack([torch.ones_like(h[S]), h[S]], 1))
            shift = (mass - b.sum() + solution[:, 1].sum()) / solution[:, 0].sum()
            target = b[S] + shift * solution[:, 0] - solution[:, 1]
            bound = (target > 0.5).to(b.dtype)
            outside = (target < 0.0) | (target > 1.0)
            if bool(outside.any()):
                limits = torch.where(outside, (bound - b[S]) / (target - b[S]), torch.inf)
                length = limits.min().clamp(0.0, 1.0)
                b[S] = (b[S] + length * (target - b[S])).clamp(0.0, 1.0)
                leaving = limits <= length
                b[S[leaving]] = bound[leaving]
                codes[S[leaving]] = torch.where(bound[leaving] > 0, ERROR, RESERVE).to(torch.int8)
                continue
            b[S] = target
            h = Q @ b
        mu = h[S].mean() if len(S) else h[codes == ERROR].max()
        wrong = torch.where(codes == ERROR, h - mu, torch.where(codes == RESERVE, mu - h, -1.0))
        worst = int(wrong.argmax())
        if wrong[worst] <= tolerance:
            dust = 4e-15 * mass * (1.0 + 1.0 / ridge)  # rows at a bound to rounding belong to it
            codes[(codes == MARGIN) & (b <= dust)] = RESERVE
            codes[(codes == MARGIN) & (b >= 1.0 - dust)] = ERROR
            return codes, True
        if not len(S):  # a pair must move: the largest error row gives
            codes[torch.where(codes == ERROR, h, -torch.inf).argmax()] = MARGIN
        codes[worst] = MARGIN
    return codes, False
