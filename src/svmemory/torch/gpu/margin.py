"""The margins of many problems at once: their factors and their optimum, all in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..solve.problems import ERROR, MARGIN

_REFINEMENTS = 5  # of a margin's solution
_EXACT = 1e-14  # error of h, per unit of mass, at which no refinement is worth its time
_TOGETHER = 2**27  # entries of the matrices factored in one call


@dataclass
class Batch:
    """Q = P L problems, L prefixes of each of P sets, and how far they are.

    Attributes
    ----------
    kernel : float64 Tensor (P, N, N)
    ridge : float
    held : Tensor (Q,)
        Sum of the masses.
    b, h : Tensor (Q, N)
        Masses, and ``(K + ridge I) b``.
    codes : int8 Tensor (Q, N)
        -1 for rows that do not count; their mass is 0.
    mu : Tensor (Q,)
        Level of h on the margin, or its largest value on error rows where there is no margin.
    """

    kernel: Tensor
    ridge: float
    held: Tensor
    b: Tensor
    h: Tensor
    codes: Tensor
    mu: Tensor

    @property
    def prefixes(self) -> int:
        """L."""
        return len(self.b) // len(self.kernel)

    def multiply(self, x: Tensor) -> Tensor:
        """``(K + ridge I) x``, (Q, N): each kernel matrix is read once for all its prefixes."""
        product = torch.bmm(x.view(len(self.kernel), -1, x.shape[-1]), self.kernel)
        return product.view_as(x) + self.ridge * x


class Margins(NamedTuple):
    """Factored margins of k problems, padded to s rows.

    Attributes
    ----------
    problems : int64 Tensor (k,)
    rows : int64 Tensor (k, s)
    real : bool Tensor (k, s)
        False in the padding, where ``rows`` names rows outside the margin.
    factor : Tensor (k, s, s)
        Lower Cholesky factor of ``K_SS + ridge I``, the identity in the padding.
    ones : Tensor (k, s)
        ``(K_SS + ridge I)^-1 1``, zero in the padding.
    """

    problems: Tensor
    rows: Tensor
    real: Tensor
    factor: Tensor
    ones: Tensor

    @property
    def place(self) -> tuple[Tensor, Tensor]:
        """Index of the margins' rows in tensors (Q, N)."""
        return self.problems[:, None], self.rows

    def solve(self, x: Tensor) -> Tensor:
        """``(K_SS + ridge I)^-1 x`` for x (k, s); x must be zero in the padding."""
        return torch.cholesky_solve(x.unsqueeze(-1), self.factor).squeeze(-1)

    def some(self, keep: Tensor) -> Margins:
        """The problems where ``keep`` (k,) is True."""
        return Margins(*(x[keep] for x in self))


def margins(batch: Batch, index: Tensor) -> list[Margins]:
    """Factor the margins of some problems (k,); an empty margin is in none of the answers."""
    found = []
    for part, s in _alike(index, (batch.codes[index] == MARGIN).sum(1)):
        margin = batch.codes[part] == MARGIN
        # a stable sort brings the margin to the front; what follows pads it
        rows = margin.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :s]
        real = margin.gather(1, rows)
        sets = part // batch.prefixes
        matrix = batch.kernel[sets[:, None, None], rows[:, :, None], rows[:, None, :]]
        matrix = matrix * (real[:, :, None] & real[:, None, :])
        diagonal = matrix.diagonal(dim1=1, dim2=2)
        one = real.to(matrix.dtype)
        diagonal += torch.where(real, torch.full_like(one, batch.ridge), 1.0)
        factor, _ = torch.linalg.cholesky_ex(matrix)
        ones = torch.cholesky_solve(one.unsqueeze(-1), factor).squeeze(-1)
        found.append(Margins(part, rows, real, factor, ones))
    return found


def _alike(index: Tensor, sizes: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Problems with margins of similar size, and the largest: little padding, bounded memory."""
    sizes, order = sizes.sort(descending=True)
    index = index[order]
    plain = sizes.tolist()
    first = 0
    while first < len(plain) and plain[first]:
        s = plain[first]
        end = first
        while (
            end < len(plain)
            and 2 * plain[end] >= s
            and plain[end]
            and (end == first or (end - first + 1) * s * s <= _TOGETHER)
        ):
            end += 1
        yield index[first:end], s
        first = end


def optimum(batch: Batch, parts: list[Margins]) -> None:
    """Minimise over the margins with all other rows held, box ignored; update h and mu.

    Iterative refinement, as in :func:`svmemory.torch.solve.activeset.margin_optimum`.
    """
    last = torch.full_like(batch.mu, torch.inf)
    for turn in range(_REFINEMENTS + 1):
        batch.h = batch.multiply(batch.b)
        largest = torch.where(batch.codes == ERROR, batch.h, -torch.inf).amax(1)
        batch.mu = torch.where((batch.codes == MARGIN).any(1), batch.mu, largest)
        short = batch.held - batch.b.sum(1)
        steps = []
        for part in parts:
            h = batch.h[part.place]
            mu = (h * part.real).sum(1) / part.real.sum(1)
            batch.mu[part.problems] = mu
            x = torch.where(part.real, h - mu[:, None], 0.0)
            missing = short[part.problems]
            error = torch.maximum(x.abs().amax(1), missing.abs())
            held, before = batch.held[part.problems], last[part.problems]
            going = (error > _EXACT * held) & (error < 0.5 * before)
            last[part.problems] = torch.where(going, error, 0.0)  # once at rest, always at rest
            steps.append((part, x, missing, going))
        if turn == _REFINEMENTS or not any(bool(going.any()) for *_, going in steps):
            return
        for part, x, missing, going in steps:
            y = part.solve(x)
            shift = (missing + y.sum(1)) / part.ones.sum(1)
            step = shift[:, None] * part.ones - y
            batch.b[part.place] += torch.where(part.real & going[:, None], step, 0.0)
