"""One softmax that serves memory rows and local rows, in the two forms of the read.

With weight a_i on key k_i, a query reads ``softmax(logit_i + log a_i)``; local rows have weight 1.

- dot: ``logit_i = q.k_i / sqrt(d)``.
- gaussian: ``logit_i = -gamma |q - k_i|^2 = 2 gamma q.k_i - gamma |k_i|^2 + const``.
- mix: a share of each, learned a head.

In all three a logit is a scaled product plus a number that depends on the key alone, so that one
attention with a bias a key computes any of them.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import pad

from ..errors import InputError

Form = Literal["dot", "gaussian", "mix"]
FORMS: tuple[Form, ...] = ("dot", "gaussian", "mix")


class Readout(nn.Module):
    """Scale of the products and bias of the keys.

    Parameters
    ----------
    num_heads, head_dim : int
    form : {"dot", "gaussian", "mix"}
    """

    def __init__(self, num_heads: int, head_dim: int, form: Form) -> None:
        super().__init__()
        if form not in FORMS:
            raise InputError(f"readout must be one of {', '.join(FORMS)}, got {form!r}")
        self.form = form
        self.dot_scale = 1.0 / math.sqrt(head_dim)
        if form == "mix":
            self.share_logit = nn.Parameter(torch.zeros(num_heads))

    def forward(self, gamma: Tensor) -> tuple[Tensor, Tensor]:
        """Scale s and norm coefficient c (H,): a logit is ``s q.k - c |k|^2``."""
        if self.form == "dot":
            return torch.full_like(gamma, self.dot_scale), torch.zeros_like(gamma)
        if self.form == "gaussian":
            return 2.0 * gamma, gamma
        share = self.share_logit.sigmoid()
        return (1.0 - share) * self.dot_scale + 2.0 * share * gamma, share * gamma

    def key_bias(self, k: Tensor, coefficient: Tensor) -> Tensor:
        """Bias of keys k (B, H, ..., n, d) under c (H,) of :meth:`forward`; (B, H, ..., n)."""
        if self.form == "dot":  # c is 0, and 0 times a norm that overflows would be NaN
            return k.new_zeros(k.shape[:-1])
        return key_bias(k, coefficient)


def key_bias(k: Tensor, coefficient: Tensor) -> Tensor:
    """``-c |k|^2``: k (B, H, ..., n, d) and c (H,) to (B, H, ..., n)."""
    heads = coefficient.view(-1, *[1] * (k.dim() - 3))
    return -heads * k.square().sum(dim=-1)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Tensor,
    bias: Tensor,
    hidden: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Softmax of ``scale q.k + bias`` over keys, applied to values.

    Written as two products and a softmax: for short rows this is as fast on a CPU as a fused
    kernel, and unlike one it passes gradients to the bias.

    Parameters
    ----------
    q : (B, H, ..., t, d)
    k, v : (B, H, ..., n, d)
    scale : (H,)
    bias : (B, H, ..., n)
        Of each key; minus infinity where there is none.
    hidden : bool, broadcastable to (B, H, ..., t, n), optional
        True where a query must not look. Every query must be left a key.
    dropout : float

    Returns
    -------
    (B, H, ..., t, d)
    """
    q = q * scale.view(-1, *[1] * (q.dim() - 2))
    shape = (*q.shape[:-1], k.shape[-2])
    products = torch.baddbmm(bias.flatten(0, -2)[:, None], q.flatten(0, -3), k.flatten(0, -3).mT)
    logits = products.view(shape)
    if hidden is not None:  # written over, not added: a product may be infinite
        with torch.no_grad():  # what is hidden gets weight 0, and with it gradient 0
            logits.masked_fill_(hidden, -torch.inf)
    weights = logits.softmax(dim=-1)
    if dropout:
        weights = drop(weights, dropout)
    return weights @ v


def attend_beside_broken(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Tensor,
    bias: Tensor,
    hidden: Tensor,
    dropout: float = 0.0,
) -> Tensor:
    """:func:`attend` where rows are not finite: queries that see them read NaN, no others.

    The others get the bits that they would get if those rows were finite. Rows that are absent
    must be hidden as well.
    """
    broken = ~(k.isfinite().all(-1) & v.isfinite().all(-1)) | bias.isnan()
    lost = ~q.isfinite().all(-1)
    # a weight of 0 does not keep NaN out of a product, so what is not finite must not enter one
    k, v = (x.masked_fill(broken.unsqueeze(-1), 0.0) for x in (k, v))
    q = q.masked_fill(lost.unsqueeze(-1), 0.0)
    read = attend(q, k, v, scale, bias.masked_fill(broken, 0.0), hidden, dropout)
    lost = lost | (broken.unsqueeze(-2) & ~hidden).any(-1)
    return read.masked_fill(lost.unsqueeze(-1), torch.nan)


def later_rows(t: int, memory: int, device: torch.device) -> Tensor:
    """True where a key is later than the query; (t, memory + t), the local rows last."""
    return pad(torch.ones(t, t, dtype=torch.bool, device=device).triu(1), (memory, 0))


def gaussian_queries_keys(
    q: Tensor, k: Tensor, v: Tensor, gamma: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, one feature wider, whose plain products are Gaussian logits.

    For a fused softmax kernel with scale 1, which knows no bias: the added feature of a query is 1,
    that of a key ``-gamma |k|^2``, that of a value 0.

    Parameters
    ----------
    q, k, v : (B, H, T, d)
    gamma : (H,)
    """
    q = torch.cat([2.0 * gamma.view(-1, 1, 1) * q, torch.ones_like(q[..., :1])], dim=-1)
    k = torch.cat([k, key_bias(k, gamma)[..., None]], dim=-1)
    return q, k, pad(v, (0, 1))
