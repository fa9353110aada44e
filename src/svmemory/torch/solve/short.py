"""Batches of problems from their kernel matrices: PyTorch multiplies, compiled code solves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .activeset import Floats, Work
from .prefixes import kernel_from_keys, kernel_from_products, pull_back
from .problems import Problems
from .rows import Rows, Trail
from .threads import share_out

_GROUP = 2**25  # bytes of kernel matrices in work at a time
_KEPT = 2**26  # bytes of kernel matrices kept for the derivative; beyond, they are made again


Scheme = Callable[..., Floats]
"""Compiled, with the signature of :func:`svmemory.torch.solve.prefixes.solve_prefixes`."""


def solve(
    problems: Problems,
    rows: Rows,
    answers: tuple[NDArray[Any], ...],
    keep: bool,
    scheme: Scheme,
) -> Trail:
    """Fill ``answers``, arrays in the order of :class:`Solved`; see :mod:`.batched`."""
    count, n, _ = problems.keys.shape
    factors = [np.empty(0)] * count
    kernels = []
    small = rows.keys.shape[1] ** 2 * 8 * count <= _KEPT
    gamma, mass = problems.numbers()
    start = _starts(problems, rows, n)

    for group in groups(rows):
        matrices = products(rows, group)

        def task(i: int, w: Work, first: int = group.start, matrices: Floats = matrices) -> None:
            p = first + i
            kernel = matrices[i]
            fill_kernel(rows, p, gamma[p], kernel, w)
            factors[p] = scheme(
                kernel,
                rows.counts[p],
                rows.finite[p],
                mass[p],
                problems.ridge,
                start[p if len(start) > 1 else 0],
                problems.start is not None,
                keep,
                w,
                tuple(x[p] for x in answers),
            )

        share_out(task, len(matrices), partial(Work.of, matrices.shape[1]))
        if keep and small:
            kernels.append(matrices)
    return Trail(rows, factors, kernels, long=False)


def pull(
    problems: Problems,
    trail: Trail,
    found: list[NDArray[Any]],
    grads: list[NDArray[Any]],
    keys_bar: Tensor,
) -> Floats:
    """Fill ``keys_bar``; returns the cotangent of C."""
    rows = trail.rows
    width = rows.keys.shape[1]
    gamma, _ = problems.numbers()
    cap_bar = np.zeros(len(keys_bar))
    for number, group in enumerate(groups(rows)):
        known = bool(trail.kernels)
        matrices = trail.kernels[number] if known else products(rows, group)
        couplings = torch.empty(matrices.shape, dtype=keys_bar.dtype)
        pulled = couplings.numpy()

        def task(
            i: int,
            w: Work,
            first: int = group.start,
            matrices: Floats = matrices,
            known: bool = known,
            pulled: NDArray[Any] = pulled,
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

        share_out(task, len(matrices), partial(Work.of, width))
        keys_bar[group, :width] = torch.bmm(couplings, rows.keys[group].to(keys_bar.dtype))
    return cap_bar


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


def _starts(problems: Problems, rows: Rows, n: int) -> Floats:
    if problems.start is None:
        return np.zeros((1, 0))
    start = problems.start.to("cpu", torch.float64)
    if rows.order is not None:
        start = start.gather(1, rows.order)
    return start.contiguous().numpy()
