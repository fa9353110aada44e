"""A selective state-space layer in the form of Mamba-2 (Dao and Gu 2024), in plain PyTorch.

    S_t = exp(-delta_t A) S_{t-1} + delta_t B_t u_t',        y_t = S_t' C_t + D u_t

for each head a state of N x d numbers; the step sizes delta, what is written (B) and what is read
(C) depend on the input. Within a chunk this is a product with decayed weights
``exp(-A (delta_{s+1} + ... + delta_t)) C_t . B_s``, whose exponents are never positive; the state
is carried from chunk to chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad, silu, softplus

from ...errors import InputError
from ..checks import whole
from ..heads import MultiHead, in_chunks, padded_to


class SelectiveSSM(MultiHead):
    """Causal selective state-space layer.

    The input passes a short convolution (four positions) and a SiLU; what is read passes an RMS
    norm after a gate. Parameters as in :class:`svmemory.torch.heads.MultiHead`; ``dropout`` must be
    0.

    Parameters
    ----------
    state : int, default 32
        Rows N of a head's state.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        state: int = 32,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias)
        self.refuse_dropout()
        whole("state", state)
        if state < 1:
            raise InputError(f"state must be at least 1, got {state}")
        self.state = state
        del self.to_qkv
        self.sizes = [embed_dim, embed_dim, state, state, num_heads]
        self.to_input = nn.Linear(embed_dim, sum(self.sizes), bias=bias)
        self.taps = nn.Parameter(torch.empty(embed_dim + 2 * state, 1, 4).uniform_(-0.5, 0.5))
        self.log_decay = nn.Parameter(torch.linspace(1.0, 16.0, num_heads).log())
        self.delta_bias = nn.Parameter(torch.empty(num_heads))
        self.skip = nn.Parameter(torch.ones(num_heads))
        self.norm = nn.RMSNorm(embed_dim, eps=1e-5)
        with torch.no_grad():  # steps from 0.001 to 0.1, through the inverse of softplus
            self.delta_bias.copy_(torch.logspace(-3, -1, num_heads).expm1().log())

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        self.check_features("x", x)
        gate, u, write, read, delta = torch.split(self.to_input(x), self.sizes, dim=-1)
        mixed = torch.cat([u, write, read], dim=-1).transpose(1, 2)
        mixed = silu(conv1d(pad(mixed, (3, 0)), self.taps, groups=mixed.shape[1])).transpose(1, 2)
        u, write, read = torch.split(mixed, [self.embed_dim, self.state, self.state], dim=-1)
        u = self.split_heads(u)  # (B, H, T, d)
        delta = softplus(delta + self.delta_bias).transpose(1, 2)  # (B, H, T)
        y = selective_scan(u, delta, self.log_decay.exp(), write, read)
        y = y + self.skip.view(-1, 1, 1) * u
        out: Tensor = self.to_out(self.norm(y.transpose(1, 2).flatten(-2) * silu(gate)))
        return out


def selective_scan(
    u: Tensor, delta: Tensor, decay: Tensor, write: Tensor, read: Tensor, chunk: int = 64
) -> Tensor:
    """Chunked form.

    Parameters
    ----------
    u : (B, H, T, d)
    delta : (B, H, T)
        Step sizes, > 0.
    decay : (H,)
        A, > 0.
    write, read : (B, T, N)
        B_t and C_t, the same for all heads.
    chunk : int

    Returns
    -------
    (B, H, T, d)
    """
    length = u.shape[2]
    u, write, read = (in_chunks(padded_to(x, chunk), chunk) for x in (u, write, read))
    delta = in_chunks(padded_to(delta[..., None], chunk), chunk)[..., 0]  # (B, H, M, c)
    # padded positions have delta 0: they neither decay nor write
    sums = (delta * decay.view(-1, 1, 1)).cumsum(dim=-1)
    driven = delta[..., None] * u  # (B, H, M, c, d)
    write, read = write[:, None], read[:, None]  # (B, 1, M, c, N)
    later = torch.ones(chunk, chunk, dtype=torch.bool, device=u.device).triu(1)
    gap = (sums[..., None, :] - sums[..., :, None]).masked_fill(later, -torch.inf)
    out = (gap.exp() * (read @ write.transpose(-1, -2))) @ driven
    to_end = (sums - sums[..., -1:]).exp()[..., None]
    added = write.transpose(-1, -2) @ (to_end * driven)  # (B, H, M, N, d)
    whole = (-sums[..., -1]).exp()[..., None, None]
    state = torch.zeros_like(added[:, :, 0])
    before = []
    for m in range(added.shape[2]):
        before.append(state)
        state = whole[:, :, m] * state + added[:, :, m]
    out = out + (-sums).exp()[..., None] * (read @ torch.stack(before, dim=2))
    return out.flatten(2, 3)[:, :, :length]


def selective_scan_recurrent(
    u: Tensor, delta: Tensor, decay: Tensor, write: Tensor, read: Tensor
) -> Tensor:
    """The recurrence, one position at a time: the twin the chunked form is tested against."""
    state = u.new_zeros(*u.shape[:2], write.shape[-1], u.shape[-1])
    out = []
    for t in range(u.shape[2]):
        step = delta[:, :, t, None, None]
        written = write[:, None, t, :, None] * u[:, :, t, None]
        state = (-step * decay.view(-1, 1, 1)).exp() * state + step * written
        out.append((read[:, None, t, None] @ state).squeeze(-2))
    return torch.stack(out, dim=2)
