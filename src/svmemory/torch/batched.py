"""The batched solver: all problems at once, to the optimum, and its implicit derivative.

PyTorch computes the inner products of all keys; compiled code does the rest, one problem after the
other in a core's cache, problems shared out over threads. Everything runs in float64 whatever the
type of the keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .activeset import Work
from .prefixes import kernel_from_keys, kernel_from_products, pull_back, solve_prefixes
from .problems import Problems, Solved
from .threads import share_out

Floats = NDArray[np.float64]

_GROUP = 2**25  # bytes of kernel matrices in work at a time
_KEPT = 2**26  # bytes of kernel matrices kept for the derivative; beyond, they are made again


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


class Trail(NamedTuple):
    """What the forward pass leaves for the derivative.

    Attributes
    ----------
    rows : Rows
    factors : list of P arrays
        Of :func:`svmemory.torch.prefixes.solve_prefixes`.
    kernels : list of (g, N, N) arrays
        Kernel matrices, group by group; empty where they are too large to keep.
    """

    rows: Rows
    factors: list[Floats]
    kernels: list[Floats]


def solve_batched(problems: Problems, keep: bool = False) -> tuple[Solved, Trail]:
    """Solve every problem; with ``keep``, leave a trail for :func:`differentiate`."""
    rows = prepare(problems)
    count, n, _ = problems.keys.shape
    lengths = len(problems.lengths)
    weights = np.zeros((count, lengths, n))
    offset = np.zeros((count, lengths))
    codes = np.zeros((count, lengths, n), np.int8)
    misfit = np.zeros((count, lengths))
    status = np.zeros((count, lengths), np.int8)
    factors = [np.empty(0)] * count
    kernels = []
    small = rows.keys.shape[1] ** 2 * 8 * count <= _KEPT
    gamma, mass = _numbers(problems)
    start = _starts(problems, rows, n)

    for group in groups(rows):
        matrices = products(rows, group)

        def task(i: int, w: Work, first: int = group.start, matrices: Floats = matrices) -> None:
            p = first + i
            kernel = matrices[i]
            fill_kernel(rows, p, gamma[p], kernel, w)
            factors[p] = solve_prefixes(
                kernel,
                rows.counts[p],
                rows.finite[p],
                mass[p],
                problems.ridge,
                start[p if len(start) > 1 else 0],
                problems.start is not None,
                keep,
                w,
                (weights[p], offset[p], codes[p], misfit[p], status[p]),
            )

        share_out(task, len(matrices), matrices.shape[1])
        if keep and small:
            kernels.append(matrices)
    solved = Solved(*(torch.from_numpy(x) for x in (weights, offset, codes, misfit, status)))
    if rows.order is not None:
        solved = solved._replace(
            weights=_unsort(solved.weights, rows.order), codes=_unsort(solved.codes, rows.order)
        )
    return solved, Trail(rows, factors, kernels)


def differentiate(
    problems: Problems,
    solved: Solved,
    trail: Trail,
    weights_bar: Tensor,
    offset_bar: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cotangents of keys (P, n, d), gamma (P,) and C (P,) from those of weights and offset."""
    kind = torch.float64 if problems.keys.dtype == torch.float64 else torch.float32
    rows = trail.rows
    weights, codes = solved.weights, solved.codes
    weights_bar = weights_bar.to("cpu", torch.float64)
    if rows.order is not None:
        where = rows.order.unsqueeze(1).expand_as(weights)
        weights, codes, weights_bar = (x.gather(-1, where) for x in (weights, codes, weights_bar))
    found = [x.contiguous().numpy() for x in (weights, codes, solved.status)]
    grads = [x.contiguous().numpy() for x in (weights_bar, offset_bar.to("cpu", torch.float64))]
    count, n, d = problems.keys.shape
    gamma, _ = _numbers(problems)
    keys_bar = torch.zeros(count, n, d, dtype=kind)
    cap_bar = np.zeros(count)
    width = rows.keys.shape[1]
    for number, group in enumerate(groups(rows)):
        known = bool(trail.kernels)
        matrices = trail.kernels[number] if known else products(rows, group)
        couplings = torch.empty(matrices.shape, dtype=kind)
        pulled = couplings.numpy()

        def task(
            i: int,
            w: Work,
            first: int = group.start,
            matrices: Floats = matrices,
            known: bool = known,
            pulled: NDArray[np.floating] = pulled,
        ) -> None:
            p = first + i
            kernel = matrices[i]
            if not known:
                fill_kernel(rows, p, gamma[p], kernel, w)
            cap_bar[p] = pull_back(
                kernel,
                rows.counts[p],
                gamma[p],
                problems.ridge,
                trail.factors[p],
                tuple(x[p] for x in found),
                tuple(x[p] for x in grads),
                w,
                pulled[i],
            )

        share_out(task, len(matrices), width)
        keys_bar[group, :width] = torch.bmm(couplings, rows.keys[group].to(kind))
    # gamma |x|^2 is all that K depends on, so gamma's derivative is that of scaling the keys
    gamma_bar = (keys_bar[:, :width] * rows.keys).sum((1, 2), dtype=torch.float64)
    gamma_bar = gamma_bar / (2.0 * problems.gamma.cpu())
    if rows.order is not None:
        keys_bar = _unsort(keys_bar.transpose(1, 2), rows.order).transpose(1, 2)
    return keys_bar, gamma_bar, torch.from_numpy(cap_bar)


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


def groups(rows: Rows) -> list[slice]:
    """Problems to take together, so that their kernel matrices do not fill the memory."""
    count, n, _ = rows.keys.shape
    size = max(torch.get_num_threads(), _GROUP // max(8 * n * n, 1))
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def products(rows: Rows, group: slice) -> Floats:
    """Inner products of all keys, (g, N, N)."""
    keys = rows.keys[group]
    return np.asarray(torch.bmm(keys, keys.transpose(1, 2)).numpy())


def fill_kernel(rows: Rows, p: int, gamma: float, matrix: Floats, w: Work) -> None:
    """Turn the products of problem p into its kernel matrix."""
    n = rows.counts[p, -1]
    if rows.cancels[p]:
        kernel_from_keys(rows.keys[p].numpy(), n, gamma, matrix, w)
    else:
        kernel_from_products(matrix, n, gamma, w)


def _numbers(problems: Problems) -> tuple[Floats, Floats]:
    gamma = problems.gamma.detach().cpu().numpy()
    return gamma, problems.mass.cpu().numpy()


def _starts(problems: Problems, rows: Rows, n: int) -> Floats:
    if problems.start is None:
        return np.zeros((1, 0))
    start = problems.start.to("cpu", torch.float64)
    if rows.order is not None:
        start = start.gather(1, rows.order)
    return start.contiguous().numpy()


def _unsort(x: Tensor, order: Tensor) -> Tensor:
    """Rows (last dimension) back to where they came from."""
    where = order.unsqueeze(1).expand_as(x)
    return torch.empty_like(x).scatter_(-1, where, x)
