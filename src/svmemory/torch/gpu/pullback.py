"""The implicit derivative of all optima of a group, by the formulas of the CPU's ``solve.vjp``."""

from __future__ import annotations

import torch
from torch import Tensor

from ..solve.problems import ERROR, MARGIN, RESERVE
from .margin import Margins


def pull_back(
    kernel: Tensor,
    ridge: float,
    parts: list[Margins],
    weights: Tensor,
    codes: Tensor,
    weights_bar: Tensor,
    offset_bar: Tensor,
) -> tuple[Tensor, Tensor]:
    """Cotangents of kernel matrices and of C from those of weights and offset.

    Parameters
    ----------
    kernel : float64 Tensor (P, N, N)
    ridge : float
    parts : list of Margins
        Of the forward pass.
    weights, codes, weights_bar : Tensor (P, L, N)
        Weights not NaN.
    offset_bar : Tensor (P, L)

    Returns
    -------
    Tensor (P, N, N)
        ``dL/dK_ij + dL/dK_ji``.
    Tensor (P,)
        dL/dC.
    """
    active = codes > RESERVE
    bar = torch.where(active, weights_bar, 0.0).flatten(0, 1)  # (Q, N)
    shift = offset_bar.flatten()
    w = torch.zeros_like(bar)
    level = torch.zeros_like(shift)
    free = torch.zeros_like(shift, dtype=torch.bool)
    for part in parts:
        y = part.solve(torch.where(part.real, bar[part.place], 0.0))
        nu = (y.sum(1) - 2.0 * shift[part.problems]) / part.ones.sum(1)
        w[part.place] = y - nu[:, None] * part.ones
        level[part.problems] = nu
        free[part.problems] = True
    # without a margin the weights are fixed; the offset follows the largest error row
    h = torch.bmm(weights, kernel) + ridge * weights
    largest = torch.where(codes == ERROR, h, -torch.inf).flatten(0, 1).argmax(1, keepdim=True)
    vertex = (codes == ERROR).any(2).flatten() & ~(codes == MARGIN).any(2).flatten()
    follows = vertex[:, None] & (torch.arange(w.shape[1], device=w.device) == largest)
    w = torch.where(follows, 2.0 * shift[:, None], w)

    w = w.view_as(weights)
    reach = (torch.bmm(w, kernel) + ridge * w).flatten(0, 1)
    pushed = (codes == ERROR).flatten(0, 1) & free[:, None]
    cap_bar = torch.where(pushed, bar - reach - level[:, None], 0.0).sum(1)
    outer = torch.bmm(w.transpose(1, 2), weights)
    return -(outer + outer.transpose(1, 2)), cap_bar.view(offset_bar.shape).sum(1)


def to_keys(kernel: Tensor, kernel_bar: Tensor, keys: Tensor, gamma: Tensor) -> Tensor:
    """Cotangent of keys (P, N, d) from what :func:`pull_back` gives for the kernel matrices."""
    pull = 2.0 * gamma[:, None, None] * kernel * kernel_bar
    return torch.bmm(pull, keys) - pull.sum(2, keepdim=True) * keys
