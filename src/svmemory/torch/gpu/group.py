"""Some sets of rows from start to answer: guess, correct, what is left to the CPU, and the status.

Q = P L problems, L prefixes of each of the P sets of a group; rows in the order of :class:`.Rows`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..solve.batched import solve_batched
from ..solve.problems import (
    EMPTY,
    ERROR,
    MARGIN,
    MASKED,
    NOT_CONVERGED,
    OPTIMAL,
    RESERVE,
    WARMUP,
    Problems,
    Solved,
)
from .correct import correct, residual, solve_sets, solved
from .gram import gram
from .guess import guess
from .margin import Batch, Margins, optimum
from .rows import Rows


def solve_group(problems: Problems, rows: Rows, group: slice) -> tuple[Solved, list[Margins]]:
    """Answers of some sets, (P, L, N) and (P, L), and their factored margins."""
    counts = rows.counts[group]
    total = counts.flatten()
    usable = (counts <= rows.finite[group, None]).flatten() & (total > 0)
    mass = problems.mass[group, None].expand_as(counts).flatten()
    warm = usable & (total <= mass)
    live = usable & ~warm
    held = torch.where(live, mass, total.clamp_min(1).to(mass.dtype))
    batch = start(problems, rows, group, held, warm, live)
    guess_sets(batch, torch.where(live, total, 0))
    parts, missing = correct(batch, live)
    if bool(missing.any()):
        take_sets_from_cpu(batch, problems, rows, group, missing)
        parts += solve_sets(batch, missing)
    optimum(batch, [])  # h everywhere, and the level of every vertex

    weights = batch.b / held[:, None]
    offset = 1.0 + problems.ridge - 2.0 * batch.mu / held
    misfit = torch.where(live, residual(batch), 0.0)
    status = torch.where(solved(batch), OPTIMAL, NOT_CONVERGED)
    status = torch.where(warm, WARMUP, torch.where(live, status, NOT_CONVERGED))
    status = torch.where(total == 0, EMPTY, status)
    lost = ~usable & (total > 0)
    weights = torch.where(lost[:, None] & (batch.codes >= RESERVE), torch.nan, weights)
    offset = torch.where(lost, torch.nan, torch.where(total == 0, 0.0, offset))
    misfit = torch.where(lost, torch.inf, misfit)
    return Solved(
        weights=weights.view(*counts.shape, -1),
        offset=offset.view_as(counts),
        codes=batch.codes.view(*counts.shape, -1),
        residual=misfit.view_as(counts),
        status=status.to(torch.int8).view_as(counts),
    ), parts


def start(
    problems: Problems, rows: Rows, group: slice, held: Tensor, warm: Tensor, live: Tensor
) -> Batch:
    """Equal masses, every row free; or the caller's start for the first prefix."""
    keys, total = rows.keys[group], rows.counts[group].flatten()
    inside = torch.arange(keys.shape[1], device=keys.device) < total[:, None]
    free = torch.where(live, MARGIN, torch.where(warm, ERROR, RESERVE)).to(torch.int8)
    codes = torch.where(inside, free[:, None], MASKED)
    even = torch.where(live | warm, held / total.clamp_min(1), 0.0)
    b = torch.where(inside, even[:, None], 0.0)
    if problems.start is not None:
        prefixes = rows.counts.shape[1]
        given = rows.arranged(problems.start.to(torch.float64))[group] * held[::prefixes, None]
        given = torch.where(given >= 1.0 - 1e-6, 1.0, torch.where(given > 0.0, given, 0.0))
        sets = torch.where(given == 1.0, ERROR, torch.where(given > 0.0, MARGIN, RESERVE))
        first = inside[::prefixes] & live[::prefixes, None]
        first &= (first & (sets == MARGIN)).any(1, keepdim=True)  # a start without a free row
        b[::prefixes] = torch.where(first, given, b[::prefixes])
        codes[::prefixes] = torch.where(first, sets.to(torch.int8), codes[::prefixes])
    return Batch(
        kernel=gram(keys, problems.gamma[group]),
        ridge=problems.ridge,
        held=held,
        b=b,
        h=torch.zeros_like(b),
        codes=codes,
        mu=torch.zeros_like(held),
    )


def guess_sets(batch: Batch, counts: Tensor) -> None:
    """Improve masses and codes by the guess in float32; what it spoils starts again."""
    matrices = batch.kernel.to(torch.float32)
    diagonal = matrices.diagonal(dim1=1, dim2=2)
    diagonal += batch.ridge
    b, codes = batch.b.to(torch.float32), batch.codes.to(torch.int32)
    guess(matrices, counts, batch.held.to(torch.float32), b, codes)
    # float32 may find the matrix singular
    good = torch.isfinite(b).all(1, keepdim=True)
    batch.b = torch.where(good, b.to(torch.float64), batch.b)
    batch.codes = torch.where(good, codes.to(torch.int8), batch.codes)


def take_sets_from_cpu(
    batch: Batch, problems: Problems, rows: Rows, group: slice, which: Tensor
) -> None:
    """Codes of some problems (Q,) by the compiled solver, whose last stage is certain to end."""
    prefixes = rows.counts.shape[1]
    sets = which.view(-1, prefixes).any(1).nonzero()[:, 0] + group.start
    chosen = Problems(
        keys=problems.keys[sets].cpu(),
        gamma=problems.gamma[sets].cpu(),
        C=problems.C[sets].cpu(),
        ridge=problems.ridge,
        mask=None if problems.mask is None else problems.mask[sets].cpu(),
        lengths=problems.lengths,
        start=None,
    )
    found, _ = solve_batched(chosen)
    codes = torch.full((len(problems.keys), *found.codes.shape[1:]), MASKED, dtype=torch.int8)
    codes[sets.cpu()] = found.codes
    codes = rows.arranged(codes.to(which.device))[group].flatten(0, 1)
    batch.codes = torch.where(which[:, None], codes, batch.codes)
