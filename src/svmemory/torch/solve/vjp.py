"""The batched gate as one node of PyTorch's graph, with the implicit derivative of the optimum.

With S the margin, E the error rows and ``alpha`` the common value of ``(Q a)_i`` on S, the optimum
solves ``Q_SS a_S - alpha 1 = -C Q_SE 1`` and ``1' a_S = 1 - |E| C``. The derivative solves the
transposed system with the factor of ``Q_SS`` that the forward pass has left:

    Q_SS w + nu 1 = abar_S,   1' w = 2 rhobar,
    dL/dK_ij = -w_i a_j (i in S, j active),   dL/dC = sum over E of (abar_e - (K w)_e - nu).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .batched import differentiate, solve_batched
from .problems import Problems, Solved
from .short import Scheme


class _Implicit(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, keys: Tensor, gamma: Tensor, C: Tensor, problems: Problems, scheme: Scheme | None
    ) -> tuple[Tensor, ...]:
        keep = any(ctx.needs_input_grad[:3])
        solved, trail = solve_batched(problems, keep, scheme)
        found = Solved(*(x.to(keys.device) for x in solved))
        ctx.mark_non_differentiable(found.codes, found.residual, found.status)
        if keep:
            ctx.save_for_backward(keys, gamma, C, *found)
            ctx.problems, ctx.trail = problems, trail
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        keys, gamma, C, *found = ctx.saved_tensors
        solved = Solved(*(x.detach().cpu() for x in found))
        keys_bar, gamma_bar, cap_bar = differentiate(
            ctx.problems, solved, ctx.trail, grads[0].detach(), grads[1].detach()
        )
        bars = (
            keys_bar.to(keys.device, keys.dtype),
            gamma_bar.to(gamma.device),
            cap_bar.to(C.device),
        )
        passed = FirstOnly.apply(*bars, keys, gamma, C, *grads[:2])  # type: ignore[no-untyped-call]
        return *passed, None, None


class FirstOnly(torch.autograd.Function):
    """Passes first derivatives on and refuses to be differentiated itself."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, keys_bar: Tensor, gamma_bar: Tensor, cap_bar: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return keys_bar.view_as(keys_bar), gamma_bar.view_as(gamma_bar), cap_bar.view_as(cap_bar)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:  # noqa: D102
        raise RuntimeError(
            "the gate has no second derivatives with solver='batched' or 'exact'; "
            "use solver='naive', which has them"
        )


def solve_with_gradient(problems: Problems, scheme: Scheme | None = None) -> Solved:
    """:func:`svmemory.torch.solve.batched.solve_batched` on the graph."""
    detached = problems._replace(
        keys=problems.keys.detach(), gamma=problems.gamma.detach(), C=problems.C.detach()
    )
    inputs = problems.keys, problems.gamma, problems.C
    return Solved(*_Implicit.apply(*inputs, detached, scheme))  # type: ignore[no-untyped-call]
