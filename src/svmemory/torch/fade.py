"""Recency beside support: a row's weight falls with its age, by a power that each head learns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

POWER = 0.5
"""Power of every head before anything is learned."""


class Fade(nn.Module):
    """Weight a becomes ``a t^-f`` at age t, with a power f a head of either sign.

    A power rather than a rate, so that it means the same whatever the length of the past.

    Parameters
    ----------
    num_heads : int
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.full((num_heads,), POWER))

    def forward(self, ages: Tensor) -> Tensor:
        """``log t^-f`` at ages t (B, H, ...) in positions; 1 is the youngest."""
        power = self.power.view(-1, *[1] * (ages.dim() - 2))
        # the logarithm first: an age may be more than a short type can hold
        return -power * ages.clamp_min(1).double().log().to(power.dtype)
