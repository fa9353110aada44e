"""Which rows of the prefix a chunk may read, and with what weight.

A sequence is cut into chunks; the rows before a chunk are its prefix. :func:`prefix_rows` chooses
for every (sequence, head, chunk) some prefix rows and their weights, by the gate or by one of the
controls that the gate has to beat at the same number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .gate import Solver, sv_gate_prefixes
from .solve.problems import Gate

Choice = Literal["sv", "detached", "support", "uniform", "random", "recent"]
CHOICES: dict[Choice, str] = {
    "sv": "the gate",
    "detached": "the gate, without its gradient",
    "support": "the gate's support, each of its k rows at weight 1/k",
    "uniform": "all n rows at weight 1/n",
    "random": "as many rows as the support has, drawn at random, at weight 1/k",
    "recent": "as many of the last rows as the support has, at weight 1/k",
}
"""The choices and what they mean. All but "sv" and "detached" are controls."""


class PrefixRows(NamedTuple):
    """Rows that L chunks read, padded to the largest number s.

    Attributes
    ----------
    rows : int64 Tensor (B, H, L, s)
        Positions, anywhere in the padding.
    weights : Tensor (B, H, L, s)
        Positive; 1 where not real.
    real : bool Tensor (B, H, L, s)
        False in the padding.
    gate : Gate or None
        The solve behind it; None for "uniform".
    """

    rows: Tensor
    weights: Tensor
    real: Tensor
    gate: Gate | None

    @property
    def sizes(self) -> Tensor:
        """Number of rows read, (B, H, L)."""
        return self.real.sum(dim=-1)


def prefix_rows(
    k: Tensor,
    gamma: Tensor,
    C: Tensor,
    ridge: float,
    lengths: Sequence[int],
    choice: Choice,
    solver: Solver,
) -> PrefixRows:
    """Choose rows for every prefix.

    Parameters
    ----------
    k : Tensor (B, H, n, d)
        Keys.
    gamma, C : Tensor (H,)
        Contract of each head.
    ridge : float
    lengths : sequence of L int
        Rows in each prefix, increasing, at most n.
    choice : str
        One of :data:`CHOICES`.
    solver : str
        As in :func:`svmemory.torch.sv_gate`.
    """
    if choice == "uniform":
        return _everything(k, lengths)
    if choice == "sv":
        gate = sv_gate_prefixes(k, gamma, C, ridge, lengths=lengths, solver=solver)
        return _support(gate, gate.weights)
    with torch.no_grad():
        gate = sv_gate_prefixes(k, gamma, C, ridge, lengths=lengths, solver=solver)
        if choice == "detached":
            return _support(gate, gate.weights)
        size = carrying(gate).sum(dim=-1, keepdim=True)  # (B, H, L, 1)
        equal = size.clamp_min(1).to(gate.weights.dtype).reciprocal()
        if choice == "support":
            return _support(gate, equal.expand_as(gate.weights))
        widest = int(size.max())
        place = torch.arange(widest, device=k.device)
        end = torch.tensor(lengths, device=k.device)[:, None]
        if choice == "recent":
            rows = (end - 1 - place).clamp_min(0).expand(*size.shape[:-1], widest)
        else:
            lottery = torch.rand(gate.codes.shape, device=k.device)
            rows = lottery.masked_fill(gate.codes < 0, -1.0).topk(widest, dim=-1).indices
        real = place < size
        return PrefixRows(rows, torch.where(real, equal, 1.0), real, gate)


def carrying(gate: Gate) -> Tensor:
    """Rows whose weight is not 0 after rounding; all rows of a problem whose keys are not finite.

    A weight can be below what the type can hold though its row is on the margin, and the logarithm
    of 0 has no gradient. Not-a-number must come through.
    """
    return (gate.codes >= 0) & ~(gate.weights <= 0)


def _support(gate: Gate, weights: Tensor) -> PrefixRows:
    """The rows that have weight, in the order of their positions."""
    active = carrying(gate)
    widest = int(active.sum(dim=-1).max())
    # a stable sort brings the active rows to the front and keeps their order
    rows = active.to(torch.int8).sort(dim=-1, descending=True, stable=True).indices[..., :widest]
    real = active.gather(-1, rows)
    return PrefixRows(rows, torch.where(real, weights.gather(-1, rows), 1.0), real, gate)


def _everything(k: Tensor, lengths: Sequence[int]) -> PrefixRows:
    place = torch.arange(lengths[-1], device=k.device)
    end = torch.tensor(lengths, device=k.device)[:, None]
    shape = (*k.shape[:2], len(lengths), lengths[-1])
    real = (place < end).expand(shape)
    weights = torch.where(real, end.to(k.dtype).reciprocal(), 1.0)
    return PrefixRows(place.expand(shape), weights, real, None)
