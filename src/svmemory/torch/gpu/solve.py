"""The batched gate on the device of its keys, as one node of PyTorch's graph.

Kernel matrices, a guess of all sets, exact corrections until the optimality conditions hold in
float64; the derivative uses the factors that the corrections leave. Everything in groups of sets
whose kernel matrices fit the memory together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..solve.problems import EMPTY, MASKED, Problems, Solved
from ..solve.vjp import FirstOnly
from .gram import gram
from .group import solve_group
from .margin import Margins
from .pullback import pull_back, to_keys
from .rows import Rows, arrange

_GROUP = 2**31  # bytes of kernel matrices in work at a time


class Trail(NamedTuple):
    """What the forward pass leaves for the derivative.

    Attributes
    ----------
    rows : Rows
    margins : list of list of Margins
        Group by group; problems are counted within a group.
    """

    rows: Rows
    margins: list[list[Margins]]


def solve_gpu(problems: Problems) -> Solved:
    """Solve every problem, with gradients; see :mod:`svmemory.torch.solve.problems`.

    On CPU tensors it gives the same answers, with the kernels' twins, and is slower than
    :func:`svmemory.torch.solve.vjp.solve_with_gradient`.
    """
    detached = problems._replace(
        keys=problems.keys.detach(), gamma=problems.gamma.detach(), C=problems.C.detach()
    )
    inputs = problems.keys, problems.gamma, problems.C
    return Solved(*_Implicit.apply(*inputs, detached))  # type: ignore[no-untyped-call]


class _Implicit(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, keys: Tensor, gamma: Tensor, C: Tensor, problems: Problems
    ) -> tuple[Tensor, ...]:
        found, trail = solve_groups(problems)
        ctx.mark_non_differentiable(found.codes, found.residual, found.status)
        if any(ctx.needs_input_grad[:3]):
            ctx.save_for_backward(keys, gamma, C, *found)
            ctx.problems, ctx.trail = problems, trail
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        keys, gamma, C, *found = ctx.saved_tensors
        keys_bar, gamma_bar, cap_bar = differentiate(
            ctx.problems,
            Solved(*(x.detach() for x in found)),
            ctx.trail,
            grads[0].detach(),
            grads[1].detach(),
        )
        bars = keys_bar.to(keys.dtype), gamma_bar, cap_bar
        passed = FirstOnly.apply(*bars, keys, gamma, C, *grads[:2])  # type: ignore[no-untyped-call]
        return *passed, None


def solve_groups(problems: Problems) -> tuple[Solved, Trail]:
    """Solve every problem and leave a trail for :func:`differentiate`."""
    rows = arrange(problems)
    trail = Trail(rows, [])
    if not rows.keys.shape[0] * rows.keys.shape[1]:
        return nothing(problems), trail
    answers = []
    for group in groups(rows):
        answer, margins = solve_group(problems, rows, group)
        answers.append(answer)
        trail.margins.append(margins)
    found = Solved(*(torch.cat(x) for x in zip(*answers, strict=True)))
    n = problems.keys.shape[1]
    weights = rows.restored(found.weights, n, 0.0)
    return found._replace(weights=weights, codes=rows.restored(found.codes, n, MASKED)), trail


def differentiate(
    problems: Problems,
    found: Solved,
    trail: Trail,
    weights_bar: Tensor,
    offset_bar: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cotangents of keys (P, n, d), gamma (P,) and C (P,) from those of weights and offset."""
    rows = trail.rows
    weights = rows.arranged(found.weights).nan_to_num()
    codes, weights_bar = rows.arranged(found.codes), rows.arranged(weights_bar)
    keys_bar = torch.zeros_like(rows.keys)
    cap_bar = torch.zeros_like(problems.C)
    for group, margins in zip(groups(rows), trail.margins, strict=False):
        keys, gamma = rows.keys[group], problems.gamma[group]
        kernel = gram(keys, gamma)  # cheaper to make again than to keep
        kernel_bar, cap_bar[group] = pull_back(
            kernel,
            problems.ridge,
            margins,
            weights[group],
            codes[group],
            weights_bar[group].to(torch.float64),
            offset_bar[group].to(torch.float64),
        )
        keys_bar[group] = to_keys(kernel, kernel_bar, keys, gamma)
    # gamma |x|^2 is all that K depends on, so gamma's derivative is that of scaling the keys
    gamma_bar = (keys_bar * rows.keys).sum((1, 2)) / (2.0 * problems.gamma)
    n = problems.keys.shape[1]
    keys_bar = rows.restored(keys_bar.transpose(1, 2), n, 0.0).transpose(1, 2)
    return keys_bar, gamma_bar, cap_bar


def groups(rows: Rows) -> Iterator[slice]:
    """Sets to take together."""
    count, n, _ = rows.keys.shape
    size = max(1, _GROUP // max(8 * n * n, 1))
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def nothing(problems: Problems) -> Solved:
    """The answer where no row counts anywhere: every problem is empty."""
    shape = (len(problems.keys), len(problems.lengths))
    offset = torch.zeros(shape, dtype=torch.float64, device=problems.keys.device)
    weights = offset.new_zeros(*shape, problems.keys.shape[1])
    return Solved(
        weights=weights,
        offset=offset,
        codes=torch.full_like(weights, MASKED, dtype=torch.int8),
        residual=torch.zeros_like(offset),
        status=torch.full_like(offset, EMPTY, dtype=torch.int8),
    )
