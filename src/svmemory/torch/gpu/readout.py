"""Attention with a bias for each key in one kernel, forward and backward.

``softmax_j(q_i.k_j + bias_j) v`` over the rows that a query may see. With bias ``log a_j`` this
reads a gated memory; with ``-gamma |k_j|^2`` more and queries scaled by ``2 gamma`` it is the
Gaussian readout. Attention weights are never in memory, and the gradient of the bias, which
PyTorch's fused attention does not give, carries the gate's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .launch import on_triton

ABSENT = -1e29
"""A key whose bias is below is not read, whatever it and its value hold."""


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, memory: int) -> Tensor:
    """Read G memories.

    Parameters
    ----------
    q : Tensor (G, t, d)
        Scaled; k and v have its type. The kernels add up in float32, so float64 takes the twin.
    k : Tensor (G, n, d)
    v : Tensor (G, n, e)
    bias : Tensor (G, n)
    memory : int
        Keys that every query sees. Of those after, query i sees the first i + 1.

    Returns
    -------
    Tensor (G, t, e)
        Zero where a query sees no key.
    """
    if on_triton(q) and q.dtype != torch.float64:
        out: Tensor = _Fused.apply(q, k, v, bias, memory)  # type: ignore[no-untyped-call]
        return out
    return attend_naive(q, k, v, bias, memory)


def attend_naive(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, memory: int) -> Tensor:
    """The twin of the kernels; autograd differentiates it."""
    present = bias > ABSENT
    k, v = (torch.where(present.unsqueeze(-1), x, 0.0) for x in (k, v))
    place = torch.arange(k.shape[1], device=k.device)
    reach = torch.arange(q.shape[1], device=k.device) + memory
    seen = present.unsqueeze(1) & (place <= reach[:, None])
    logits = q @ k.transpose(1, 2) + torch.where(present, bias, 0.0).unsqueeze(1)
    weights = torch.softmax(torch.where(seen, logits, torch.finfo(logits.dtype).min), -1)
    return torch.where(seen, weights, 0.0) @ v


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, memory: int) -> Tensor:
        from .kernels.attention import forward

        out, total = forward(q, k, v, bias, memory, ABSENT)
        ctx.save_for_backward(q, k, v, bias, out, total)
        ctx.memory = memory
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, out_bar: Tensor) -> tuple[Tensor | None, ...]:
        from .kernels.attention import backward

        q, k, v, bias, out, total = ctx.saved_tensors
        bars = backward(q, k, v, bias, out, total, out_bar, ctx.memory, ABSENT)
        return *bars, None
