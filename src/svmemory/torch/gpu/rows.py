"""Keys of a batch as the GPU solver wants them: rows that count first, centred, float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..solve.problems import Problems


class Rows(NamedTuple):
    """P sets of N rows, L prefixes each, on the device of the keys.

    Attributes
    ----------
    keys : float64 Tensor (P, N, d)
        Zero where a row does not count or is not finite.
    counts : int64 Tensor (P, L)
        Rows that count in each prefix; they are the first ones.
    finite : int64 Tensor (P,)
        How many leading rows are finite.
    order : int64 Tensor (P, n) or None
        Where the rows came from, if they moved.
    """

    keys: Tensor
    counts: Tensor
    finite: Tensor
    order: Tensor | None

    def arranged(self, x: Tensor) -> Tensor:
        """Values a row of the caller, (P, ..., n), in the order here: (P, ..., N)."""
        if self.order is not None:
            x = x.gather(-1, _along(self.order, x))
        return x[..., : self.keys.shape[1]]

    def restored(self, x: Tensor, n: int, fill: float) -> Tensor:
        """The inverse of :meth:`arranged`; ``fill`` for rows that were left out."""
        x = torch.nn.functional.pad(x, (0, n - x.shape[-1]), value=fill)
        if self.order is None:
            return x
        return x.gather(-1, _along(self.order.argsort(1), x))


def arrange(problems: Problems) -> Rows:
    """See :class:`Rows`."""
    keys = problems.keys.detach().to(torch.float64)
    device = keys.device
    lengths = torch.tensor(problems.lengths, device=device)
    order = None
    if problems.mask is None:
        counts = lengths.expand(len(keys), -1)
    else:
        order = torch.argsort(~problems.mask, dim=1, stable=True)
        keys = keys.gather(1, order.unsqueeze(-1).expand_as(keys))
        sums = torch.nn.functional.pad(problems.mask.cumsum(1), (1, 0))
        counts = sums[:, lengths]
    most = int(counts.max()) if len(keys) else 0
    keys = keys[:, :most]
    total = counts[:, -1:]
    counted = torch.arange(most, device=device) < total
    usable = counted & torch.isfinite(keys).all(-1)
    finite = (counted & ((counted & ~usable).cumsum(1) == 0)).sum(1)
    keys = torch.where(usable.unsqueeze(-1), keys, 0.0)
    # distances stay the same, and the derivative, which adds up keys, keeps its digits
    middle = keys.sum(1, keepdim=True) / total.clamp_min(1).unsqueeze(-1)
    keys = torch.where(usable.unsqueeze(-1), keys - middle, 0.0)
    return Rows(keys.contiguous(), counts, finite, order)


def _along(order: Tensor, x: Tensor) -> Tensor:
    """Order (P, n) as an index into x (P, ..., n)."""
    return order.view(len(order), *[1] * (x.dim() - 2), -1).expand_as(x)
