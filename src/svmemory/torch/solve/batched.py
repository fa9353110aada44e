"""The batched solver: all problems at once, to the optimum, and its implicit derivative.

Compiled code solves one problem after the other in a core's cache, problems shared out over
threads: short ones from their kernel matrix (:mod:`.short`), many prefixes of a long sequence
without it (:mod:`.long`). Everything runs in float64 whatever the type of the keys.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from . import long, short
from .prefixes import solve_prefixes
from .problems import Problems, Solved
from .rows import Trail, prepare, unsorted
from .short import Scheme


def solve_batched(
    problems: Problems, keep: bool = False, scheme: Scheme | None = None
) -> tuple[Solved, Trail]:
    """Solve every problem, by another scheme than ours if one is given.

    With ``keep``, leave a trail for :func:`differentiate`.
    """
    rows = prepare(problems)
    count, n, _ = problems.keys.shape
    lengths = len(problems.lengths)
    answers = (
        np.zeros((count, lengths, n)),
        np.zeros((count, lengths)),
        np.zeros((count, lengths, n), np.int8),
        np.zeros((count, lengths)),
        np.zeros((count, lengths), np.int8),
    )
    if scheme is None and long.are_long(problems, rows):
        trail = long.solve(problems, rows, answers, keep)
    else:
        trail = short.solve(problems, rows, answers, keep, scheme or solve_prefixes)
    solved = Solved(*(torch.from_numpy(x) for x in answers))
    if rows.order is not None:
        solved = solved._replace(
            weights=unsorted(solved.weights, rows.order), codes=unsorted(solved.codes, rows.order)
        )
    return solved, trail


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
    keys_bar = torch.zeros(problems.keys.shape, dtype=kind)
    pull = long.pull if trail.long else short.pull
    cap_bar = pull(problems, trail, found, grads, keys_bar)
    # gamma |x|^2 is all that K depends on, so gamma's derivative is that of scaling the keys
    width = rows.keys.shape[1]
    gamma_bar = (keys_bar[:, :width] * rows.keys).sum((1, 2), dtype=torch.float64)
    gamma_bar = gamma_bar / (2.0 * problems.gamma.cpu())
    if rows.order is not None:
        keys_bar = unsorted(keys_bar.transpose(1, 2), rows.order).transpose(1, 2)
    return keys_bar, gamma_bar, torch.from_numpy(cap_bar)
