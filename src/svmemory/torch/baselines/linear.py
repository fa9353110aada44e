"""Linear attention (Katharopoulos et al. 2020): a kernel that factors, so its state has fixed size.

``o_t = phi(q_t)' S_t / phi(q_t)' z_t`` with ``S_t = sum phi(k_i) v_i'`` and ``z_t = sum phi(k_i)``
over i <= t, and ``phi(x) = elu(x) + 1``. The chunked form carries S and z from chunk to chunk and
uses the quadratic form within a chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import elu

from ..heads import MultiHead, in_chunks, padded_to

_LEAST = 1e-6  # the weights of a query are positive; this only keeps a division by zero out


class LinearAttention(MultiHead):
    """Causal linear attention.

    Parameters as in :class:`svmemory.torch.heads.MultiHead`; ``dropout`` must be 0, because single
    attention weights are never formed.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias)
        self.refuse_dropout()

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        q, k, v = self.queries_keys_values(x)
        return self.merged(linear_attention(q, k, v))


def linear_attention(q: Tensor, k: Tensor, v: Tensor, chunk: int = 64) -> Tensor:
    """Chunked form; q, k, v and the result (B, H, T, d)."""
    length = q.shape[-2]
    q, k = elu(q) + 1.0, elu(k) + 1.0
    q, k, v = (padded_to(x, chunk) for x in (q, k, v))
    k = k * (torch.arange(k.shape[-2], device=k.device) < length)[:, None]
    v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)  # the last column sums the weights
    q, k, v = (in_chunks(x, chunk) for x in (q, k, v))  # (B, H, N, c, d)
    added = k.transpose(-1, -2) @ v  # (B, H, N, d, d + 1)
    before = added.cumsum(dim=-3) - added
    read = q @ before + (q @ k.transpose(-1, -2)).tril() @ v
    read = read.flatten(-3, -2)[..., :length, :]
    return read[..., :-1] / (read[..., -1:] + _LEAST)


def linear_attention_quadratic(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same as one (T, T) matrix of weights: the twin the chunked form is tested against."""
    weights = ((elu(q) + 1.0) @ (elu(k) + 1.0).transpose(-1, -2)).tril()
    return weights @ v / (weights.sum(dim=-1, keepdim=True) + _LEAST)
