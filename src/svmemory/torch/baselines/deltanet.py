"""DeltaNet: a matrix memory written by the delta rule (Schlag et al. 2021; Yang et al. 2024).

    S_t = S_{t-1} + beta_t k_t (v_t - S_{t-1}' k_t)',        o_t = S_t' q_t

with keys and queries of norm 1 and beta in (0, 1). The chunked form writes the c corrections of a
chunk as ``U = T (V - K S)`` with ``T = (I + tril(diag(beta) K K', -1))^-1 diag(beta)``, so that all
but one small triangular solve a chunk is matrix products.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..heads import MultiHead, in_chunks, padded_to


class DeltaNet(MultiHead):
    """Causal layer with one delta-rule memory a head.

    Queries and keys pass a SiLU and are scaled to norm 1; the strength beta of each write is a
    sigmoid of the input; what a head reads is scaled to root mean square 1 (RMS norm). Parameters
    as in :class:`svmemory.torch.heads.MultiHead`; ``dropout`` must be 0.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias)
        self.refuse_dropout()
        self.to_beta = nn.Linear(embed_dim, num_heads, bias=True)
        self.norm = nn.RMSNorm(self.head_dim, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        q, k, v = self.queries_keys_values(x)
        silu = nn.functional.silu
        q, k = normalize(silu(q), dim=-1, eps=1e-6), normalize(silu(k), dim=-1, eps=1e-6)
        beta = self.to_beta(x).sigmoid().transpose(1, 2)  # (B, H, T)
        return self.merged(self.norm(delta_rule(q, k, v, beta)))


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, chunk: int = 64) -> Tensor:
    """Chunked form.

    Parameters
    ----------
    q, k, v : (B, H, T, d)
    beta : (B, H, T)
    chunk : int

    Returns
    -------
    (B, H, T, d)
    """
    length = q.shape[-2]
    q, k, v, strength = (padded_to(x, chunk) for x in (q, k, v, beta[..., None]))
    q, k, v, strength = (in_chunks(x, chunk) for x in (q, k, v, strength))
    weak = strength * k
    system = torch.eye(chunk, dtype=q.dtype, device=q.device)
    system = system + (weak @ k.transpose(-1, -2)).tril(-1)  # (B, H, N, c, c)
    solved = torch.linalg.solve_triangular(
        system, torch.cat([weak, strength * v], dim=-1), upper=False, unitriangular=True
    )
    erase, write = solved.split([k.shape[-1], v.shape[-1]], dim=-1)  # (B, H, N, c, d)
    within = (q @ k.transpose(-1, -2)).tril()
    state = q.new_zeros(*q.shape[:2], k.shape[-1], v.shape[-1])
    out = []
    for n in range(q.shape[2]):
        change = write[:, :, n] - erase[:, :, n] @ state
        out.append(q[:, :, n] @ state + within[:, :, n] @ change)
        state = state + k[:, :, n].transpose(-1, -2) @ change
    return torch.cat(out, dim=-2)[..., :length, :]


def delta_rule_recurrent(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """The recurrence, one position at a time: the twin the chunked form is tested against."""
    state = q.new_zeros(*q.shape[:2], k.shape[-1], v.shape[-1])
    out = []
    for t in range(q.shape[-2]):
        key, value = k[:, :, t, :, None], v[:, :, t, None, :]
        error = value - key.transpose(-1, -2) @ state
        state = state + beta[:, :, t, None, None] * key @ error
        out.append((q[:, :, t, None, :] @ state).squeeze(-2))
    return torch.stack(out, dim=-2)
