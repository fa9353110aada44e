"""What every attention layer here shares: projections to heads and back.

All layers map (B, T, D) to (B, T, D), B sequences of T positions with D features, and take
``embed_dim`` and ``num_heads`` first, so that one can stand in for another.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import InputError
from .checks import check_tensor, whole


class MultiHead(nn.Module):
    """Base of layers with H heads of d = D / H features.

    Parameters
    ----------
    embed_dim, num_heads : int
        D and H; H divides D.
    dropout : float, default 0
        Probability with which an attention weight is dropped in training.
    bias : bool, default False
        Whether the projections add a bias.

    Raises
    ------
    InputError
        If the numbers do not fit.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__()
        whole("embed_dim", embed_dim)
        whole("num_heads", num_heads)
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise InputError(f"num_heads must divide embed_dim, got {num_heads} and {embed_dim}")
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout must be in [0, 1), got {dropout}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.to_qkv = nn.Linear(embed_dim, 3 * embed_dim, bias=bias)
        self.to_out = nn.Linear(embed_dim, embed_dim, bias=bias)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Three tensors (B, H, T, d) from x (B, T, D)."""
        self.check_features("x", x)
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        return self.split_heads(q), self.split_heads(k), self.split_heads(v)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, H, T, d)."""
        return x.reshape(*x.shape[:-1], self.num_heads, self.head_dim).transpose(1, 2)

    def merged(self, x: Tensor) -> Tensor:
        """(B, H, T, d) through the output projection to (B, T, D)."""
        out: Tensor = self.to_out(x.transpose(1, 2).flatten(-2))
        return out

    def check_features(self, name: str, x: Tensor) -> None:
        """InputError unless x has shape (B, T, D) and is floating point."""
        check_tensor(name, x)
        if x.dim() != 3 or x.shape[-1] != self.embed_dim:
            raise InputError(
                f"{name} must have shape (B, T, {self.embed_dim}), got {tuple(x.shape)}"
            )
        if not x.dtype.is_floating_point:
            raise InputError(f"{name} must be floating point, got {x.dtype}")

    def refuse_dropout(self) -> None:
        """For layers that form no attention weights: InputError unless ``dropout`` is 0."""
        if self.dropout:
            raise InputError(
                f"{type(self).__name__} has no attention weights to drop: dropout must be 0"
            )

    @property
    def dropping(self) -> float:
        """Dropout probability that applies now."""
        return self.dropout if self.training else 0.0

    def extra_repr(self) -> str:
        """Sizes, for ``print(layer)``."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout:g}"


def padded_to(x: Tensor, multiple: int) -> Tensor:
    """Zero rows at the end of x (..., T, d), so that T is a whole number of ``multiple``."""
    short = -x.shape[-2] % multiple
    return torch.nn.functional.pad(x, (0, 0, 0, short)) if short else x


def in_chunks(x: Tensor, size: int) -> Tensor:
    """View x (..., T, d), T a whole number of ``size``, as (..., T / size, size, d)."""
    return x.reshape(*x.shape[:-2], x.shape[-2] // size, size, x.shape[-1])
