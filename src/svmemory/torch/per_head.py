"""A positive number a head, learned within bounds: kernel width or cap."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..errors import ContractError
from .settled import Settled

GAMMA_SPAN = 16.0
"""A learned width stays within a factor of 16 of where it started, either way."""

CAP_SPAN = 4.0
"""A learned cap stays within a factor of 4."""


_LEAST, _LARGEST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


class PerHead(Settled):
    """``start * span ** tanh(p)`` with one parameter p a head, 0 at first.

    Parameters
    ----------
    name : str
        For messages.
    num_heads : int
    start : float
        Where every head starts, > 0.
    span : float
        Largest factor between a head's number and ``start``.
    learned : bool
        False: p is a buffer and stays 0.

    Raises
    ------
    ContractError
        If ``start`` is not a positive number, or its bounds are beyond float32.
    """

    log_ratio: Tensor

    def __init__(self, name: str, num_heads: int, start: float, span: float, learned: bool) -> None:
        super().__init__()
        try:
            start = float(start)
        except (TypeError, ValueError):
            raise ContractError(f"{name} must be a number, got {start!r}") from None
        if not (start > 0 and math.isfinite(start)):
            raise ContractError(f"{name} must be > 0, got {start}")
        widest = span if learned else 1.0
        if start * widest > _LARGEST or start / widest < _LEAST:
            raise ContractError(
                f"{name} must be from {_LEAST * widest:.3g} to {_LARGEST / widest:.3g}, got {start}"
            )
        self.name = name
        self.start = start
        self.span = span
        zeros = torch.zeros(num_heads)
        if learned:
            self.log_ratio = nn.Parameter(zeros)
        else:
            self.register_buffer("log_ratio", zeros)

    def forward(self) -> Tensor:
        """The numbers (H,)."""
        return self.start * torch.exp(math.log(self.span) * self.log_ratio.tanh())

    def settings(self) -> dict[str, float]:
        """Where the number starts: a stored p is a ratio to it."""
        return {self.name: self.start}

    def extra_repr(self) -> str:
        """Bounds, for ``print(layer)``."""
        return f"from {self.start / self.span:g} to {self.start * self.span:g}"
