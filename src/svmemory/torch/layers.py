"""The layers: a gated memory over a context, and the causal hybrid of memory and local softmax."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..contract import Contract
from ..errors import InputError
from .checks import check_ridge, check_solver
from .gate import Gate, Solver, sv_gate
from .heads import MultiHead
from .hybrid import GateFacts, HybridSVAttention
from .per_head import GAMMA_SPAN, PerHead
from .prefix import carrying
from .readout import Form, Readout, attend
from .settled import Settled

__all__ = ["GateFacts", "HybridSVAttention", "SVAttention"]


class SVAttention(MultiHead, Settled):
    """A gated memory over a context: every query reads all rows that have weight. Not causal.

    Parameters
    ----------
    embed_dim, num_heads, dropout, bias
        As in :class:`svmemory.torch.heads.MultiHead`.
    C, ridge, gamma, learn_gamma, solver
        As in :class:`HybridSVAttention`.
    readout : {"gaussian", "dot", "mix"}
        Form of the logits. With "gaussian" the layer reads what
        :meth:`svmemory.SupportVectorMemory.read` reads.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        C: float = 0.25,
        ridge: float = 1e-3,
        gamma: float = 0.25,
        readout: Form = "gaussian",
        learn_gamma: bool = True,
        solver: Solver = "batched",
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias)
        self.ridge = check_ridge(ridge)
        check_solver(solver)
        Contract.from_cap(gamma, C, self.ridge)  # checks the numbers
        self.gamma = PerHead("gamma", num_heads, gamma, GAMMA_SPAN, learn_gamma)
        self.cap = float(C)
        self.readout = Readout(num_heads, self.head_dim, readout)
        self.solver: Solver = solver

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Read a context.

        Parameters
        ----------
        x : Tensor (B, T, D)
            What asks.
        context : Tensor (B, n, D), optional
            What is remembered; ``x`` itself by default.
        mask : bool Tensor (B, n), optional
            True where a row of the context counts.

        Returns
        -------
        Tensor (B, T, D)
            A sequence whose context has no rows reads zeros.
        """
        q, k, v = self._project(x, x if context is None else context)
        gate = self.solve(k, mask)
        scale, norm = self.readout(self.gamma())
        active = carrying(gate)
        # a masked row may hold anything, and 0 * NaN is NaN
        k, v = (torch.where(active[..., None], rows, 0.0) for rows in (k, v))
        log_weights = torch.where(active, gate.weights, 1.0).log().to(q.dtype)
        some = active.any(dim=-1, keepdim=True)
        # the softmax of no rows at all is NaN, and so is its gradient
        bias = torch.where(active | ~some, log_weights + self.readout.key_bias(k, norm), -torch.inf)
        read = attend(q, k, v, scale, bias, dropout=self.dropping)
        return self.merged(torch.where(some[..., None], read, 0.0))

    def solve(self, k: Tensor, mask: Tensor | None = None) -> Gate:
        """The gate of keys k (B, H, n, d)."""
        counts = None
        if mask is not None:
            b, _, n, _ = k.shape
            if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (b, n):
                raise InputError(f"mask must be a boolean tensor of shape ({b}, {n})")
            counts = mask[:, None].expand(k.shape[:-1])
        return sv_gate(k, self.gamma(), self.cap, self.ridge, counts, solver=self.solver)

    def contracts(self) -> list[Contract]:
        """The contract of each head."""
        return [Contract.from_cap(g, self.cap, self.ridge) for g in self.gamma().tolist()]

    def settings(self) -> dict[str, float]:
        """What the weights were learned under, beside the width."""
        return {"C": self.cap, "ridge": self.ridge}

    def _project(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if context is x:
            return self.queries_keys_values(x)
        self.check_features("x", x)
        self.check_features("context", context)
        if context.shape[0] != x.shape[0]:
            raise InputError(
                f"context must have shape ({x.shape[0]}, n, {self.embed_dim}), "
                f"got {tuple(context.shape)}"
            )
        weight, bias = self.to_qkv.weight, self.to_qkv.bias
        D = self.embed_dim
        q = nn.functional.linear(x, weight[:D], None if bias is None else bias[:D])
        kv = nn.functional.linear(context, weight[D:], None if bias is None else bias[D:])
        k, v = kv.chunk(2, dim=-1)
        return self.split_heads(q), self.split_heads(k), self.split_heads(v)
