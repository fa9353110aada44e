"""Rows of a batch of problems as the compiled code wants them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .activeset import Floats
from .problems import Problems


class Rows(NamedTuple):
    """Keys as the compiled code wants them: rows that count first, centred, float64, on the CPU.

    Attributes
    ----------
    keys : Tensor (P, N, d)
        Zero where a row does not count or is not finite.
    counts : int64 array (P, L)
        Rows that count in each prefix.
    finite : int64 array (P,)
        How many leading rows are finite.
    order : Tensor (P, n) or None
        Where the rows came from, if they moved.
    cancels : bool array (P,)
        Whether inner products are too large to give distances that serve this ridge.
    """

    keys: Tensor
    counts: NDArray[np.int64]
    finite: NDArray[np.int64]
    order: Tensor | None
    cancels: NDArray[np.bool_]


def prepare(problems: Problems) -> Rows:
    """See :class:`Rows`."""
    count = len(problems.keys)
    keys = problems.keys.detach().to("cpu", torch.float64)
    lengths = np.asarray(problems.lengths, np.int64)
    order = None
    if problems.mask is None:
        counts = np.repeat(lengths[None], count, 0)
    else:
        mask = problems.mask.cpu()
        order = torch.argsort(~mask, dim=1, stable=True)
        keys = keys.gather(1, order.unsqueeze(-1).expand_as(keys))
        sums = torch.nn.functional.pad(mask.cumsum(1), (1, 0))
        counts = sums[:, torch.from_numpy(lengths)].numpy()
    most = int(counts.max(initial=0))
    keys = keys[:, :most]
    total = torch.from_numpy(np.ascontiguousarray(counts[:, -1:]))
    finite = total[:, 0]
    size = total.clamp_min(1).unsqueeze(-1)
    if order is not None or not bool(torch.isfinite(keys.sum())):
        counted = torch.arange(most) < total
        usable = counted & torch.isfinite(keys).all(-1)
        finite = (counted & ((counted & ~usable).cumsum(1) == 0)).sum(1)
        keys = torch.where(usable.unsqueeze(-1), keys, 0.0)
        keys = torch.where(usable.unsqueeze(-1), keys - keys.sum(1, keepdim=True) / size, 0.0)
    else:
        keys = keys - keys.sum(1, keepdim=True) / size
    largest = keys.square().sum(-1).amax(1) if most else keys.new_zeros(count)
    # products lose |x|^2 2^-50 of a squared distance; an error of the kernel counts 1/ridge
    cancels = ~(problems.gamma.detach().cpu() * largest * 2.0**-50 <= 1e-9 * problems.ridge)
    return Rows(keys, counts, finite.numpy(), order, cancels.numpy())


class Trail(NamedTuple):
    """What the forward pass leaves for the derivative.

    Attributes
    ----------
    rows : Rows
    factors : list of P arrays
        Of :func:`svmemory.torch.solve.prefixes.solve_prefixes`.
    kernels : list of (g, N, N) arrays
        Kernel matrices, group by group; empty where they are too large to keep.
    long : bool
        Whether :mod:`.long` has solved them.
    """

    rows: Rows
    factors: list[Floats]
    kernels: list[Floats]
    long: bool


def unsorted(x: Tensor, order: Tensor) -> Tensor:
    """Rows (last dimension) back to where they came from."""
    where = order.unsqueeze(1).expand_as(x)
    return torch.empty_like(x).scatter_(-1, where, x)
