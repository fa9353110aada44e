"""Softmax attention, over everything before and over a sliding window."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ...errors import InputError
from ..checks import whole
from ..heads import MultiHead, in_chunks, padded_to


class SoftmaxAttention(MultiHead):
    """Causal softmax attention through PyTorch's fused kernel (SDPA)."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        q, k, v = self.queries_keys_values(x)
        read = scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropping)
        return self.merged(read)


class WindowAttention(MultiHead):
    """Causal softmax attention over the last ``window`` positions, the present one included.

    Queries are taken in blocks of the window's length; a block sees itself and the one before, so
    the cost grows with T times the window.

    Parameters
    ----------
    embed_dim, num_heads, dropout, bias
        As in :class:`svmemory.torch.heads.MultiHead`.
    window : int
        Positions seen, >= 1.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        window: int = 128,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias)
        whole("window", window)
        if window < 1:
            raise InputError(f"window must be at least 1, got {window}")
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        q, k, v = self.queries_keys_values(x)
        return self.merged(window_attention(q, k, v, self.window, self.dropping))


def window_attention(q: Tensor, k: Tensor, v: Tensor, window: int, dropout: float = 0.0) -> Tensor:
    """Softmax over the last ``window`` keys of each query.

    Parameters
    ----------
    q, k, v : (B, H, T, d)
    window : int
    dropout : float

    Returns
    -------
    (B, H, T, d)
    """
    length = q.shape[-2]
    if window >= length:
        return scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
    q, k, v = (padded_to(x, window) for x in (q, k, v))
    blocks = q.shape[-2] // window
    q, k, v = (in_chunks(x, window) for x in (q, k, v))  # (B, H, N, w, d)
    k, v = (torch.cat([pad(x, (0, 0, 0, 0, 1, 0))[..., :-1, :, :], x], dim=-2) for x in (k, v))
    i = torch.arange(window, device=q.device)[:, None]
    j = torch.arange(2 * window, device=q.device)[None, :] - window  # position in this block
    seen = (j <= i) & (j > i - window)
    first = torch.arange(blocks, device=q.device)[:, None, None] == 0
    seen = seen & ~(first & (j < 0))  # (N, w, 2w): nothing lies before the first block
    read = scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=dropout)
    return read.flatten(-3, -2)[..., :length, :]
