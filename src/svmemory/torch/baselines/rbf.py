"""Gaussian readout without a gate: softmax of ``-gamma |q - k|^2`` over everything before."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..heads import MultiHead
from ..per_head import GAMMA_SPAN, PerHead
from ..readout import gaussian_queries_keys


class RBFAttention(MultiHead):
    """Causal Gaussian readout with a learned width a head, every weight equal.

    Parameters
    ----------
    embed_dim, num_heads, dropout, bias
        As in :class:`svmemory.torch.heads.MultiHead`.
    gamma : float, default 0.25
        Where the widths start; a head's own stays within a factor of 16.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        gamma: float = 0.25,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias)
        self.gamma = PerHead("gamma", num_heads, gamma, GAMMA_SPAN, learned=True)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        q, k, v = self.queries_keys_values(x)
        q, k, v = gaussian_queries_keys(q, k, v, self.gamma())
        read = scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropping, scale=1.0
        )
        return self.merged(read[..., : self.head_dim])
