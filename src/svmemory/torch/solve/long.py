"""Batches of problems on many prefixes of long sequences, without their kernel matrices."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .activeset import Floats, Work
from .columns import Long
from .prefixes import kernel_from_keys, kernel_from_products, pull_back
from .problems import Problems
from .rows import Rows, Trail
from .threads import share_out
from .working import solve_long

_LONG = 400  # rows from which this is faster than the whole kernel matrix


def are_long(problems: Problems, rows: Rows) -> bool:
    """Whether prefixes are so many and long that most pairs of rows never meet."""
    width = rows.keys.shape[1]
    steps = np.diff(problems.lengths, prepend=0)
    return width >= _LONG and problems.start is None and bool(steps.max() <= width // 4)


def solve(problems: Problems, rows: Rows, answers: tuple[NDArray[Any], ...], keep: bool) -> Trail:
    """Fill ``answers``, arrays in the order of :class:`Solved`; see :mod:`.batched`."""
    factors = [np.empty(0)] * len(problems.keys)
    gamma, mass = problems.numbers()
    keys = rows.keys.transpose(1, 2).contiguous().numpy()

    def task(p: int, room: list[Long]) -> None:
        factors[p] = solve_long(
            keys[p],
            gamma[p],
            rows.counts[p],
            rows.finite[p],
            mass[p],
            problems.ridge,
            keep,
            room,
            tuple(x[p] for x in answers),
        )

    share_out(task, len(keys), list[Long])
    return Trail(rows, factors, [], long=True)


def pull(
    problems: Problems,
    trail: Trail,
    found: list[NDArray[Any]],
    grads: list[NDArray[Any]],
    keys_bar: Tensor,
) -> Floats:
    """Fill ``keys_bar`` on the rows that were ever active, the only ones with a derivative.

    Returns the cotangent of C.
    """
    rows = trail.rows
    gamma, _ = problems.numbers()
    cap_bar = np.zeros(len(keys_bar))
    weights, codes, status = found
    weights_bar, offset_bar = grads

    def task(p: int, _: None) -> None:
        active = np.flatnonzero((codes[p] > 0).any(0))
        size = len(active)
        if not size:
            return
        taken = partial(np.take, indices=active, axis=1)
        keys = rows.keys[p, active]
        w = Work.of(size)
        kernel = (keys @ keys.T).numpy()
        if rows.cancels[p]:
            kernel_from_keys(keys.numpy(), size, gamma[p], kernel, w)
        else:
            kernel_from_products(kernel, size, gamma[p], w)
        couplings = torch.empty(size, size, dtype=keys_bar.dtype)
        cap_bar[p] = pull_back(
            kernel,
            np.searchsorted(active, rows.counts[p]),
            gamma[p],
            problems.ridge,
            trail.factors[p],
            (taken(weights[p]), taken(codes[p]), status[p]),
            (taken(weights_bar[p]), offset_bar[p]),
            w,
            couplings.numpy(),
        )
        keys_bar[p, active] = couplings @ keys.to(keys_bar.dtype)

    share_out(task, len(keys_bar), lambda: None)
    return cap_bar
