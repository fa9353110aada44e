"""The hybrid causal layer: softmax over the chunk at hand and over what the gate keeps of the past.

A query at position t of chunk j takes one softmax over the rows before chunk j, each with the bias
``log a_i`` of a gate that is frozen at the chunk's start, and over its own chunk up to t, without
bias. With ``fade``, a row's weight also falls with its age, by a power that each head learns. Rows
with ``a_i = 0`` add nothing, so only the support is gathered, and the cost of reading
does not grow with the context. The first chunk has no prefix and is plain causal softmax.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..contract import Contract
from ..errors import InputError
from .checks import all_finite, check_ridge, check_solver, check_values, whole, yes_or_no
from .fade import Fade
from .gate import NOT_CONVERGED, Solver
from .heads import MultiHead, in_chunks, padded_to
from .per_head import CAP_SPAN, GAMMA_SPAN, PerHead
from .prefix import CHOICES, Choice, PrefixRows, prefix_rows
from .readout import FORMS, Form, Readout, attend, attend_beside_broken, later_rows
from .settled import Settled


class GateFacts(NamedTuple):
    """What the gate did in the last forward and backward pass.

    Attributes
    ----------
    support : float
        Mean number of prefix rows read.
    unconverged : int
        Problems that did not reach their optimum; their rows' keys are not finite, as a rule.
    gradient : float
        Norm of the gradient that reaches the gate's rows through it; 0 before a backward pass.
    """

    support: float
    unconverged: int
    gradient: float


class HybridSVAttention(MultiHead, Settled):
    """Causal attention with a gated memory; see the module's description.

    Parameters
    ----------
    embed_dim, num_heads, dropout, bias
        As in :class:`svmemory.torch.heads.MultiHead`.
    C : float, default 0.25
        Largest weight of a memory row. Up to 1/C rows every weight is 1/n (warm-up).
    ridge : float, default 1e-3
        Added to the kernel's diagonal; a part of the contract.
    gamma : float, default 0.25
        Width of the kernel at the start, in 1 / (key unit)^2.
    chunk : int, default 64
        Positions between two solves.
    readout : {"dot", "gaussian", "mix"}
        The form of the logits, see :mod:`svmemory.torch.readout`.
    learn_gamma, learn_cap : bool
        Whether each head learns its own width (within a factor of 16 of ``gamma``) and cap (within
        a factor of 4 of ``C``).
    with_values : bool
        The gate's kernel compares rows by key and value, not by key alone: a row is (k, v), and the
        layer's exact memory holds that as its key.
    fade : bool
        Rows t positions before the chunk are read with weight ``a t^-f``, with a power f that each
        head learns.
    gate : str, default "sv"
        ``"sv"``, or a control of :data:`svmemory.torch.prefix.CHOICES`.
    solver : {"batched", "exact", "naive", "paper"}
        As in :func:`svmemory.torch.sv_gate`.

    Raises
    ------
    InputError, ContractError
        If a number is out of range.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        C: float = 0.25,
        ridge: float = 1e-3,
        gamma: float = 0.25,
        chunk: int = 64,
        readout: Form = "dot",
        learn_gamma: bool = True,
        learn_cap: bool = False,
        with_values: bool = False,
        fade: bool = False,
        gate: Choice = "sv",
        solver: Solver = "batched",
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias)
        self.ridge = check_ridge(ridge)
        check_solver(solver)
        Contract.from_cap(gamma, C, self.ridge)  # checks the numbers
        whole("chunk", chunk)
        if chunk < 1:
            raise InputError(f"chunk must be at least 1, got {chunk}")
        if gate not in CHOICES:
            raise InputError(f"gate must be one of {', '.join(CHOICES)}, got {gate!r}")
        learn_gamma = yes_or_no("learn_gamma", learn_gamma)
        learn_cap = yes_or_no("learn_cap", learn_cap)
        # a width that nothing differentiable depends on would be a parameter without gradient
        uses_gamma = gate == "sv" or readout != "dot"
        self.gamma = PerHead("gamma", num_heads, gamma, GAMMA_SPAN, learn_gamma and uses_gamma)
        self.C = PerHead("C", num_heads, C, CAP_SPAN, learn_cap and gate == "sv")
        self.chunk = chunk
        self.with_values = yes_or_no("with_values", with_values)
        self.fade = Fade(num_heads) if yes_or_no("fade", fade) else None
        self.readout = Readout(num_heads, self.head_dim, readout)
        self.gate = gate
        self.solver: Solver = solver
        self._gradient: list[Tensor] = []
        self._seen: tuple[Tensor, Tensor | None] | None = None  # sizes and status, last pass

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        q, k, v = self.queries_keys_values(x)
        read, chosen = self.read(q, k, v)
        if chosen is not None:
            self._seen = chosen.sizes, None if chosen.gate is None else chosen.gate.status
        return self.merged(read)

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, PrefixRows | None]:
        """Read every position: q, k, v (B, H, T, d) to (B, H, T, d) and the prefix rows read.

        The rows are those of chunks 1, 2, ...; None if there is only one chunk.
        """
        check_values(k)
        if not q.numel():
            return v, None
        length, c = q.shape[-2], self.chunk
        finite = all_finite(q, k, v)
        gamma = self.gamma()
        scale, norm = self.readout(gamma)
        q, k, v = (padded_to(x, min(c, length)) for x in (q, k, v))
        local_q, local_k, local_v = (in_chunks(x, min(c, length)) for x in (q, k, v))
        bias = self.readout.key_bias(local_k, norm)
        chosen, memory = None, 0
        real = q.new_zeros((*bias.shape[:-1], 0), dtype=torch.bool)
        if local_q.shape[2] > 1:
            chosen = self._choose(self.gate_rows(k, v), gamma)
            # chunk 0 reads a memory of padding only, and padding is row 0, which is never later
            rows = pad(chosen.rows.masked_fill(~chosen.real, 0), (0, 0, 1, 0))  # (B, H, J, s)
            weights = pad(chosen.weights, (0, 0, 1, 0), value=1.0)
            real = pad(chosen.real, (0, 0, 1, 0))
            memory = rows.shape[-1]
            far_k, far_v = _gathered(k, rows), _gathered(v, rows)  # (B, H, J, s, d)
            far_bias = weights.log().to(q.dtype) + self.readout.key_bias(far_k, norm)
            if self.fade is not None:
                starts = torch.arange(0, k.shape[-2], c, device=k.device)[:, None]
                far_bias = far_bias + self.fade(starts - rows)
            local_k = torch.cat([far_k, local_k], dim=-2)
            local_v = torch.cat([far_v, local_v], dim=-2)
            bias = torch.cat([far_bias.masked_fill(~real, -torch.inf), bias], dim=-1)
        hidden = later_rows(local_q.shape[-2], memory, q.device)
        if not finite:
            hidden = hidden | pad(~real, (0, local_q.shape[-2])).unsqueeze(-2)
        form = attend if finite else attend_beside_broken
        read = form(local_q, local_k, local_v, scale, bias, hidden, self.dropping)
        return read.flatten(2, 3)[..., :length, :], chosen

    def gate_rows(self, k: Tensor, v: Tensor) -> Tensor:
        """What the gate's kernel compares: keys (..., n, d), or keys and values side by side."""
        return torch.cat([k, v], dim=-1) if self.with_values else k

    def boundaries(self, length: int) -> list[int]:
        """Prefix lengths of chunks 1, 2, ... of a sequence of ``length`` positions."""
        return list(range(self.chunk, length, self.chunk))

    def contracts(self) -> list[Contract]:
        """The contract of each head: what an exact memory must solve to be this layer's gate."""
        gammas, caps = self.gamma().tolist(), self._caps().tolist()
        return [Contract.from_cap(g, c, self.ridge) for g, c in zip(gammas, caps, strict=True)]

    def settings(self) -> dict[str, float]:
        """What the weights were learned under, beside width and cap."""
        forms = ", ".join(f"{i} {form}" for i, form in enumerate(FORMS))
        return {
            "ridge": self.ridge,
            "chunk": float(self.chunk),
            f"readout ({forms})": float(FORMS.index(self.readout.form)),
            "with_values (0 no, 1 yes)": float(self.with_values),
        }

    def gate_facts(self) -> GateFacts | None:
        """What the gate did last; None before the first pass with more than one chunk."""
        if self._seen is None:
            return None
        sizes, status = self._seen
        bad = 0 if status is None else int((status == NOT_CONVERGED).sum())
        gradient = float(self._gradient[0].norm()) if self._gradient else 0.0
        return GateFacts(float(sizes.double().mean()), bad, gradient)

    def _caps(self) -> Tensor:
        caps: Tensor = self.C().clamp_max(1.0)
        return caps

    def _choose(self, rows: Tensor, gamma: Tensor) -> PrefixRows:
        self._gradient = []
        if rows.requires_grad and self.gate == "sv":
            rows = rows.view_as(rows)  # a node of its own: its gradient comes through the gate
            kept = self._gradient
            rows.register_hook(lambda g: kept.append(g.detach()))  # type: ignore[no-untyped-call]
        lengths = self.boundaries(rows.shape[-2])
        return prefix_rows(rows, gamma, self._caps(), self.ridge, lengths, self.gate, self.solver)


def _gathered(x: Tensor, rows: Tensor) -> Tensor:
    """Rows of x (B, H, T, d) at positions (B, H, J, s): (B, H, J, s, d)."""
    b, h, t, d = x.shape
    start = torch.arange(b * h, device=x.device).view(b, h, 1, 1) * t
    flat = x.reshape(b * h * t, d).index_select(0, (start + rows).flatten())
    return flat.view(*rows.shape, d)
