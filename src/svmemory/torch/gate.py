"""The gate as a function of tensors: keys in, weights of the optimum out.

Every (batch, head, ...) problem is the one of :mod:`svmemory.problem`, so what a layer computes can
be checked by the exact engine at the layer's own contract (gamma, C, ridge):

    minimise   a' (K + ridge I) a - diag(K + ridge I)' a
    subject to sum(a) = 1,  0 <= a_i <= max(C, 1/n)

with n the number of rows that the mask leaves. Gradients reach keys, gamma and C by the implicit
derivative of the optimum; none flows through the sets, which are piecewise constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec

import torch
from torch import Tensor

from ..contract import LARGEST_GAMMA
from ..errors import ContractError, InputError
from .checks import Solver, check_keys, check_ridge, check_rows, check_solver, check_tensor, whole
from .solve.problems import EMPTY, NOT_CONVERGED, OPTIMAL, WARMUP, Gate, Problems, as_gate
from .solvers import solve

__all__ = [
    "EMPTY",
    "NOT_CONVERGED",
    "OPTIMAL",
    "WARMUP",
    "Gate",
    "Solver",
    "sv_attention",
    "sv_gate",
    "sv_gate_prefixes",
    "sv_readout",
    "sv_score",
]

P = ParamSpec("P")


def _eager(function: Callable[P, Gate]) -> Callable[P, Gate]:
    """Outside compiled graphs: the solvers are compiled code of another kind."""
    outside: Callable[P, Gate] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return outside


@_eager
def sv_gate(
    keys: Tensor,
    gamma: float | Tensor,
    C: float | Tensor,
    ridge: float = 1e-3,
    mask: Tensor | None = None,
    *,
    solver: Solver = "batched",
    start: Tensor | None = None,
) -> Gate:
    """Gate weights of every problem in a batch.

    Parameters
    ----------
    keys : Tensor (..., n, d)
        float64, float32, bfloat16 or float16, on any device. Problems are solved in float64 on the
        values as given.
    gamma : float or Tensor broadcastable to (...)
        Kernel parameter of ``exp(-gamma |x - y|^2)``, > 0.
    C : float or Tensor broadcastable to (...)
        Largest weight of one row, > 0.
    ridge : float
        Added to the kernel's diagonal; at least 1e-10.
    mask : bool Tensor (..., n), optional
        True where a row counts.
    solver : {"batched", "exact", "paper", "naive"}
        ``batched`` solves all problems at once; ``exact`` one by one through the engine that
        memories use; ``naive`` in plain PyTorch, with second derivatives. These three return the
        same optimum. ``paper`` is the scheme of arXiv 2607.12204 and does not.
    start : Tensor (..., n), optional
        Weights to start from, as of an earlier solve; they change the time, not the answer.

    Returns
    -------
    Gate

    Raises
    ------
    InputError
        If shapes or types do not fit.
    ContractError
        If gamma, C or ridge is out of range.
    """
    check_solver(solver)
    check_keys(keys, mask, solver)
    *batch, n, _ = keys.shape
    problems = _flat(keys, gamma, C, check_ridge(ridge), mask, (n,), start)
    return as_gate(solve(problems, solver), keys, tuple(batch))


@_eager
def sv_gate_prefixes(
    keys: Tensor,
    gamma: float | Tensor,
    C: float | Tensor,
    ridge: float = 1e-3,
    mask: Tensor | None = None,
    *,
    lengths: Sequence[int],
    solver: Solver = "batched",
) -> Gate:
    """Gates of several prefixes of the same rows: one kernel matrix, each solve starts at the last.

    Parameters
    ----------
    keys, gamma, C, ridge, mask, solver
        As in :func:`sv_gate`.
    lengths : sequence of L int
        Prefix lengths, increasing, in [0, n]. Gate l sees the first ``lengths[l]`` rows.

    Returns
    -------
    Gate
        Of shape (..., L, n) and (..., L). Rows beyond a prefix have weight 0 and code -1.
    """
    check_solver(solver)
    check_keys(keys, mask, solver)
    *batch, n, _ = keys.shape
    ends = tuple(whole("a length", x) for x in lengths)
    if not ends or any(x > y for x, y in zip((0, *ends), (*ends, n), strict=True)):
        raise InputError(f"lengths must increase within [0, {n}], got {ends}")
    problems = _flat(keys, gamma, C, check_ridge(ridge), mask, ends, None)
    return as_gate(solve(problems, solver), keys, (*batch, len(ends)))


def sv_score(points: Tensor, keys: Tensor, gate: Gate, gamma: float | Tensor) -> Tensor:
    """Gate score ``2 sum_i a_i k(x, x_i) - rho`` of points (..., q, d); (..., q)."""
    check_rows("keys", keys, rows=gate.weights.shape[-1])
    check_rows("points", points, width=keys.shape[-1])
    kind = gate.weights.dtype
    with torch.autocast(keys.device.type, enabled=False):
        kernel = torch.exp(-_exponent(points, keys, gamma, gate.codes > 0)).to(kind)
        return 2.0 * (kernel * gate.weights.unsqueeze(-2)).sum(-1) - gate.offset.unsqueeze(-1)


def sv_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    gamma: float | Tensor,
    C: float | Tensor,
    ridge: float = 1e-3,
    mask: Tensor | None = None,
    solver: Solver = "batched",
) -> Tensor:
    """Read a gated memory: ``softmax_i(log a_i - gamma |q - k_i|^2) v``.

    Parameters
    ----------
    q : Tensor (..., t, d)
    k : Tensor (..., n, d)
    v : Tensor (..., n, dv)
    gamma, C, ridge, mask, solver
        As in :func:`sv_gate`; the same gamma serves gate and readout.

    Returns
    -------
    Tensor (..., t, dv)
        In the type of ``v``; zeros where a problem has no rows.
    """
    check_rows("k", k)  # all shapes before the solve, which may take long
    check_rows("q", q, width=k.shape[-1])
    check_rows("v", v, rows=k.shape[-2])
    gate = sv_gate(k, gamma, C, ridge, mask, solver=solver)
    return sv_readout(q, k, v, gate, gamma)


def sv_readout(q: Tensor, k: Tensor, v: Tensor, gate: Gate, gamma: float | Tensor) -> Tensor:
    """The readout of :func:`sv_attention` from a gate already solved."""
    check_rows("k", k, rows=gate.weights.shape[-1])
    check_rows("q", q, width=k.shape[-1])
    check_rows("v", v, rows=k.shape[-2])
    active = gate.codes > 0
    # log of 1 where a row has no weight, so that its gradient is 0 and not 0/0
    bias = torch.where(active, torch.where(active, gate.weights, 1.0).log(), -torch.inf)
    kind = gate.weights.dtype
    with torch.autocast(k.device.type, enabled=False):
        logits = bias.unsqueeze(-2) - _exponent(q, k, gamma, active)
        empty = (gate.status == EMPTY)[..., None, None]
        share = torch.softmax(torch.where(empty, 0.0, logits), -1).to(kind)
        # rows that do not count may hold anything, and 0 * NaN is NaN
        values = torch.where(active.unsqueeze(-1), v, 0.0).to(kind)
        return torch.where(empty, 0.0, share @ values).to(v.dtype)


# -- between tensors of any shape and flat problems ------------------------------------------------


def _flat(
    keys: Tensor,
    gamma: float | Tensor,
    C: float | Tensor,
    ridge: float,
    mask: Tensor | None,
    lengths: tuple[int, ...],
    start: Tensor | None,
) -> Problems:
    *batch, n, d = keys.shape
    count = torch.Size(batch).numel()
    if mask is not None:
        mask = _expand("mask", mask, (*batch, n)).reshape(count, n)
    if start is not None:
        start = check_tensor("start", start).detach()
        start = _expand("start", start, (*batch, n)).reshape(count, n)
    return Problems(
        keys=keys.reshape(count, n, d),
        gamma=_number("gamma", gamma, LARGEST_GAMMA, batch, keys).reshape(count),
        C=_number("C", C, 2.0**39, batch, keys).reshape(count),
        ridge=ridge,
        mask=mask,
        lengths=lengths,
        start=start,
    )


def _number(
    name: str, value: float | Tensor, largest: float, batch: list[int], keys: Tensor
) -> Tensor:
    """A float64 tensor on the keys' device with one positive value per problem."""
    try:
        number = torch.as_tensor(value, dtype=torch.float64, device=keys.device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be a number or a tensor, got {value!r}") from None
    plain = number.detach()
    if not bool(((plain > 0) & (plain <= largest)).all()):
        raise ContractError(f"{name} must be > 0 and at most {largest:g}, got {value}")
    return _expand(name, number, tuple(batch))


def _expand(name: str, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    try:
        return value.expand(shape)
    except RuntimeError:
        raise InputError(
            f"{name} of shape {tuple(value.shape)} does not broadcast to {shape}"
        ) from None


def _exponent(x: Tensor, y: Tensor, gamma: float | Tensor, active: Tensor) -> Tensor:
    """``gamma |x_i - y_j|^2`` in float64, (..., q, n), differentiable also where rows meet.

    Taken about the mean of the active rows, since squares of what all rows share would cancel.
    Rows that are not active may hold anything; what is said about them means nothing.
    """
    counts = active.unsqueeze(-1)
    x, y = x.double(), torch.where(counts, y, 0.0).double()
    centre = y.detach().sum(-2, keepdim=True) / counts.sum(-2, keepdim=True).clamp_min(1)
    x, y = x - centre, y - centre
    if isinstance(gamma, Tensor):
        gamma = gamma.to(y.device, y.dtype)
        gamma = gamma.reshape(*gamma.shape, 1, 1) if gamma.dim() else gamma
    square = x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2)
    return gamma * (square - 2.0 * (x @ y.transpose(-1, -2))).clamp_min(0.0)
