"""What goes into a solver and what comes out: flat batches of problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...contract import MASS_BITS

RESERVE, MARGIN, ERROR, MASKED = 0, 1, 2, -1
"""Values of :attr:`Gate.codes`."""

OPTIMAL, WARMUP, EMPTY, NOT_CONVERGED = 0, 1, 2, 3
"""Values of :attr:`Gate.status`."""


class Problems(NamedTuple):
    """P sets of n rows; each is solved on L of its prefixes.

    Attributes
    ----------
    keys : Tensor (P, n, d)
    gamma, C : float64 Tensor (P,)
    ridge : float
    mask : bool Tensor (P, n) or None
        True where a row counts.
    lengths : tuple of L int
        Prefixes, in increasing order.
    start : Tensor (P, n) or None
        Weights to start the first prefix from.
    """

    keys: Tensor
    gamma: Tensor
    C: Tensor
    ridge: float
    mask: Tensor | None
    lengths: tuple[int, ...]
    start: Tensor | None

    @property
    def mass(self) -> Tensor:
        """``m = 1/C`` on the grid of :class:`svmemory.Contract`, whose optimum this must be."""
        return torch.round(2.0**MASS_BITS / self.C.detach()) / 2.0**MASS_BITS

    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gamma and mass (P,) for compiled code."""
        return self.gamma.detach().cpu().numpy(), self.mass.cpu().numpy()


class Solved(NamedTuple):
    """Answers of P sets on L prefixes.

    Attributes
    ----------
    weights : Tensor (P, L, n)
    offset : Tensor (P, L)
    codes : int8 Tensor (P, L, n)
        0 reserve, 1 margin, 2 error, -1 for rows that do not count.
    residual : Tensor (P, L)
    status : int8 Tensor (P, L)
        0 optimal, 1 warmup, 2 empty, 3 not converged.
    """

    weights: Tensor
    offset: Tensor
    codes: Tensor
    residual: Tensor
    status: Tensor


def counted(problems: Problems, problem: int, length: int) -> Tensor:
    """Indices of the rows that count in one prefix of one problem."""
    rows = torch.arange(length, device=problems.keys.device)
    if problems.mask is not None:
        rows = rows[problems.mask[problem, :length]]
    return rows


class Gate(NamedTuple):
    """Weights of a batch of problems, and how far to trust them.

    Attributes
    ----------
    weights : Tensor (..., n)
        ``a``: sum 1, zero where masked. float64 for float64 keys, else float32 (bfloat16 has too
        few digits for a sum of one). NaN where keys are not finite.
    offset : Tensor (...)
        ``rho = 1 + ridge - 2 mu / m'``, same type; 0 where there are no rows.
    codes : int8 Tensor (..., n)
        0 reserve, 1 margin, 2 error, -1 masked.
    kkt_residual : Tensor (...)
        Largest violation of the optimality conditions in gate-score units; infinite where keys are
        not finite.
    status : int8 Tensor (...)
        0 optimal, 1 warmup (n <= 1/C: every weight 1/n), 2 empty (no rows), 3 not converged.
    """

    weights: Tensor
    offset: Tensor
    codes: Tensor
    kkt_residual: Tensor
    status: Tensor


def as_gate(solved: Solved, keys: Tensor, batch: tuple[int, ...]) -> Gate:
    """Answers in the caller's shape (..., n) and type."""
    n = solved.weights.shape[-1]
    kind = torch.float64 if keys.dtype == torch.float64 else torch.float32
    return Gate(
        weights=solved.weights.to(kind).reshape(*batch, n),
        offset=solved.offset.to(kind).reshape(batch),
        codes=solved.codes.reshape(*batch, n),
        kkt_residual=solved.residual.to(kind).reshape(batch),
        status=solved.status.reshape(batch),
    )


def no_answer(n: int, status: int, device: torch.device) -> Solved:
    """The answer where there are no rows (EMPTY), or n rows and no optimum (NOT_CONVERGED)."""
    empty = status == EMPTY
    weights = torch.full((n,), torch.nan, dtype=torch.float64, device=device)
    return Solved(
        weights=weights,
        offset=weights.new_full((), 0.0 if empty else torch.nan),
        codes=torch.full((n,), RESERVE, dtype=torch.int8, device=device),
        residual=weights.new_full((), 0.0 if empty else torch.inf),
        status=torch.tensor(status, dtype=torch.int8, device=device),
    )


def embed(answer: Solved, rows: Tensor, n: int) -> Solved:
    """The answer of some rows among all n rows."""
    codes = torch.full((n,), MASKED, dtype=torch.int8, device=rows.device)
    codes[rows] = answer.codes
    weights = answer.weights.new_zeros(n).index_put((rows,), answer.weights)
    return answer._replace(weights=weights, codes=codes)


def stacked(answers: Sequence[Solved], problems: Problems) -> Solved:
    """One answer per problem and prefix, in that order, as (P, L, ...) tensors."""
    count, n, _ = problems.keys.shape
    shape = (count, len(problems.lengths))
    if not answers:  # a batch of no problems
        none = torch.zeros(shape, dtype=torch.float64, device=problems.keys.device)
        rows = none.unsqueeze(-1).expand(*shape, n)
        return Solved(rows, none, rows.to(torch.int8), none, none.to(torch.int8))
    weights, offset, codes, residual, status = (torch.stack(x) for x in zip(*answers, strict=True))
    return Solved(
        weights=weights.reshape(*shape, n),
        offset=offset.reshape(shape),
        codes=codes.reshape(*shape, n),
        residual=residual.reshape(shape),
        status=status.reshape(shape),
    )
