"""The hybrid causal layer: softmax over the chunk at hand and over what the gate keeps of the past.

A query at position t of chunk j takes one softmax over the rows before chunk j, each with the bias
``log a_i`` of a gate that is frozen at the chunk's start, and over its own chunk up to t, without
bias. With ``fade``, a row's weight also falls with its age, by a power that each head learns. Rows
with ``a_i = 0`` add nothing, so only the support is gathered, and the cost of reading
does not grow with the context. The first chunk has no prefix and is plain causal softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
        length, c = q.shape[-2], min(self.chunk, q.shape[-2])
        finite = all_finite(q, k, v)
        gamma = self.gamma()
        scale, norm = self.readout(gamma)
        q, k, v = (padded_to(x, c) for x in (q, k, v))
        local_q = in_chunks(q, c)
        chosen = self._choose(self.gate_rows(k, v), gamma) if local_q.shape[2] > 1 else None
        parts = [_part(chosen, first, last, local_q) for first, last in _doubling(local_q.shape[2])]
        index = _index(parts, k.shape[-2])
        form = attend if finite else attend_beside_broken
        read = []
        gathered = (_gathered(x, parts, index) for x in (k, v))
        for part, near_k, near_v in zip(parts, *gathered, strict=True):
            bias = self.readout.key_bias(near_k, norm)
            if part.width:
                far = part.weights.log().to(q.dtype)
                if self.fade is not None:
                    starts = torch.arange(part.first, part.last, device=k.device)[:, None] * c
                    far = far + self.fade(starts - part.rows[..., : part.width])
                bias = bias + pad(far.masked_fill(~part.real, -torch.inf), (0, c))
            hidden = later_rows(c, part.width, q.device)
            if not finite:
                hidden = hidden | pad(~part.real, (0, c)).unsqueeze(-2)
            here = local_q[:, :, part.first : part.last]
            read.append(form(here, near_k, near_v, scale, bias, hidden, self.dropping))
        return torch.cat(read, dim=2).flatten(2, 3)[..., :length, :], chosen

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


class _Part(NamedTuple):
    """Chunks ``first`` to ``last`` (not with it) and what each reads.

    Attributes
    ----------
    first, last, width : int
        ``width`` prefix rows for each chunk, then its own.
    rows : int64 Tensor (B, H, last - first, width + c)
        Positions.
    weights, real : Tensor (B, H, last - first, width)
        Of the prefix rows; where not real, there is none.
    """

    first: int
    last: int
    width: int
    rows: Tensor
    weights: Tensor
    real: Tensor


def _doubling(chunks: int) -> list[tuple[int, int]]:
    """Chunks 0, 1, 2-3, 4-7, ...: within a part the prefixes, and what is read, differ little."""
    ends = [0, *(1 << i for i in range((chunks - 1).bit_length())), chunks]
    return list(pairwise(ends))


def _part(chosen: PrefixRows | None, first: int, last: int, local_q: Tensor) -> _Part:
    """What chunks ``first`` to ``last`` of the queries (B, H, J, c, d) read."""
    b, h, _, c, _ = local_q.shape
    own = torch.arange(first * c, last * c, device=local_q.device).view(1, 1, -1, c)
    own = own.expand(b, h, -1, -1)
    if chosen is None or first == 0:  # chunk 0 has no prefix
        nothing = own[..., :0]
        return _Part(first, last, 0, own, nothing, nothing.bool())
    places = slice(first - 1, last - 1)
    width = int(chosen.sizes[:, :, places].max())
    rows, weights, real = (x[:, :, places, :width] for x in chosen[:3])
    # padding reads row 0, which is there and is never later
    rows = torch.cat([rows.masked_fill(~real, 0), own], dim=-1)
    return _Part(first, last, width, rows, weights, real)


def _index(parts: Sequence[_Part], length: int) -> Tensor:
    """Where the rows of all parts lie among all rows of a batch, (N,)."""
    b, h = parts[0].rows.shape[:2]
    start = torch.arange(b * h, device=parts[0].rows.device).view(b, h, 1, 1) * length
    return torch.cat([(start + part.rows).flatten() for part in parts])


def _gathered(x: Tensor, parts: Sequence[_Part], index: Tensor) -> list[Tensor]:
    """Rows of x (B, H, T, d) for each part, (B, H, J, s, d): one pass, there and back."""
    d = x.shape[-1]
    found = x.reshape(-1, d).index_select(0, index)
    pieces = torch.split(found, [part.rows.numel() for part in parts])  # one gradient for all
    return [y.view(*part.rows.shape, d) for y, part in zip(pieces, parts, strict=True)]
