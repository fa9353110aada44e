"""The sets of every optimum: exact solves, many changes of set at a time, all problems in step.

Stage 2 of :mod:`svmemory.torch.solve.settle` in float64. It may cycle; problems that do not settle
in a few rounds are left to the compiled solver on the CPU, whose walk cannot, and come back as
sets.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..solve.activeset import TOLERANCE
from ..solve.problems import ERROR, MARGIN, RESERVE
from .margin import Batch, Margins, margins, optimum

_ROUNDS = 25
_PATIENCE = 4  # rounds without progress
_DUST = 4e-15  # rounding of a mass, per unit of mass and of 1/ridge


def correct(batch: Batch, live: Tensor) -> tuple[list[Margins], Tensor]:
    """Bring problems to their optimum.

    Parameters
    ----------
    batch : Batch
        With masses and codes to start from; changed in place.
    live : bool Tensor (Q,)
        The problems to bring there.

    Returns
    -------
    list of Margins
        Factors of the margins of all problems that got there, empty margins apart.
    bool Tensor (Q,)
        The problems that did not.
    """
    done: list[Margins] = []
    todo = live.clone()
    final = torch.zeros_like(todo)  # sets are known; one more solve and that is it
    best = torch.full_like(batch.mu, torch.inf)
    waiting = torch.zeros_like(batch.mu)
    patient = live.clone()
    for _ in range(_ROUNDS):
        index = (todo & patient).nonzero()[:, 0]
        if not len(index):
            break
        parts = margins(batch, index)
        optimum(batch, parts)
        wrong = reassign(batch, todo & patient & ~final)
        settled = todo & patient & (wrong == 0)
        again = snap(batch, settled & ~final)
        final |= again
        ready = settled & ~again & solved(batch)
        done += [part.some(ready[part.problems]) for part in parts]
        todo &= ~ready
        waiting = torch.where(wrong < best, 0.0, waiting + 1)
        best = torch.minimum(best, wrong)
        # a problem at rest that is not solved has a margin too near to singular for its factor
        patient &= again | (~settled & (waiting < _PATIENCE))
    return [part for part in done if len(part.problems)], todo


def solve_sets(batch: Batch, which: Tensor) -> list[Margins]:
    """Bring problems (Q,) whose codes are right to their optimum; masses off the margin too."""
    rows = which[:, None]
    batch.b.masked_fill_(rows & (batch.codes == RESERVE), 0.0)
    batch.b.masked_fill_(rows & (batch.codes == ERROR), 1.0)
    batch.b.masked_fill_(rows & (batch.codes == MARGIN), 0.5)
    parts = margins(batch, which.nonzero()[:, 0])
    optimum(batch, parts)
    return parts


def reassign(batch: Batch, which: Tensor) -> Tensor:
    """Put every row into the set that its mass or gradient asks for; how many moved, (Q,).

    A vertex (no margin) that is wrong, or whose masses do not add up, frees its largest error row
    as well: nothing can move alone.
    """
    b, h, codes = batch.b, batch.h, batch.codes
    mu = batch.mu[:, None]
    room = (TOLERANCE * batch.held * (1.0 + batch.ridge))[:, None]
    which = which[:, None]
    margin = which & (codes == MARGIN)
    under, over = margin & (b < 0.0), margin & (b > 1.0)
    enter = (codes == RESERVE) & (h < mu - room)
    enter = which & (enter | ((codes == ERROR) & (h > mu + room)))
    short = (batch.held - b.sum(1)).abs() > TOLERANCE * batch.held
    stuck = which[:, 0] & ~margin.any(1) & (enter.any(1) | short)
    largest = torch.where(codes == ERROR, h, -torch.inf).argmax(1, keepdim=True)
    enter = enter | (stuck[:, None] & (torch.arange(b.shape[1], device=b.device) == largest))
    b.masked_fill_(under, 0.0).masked_fill_(over, 1.0)
    codes.masked_fill_(under, RESERVE).masked_fill_(over, ERROR).masked_fill_(enter, MARGIN)
    return (under | over | enter).sum(1).to(b.dtype)


def snap(batch: Batch, which: Tensor) -> Tensor:
    """Put margin rows that are at a bound to rounding into its set; the problems with any, (Q,)."""
    dust = (_DUST * batch.held * (1.0 + 1.0 / batch.ridge))[:, None]
    margin = which[:, None] & (batch.codes == MARGIN)
    under, over = margin & (batch.b <= dust), margin & (batch.b >= 1.0 - dust)
    over &= ~under
    batch.b.masked_fill_(under, 0.0).masked_fill_(over, 1.0)
    batch.codes.masked_fill_(under, RESERVE).masked_fill_(over, ERROR)
    return (under | over).any(1)


def solved(batch: Batch) -> Tensor:
    """The problems (Q,) at their optimum, by the measure of the compiled solver."""
    return residual(batch) <= max(min(1e-6 * batch.ridge, 1e-9), 1e-11)


def residual(batch: Batch) -> Tensor:
    """Largest violation of the optimality conditions in gate scores, (Q,); NaN is infinite."""
    b, held = batch.b, batch.held[:, None]
    g = 2.0 * (batch.h - batch.mu[:, None]) / held
    wrong = torch.where(batch.codes == MARGIN, g.abs(), torch.where(batch.codes == ERROR, g, -g))
    wrong = torch.maximum(wrong, torch.maximum(-b, (b - 1.0) / held))
    wrong = torch.where(batch.codes >= RESERVE, wrong, 0.0).amax(1)
    worst = torch.maximum(wrong, (b.sum(1) - batch.held).abs() / batch.held)
    return torch.where(worst.isnan(), torch.inf, worst)
