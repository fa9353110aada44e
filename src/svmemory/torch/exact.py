"""The gate through the engine that memories use: one problem at a time, rows streaming in.

This is the path that verifies a layer. The engine keeps its optimum as rows arrive, so prefixes
cost what the new rows cost; its own Cholesky factor gives the derivative.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from torch import Tensor

from .. import problem
from ..contract import Contract
from ..engine import Engine
from ..engine.state import MARGINS
from ..errors import ConvergenceError, InputError
from ..kernel import gaussian_kernel
from .solve.problems import (
    EMPTY,
    ERROR,
    NOT_CONVERGED,
    OPTIMAL,
    RESERVE,
    WARMUP,
    Gate,
    Problems,
    Solved,
    as_gate,
    counted,
    embed,
    no_answer,
    stacked,
)
from .solve.vjp import FirstOnly

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Optimum(NamedTuple):
    """The engine's state over its n rows in order of arrival.

    Attributes
    ----------
    keys : (n, d) array
    weights, codes : (n,) arrays
    offset, residual : float
    margin : (s,) array
        Rows of the margin in the order of the factor.
    factor : (s, s) array
        ``U' U = K_SS + ridge I``.
    """

    keys: Floats
    weights: Floats
    codes: NDArray[np.int8]
    offset: float
    residual: float
    margin: Ints
    factor: Floats


class Stream:
    """Rows that arrive in parts, always at the optimum of all so far."""

    def __init__(self, contract: Contract, dimension: int) -> None:
        self.contract = contract
        self._engine = Engine(contract, dimension)
        self._slots = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, keys: Floats) -> None:
        """Add finite keys (t, d).

        Raises
        ------
        ConvergenceError
            If the optimum was not reached.
        """
        if len(keys):
            self._slots = np.concatenate([self._slots, self._engine.insert(keys)])

    def optimum(self) -> Optimum:
        """The present optimum; there must be rows."""
        engine, contract, slots = self._engine, self.contract, self._slots
        keys = engine.keys(slots)
        held = contract.held_mass(len(slots))
        weights = engine.masses(slots) / held
        offset = problem.offset_from_mu(engine.mu, contract.ridge, held)
        active = np.flatnonzero(weights > 0)
        q = gaussian_kernel(keys, keys[active], contract.gamma) @ weights[active]
        q += contract.ridge * weights
        state = engine._state
        s = int(state.tally[MARGINS])
        row = {slot: i for i, slot in enumerate(slots.tolist())}
        margin = [row[slot] for slot in state.slot[state.margin[:s]].tolist()]
        return Optimum(
            keys=keys,
            weights=weights,
            codes=engine.codes(slots).astype(np.int8),
            offset=offset,
            residual=problem.kkt_residual(weights, q, contract.ridge, held, offset),
            margin=np.array(margin, np.int64),
            factor=state.U[:s, :s].copy(),
        )


class StreamingGate:
    """Exact gate of one memory while rows arrive, on PyTorch's graph.

    Parameters
    ----------
    gamma, C, ridge
        The contract, as of :class:`svmemory.SupportVectorMemory`. A tensor gets its gradient.

    Examples
    --------
    >>> import torch
    >>> stream = StreamingGate(gamma=0.5, C=0.5)
    >>> stream.add(torch.tensor([[0.0], [1.0]])).weights
    tensor([0.5000, 0.5000])
    >>> stream.add(torch.tensor([[4.0]])).codes
    tensor([1, 1, 1], dtype=torch.int8)
    """

    def __init__(self, gamma: float | Tensor, C: float | Tensor, ridge: float = 1e-3) -> None:
        for name, number in (("gamma", gamma), ("C", C)):
            if isinstance(number, Tensor) and number.numel() != 1:
                raise InputError(f"{name} must be one number, got {tuple(number.shape)}")
        self._gamma = torch.as_tensor(gamma, dtype=torch.float64)
        self._C = torch.as_tensor(C, dtype=torch.float64)
        self._contract = Contract.from_cap(
            float(self._gamma.detach()), float(self._C.detach()), ridge
        )
        self._stream: Stream | None = None
        self._keys: list[Tensor] = []

    def add(self, keys: Tensor) -> Gate:
        """Add keys (t, d); the gate of all rows so far, differentiable in all their keys.

        Raises
        ------
        InputError
            If keys are no floating-point tensor, are not finite or have another width; nothing was
            added.
        ConvergenceError
            If the optimum was not reached.
        """
        if not isinstance(keys, Tensor):
            raise InputError(f"keys must be a torch tensor, got {type(keys).__name__}")
        if not keys.dtype.is_floating_point:
            raise InputError(f"keys must be floating point, got {keys.dtype}")
        if keys.dim() != 2 or (self._keys and keys.shape[1] != self._keys[0].shape[1]):
            raise InputError(f"keys must have shape (t, d) with one d, got {tuple(keys.shape)}")
        if not bool(torch.isfinite(keys).all()):
            raise InputError("keys must be finite")
        if self._stream is None:
            self._stream = Stream(self._contract, keys.shape[1])
        self._stream.add(_numpy(keys))
        self._keys.append(keys)
        everything = torch.cat(self._keys)
        if not len(everything):
            answer = no_answer(0, EMPTY, keys.device)
        else:
            answer = _answer(self._stream, everything, self._gamma, self._C)
        return as_gate(answer, everything, ())


def solve_exact(problems: Problems) -> Solved:
    """Solve every problem through the engine; see :mod:`svmemory.torch.solve.problems`."""
    count = len(problems.keys)
    return stacked([x for p in range(count) for x in _solve_one(problems, p)], problems)


def _solve_one(problems: Problems, p: int) -> list[Solved]:
    """All prefixes of one problem, each the last one and the rows since."""
    _, n, d = problems.keys.shape
    gamma = float(problems.gamma[p].detach())
    contract = Contract(gamma, float(problems.mass[p]), problems.ridge)
    stream = Stream(contract, d)
    answers = []
    for length in problems.lengths:
        rows = counted(problems, p, length)
        keys = problems.keys[p, rows]
        if not len(rows):
            answer = no_answer(0, EMPTY, keys.device)
        elif not bool(torch.isfinite(keys).all()):
            answer = no_answer(len(rows), NOT_CONVERGED, keys.device)
        else:
            try:
                stream.add(_numpy(keys[len(stream) :]))
                answer = _answer(stream, keys, problems.gamma[p], problems.C[p])
            except ConvergenceError:
                answer = no_answer(len(rows), NOT_CONVERGED, keys.device)
                stream = Stream(contract, d)
        answers.append(embed(answer, rows, n))
    return answers


def _numpy(keys: Tensor) -> Floats:
    return np.ascontiguousarray(keys.detach().to("cpu", torch.float64).numpy())


def _answer(stream: Stream, keys: Tensor, gamma: Tensor, C: Tensor) -> Solved:
    found = stream.optimum()
    warm = len(found.weights) <= stream.contract.mass
    pair = _Exact.apply(keys, gamma, C, found, stream.contract)  # type: ignore[no-untyped-call]
    weights, offset = pair
    device = keys.device
    return Solved(
        weights,
        offset,
        torch.from_numpy(found.codes).to(device),
        torch.tensor(found.residual, dtype=torch.float64, device=device),
        torch.tensor(WARMUP if warm else OPTIMAL, dtype=torch.int8, device=device),
    )


class _Exact(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, keys: Tensor, gamma: Tensor, C: Tensor, found: Optimum, contract: Contract
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(keys, gamma, C)
        ctx.found, ctx.contract = found, contract
        offset = torch.tensor(found.offset, dtype=torch.float64)
        return torch.from_numpy(found.weights).to(keys.device), offset.to(keys.device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        bars = pull_back(ctx.found, ctx.contract, _numpy(grads[0]), float(grads[1]))
        given = [
            torch.as_tensor(bar, dtype=x.dtype, device=x.device)
            for bar, x in zip(bars, inputs, strict=True)
        ]
        passed = FirstOnly.apply(*given, *inputs, *grads)  # type: ignore[no-untyped-call]
        return *passed, None, None


def pull_back(
    found: Optimum, contract: Contract, weights_bar: Floats, offset_bar: float
) -> tuple[Floats, float, float]:
    """Cotangents of keys (n, d), gamma and C; the formulas of :mod:`svmemory.torch.solve.vjp`."""
    keys, a, codes, S = found.keys, found.weights, found.codes, found.margin
    gamma, ridge = contract.gamma, contract.ridge
    w = np.zeros(len(a))
    cap_bar = 0.0
    active, error = np.flatnonzero(codes > RESERVE), np.flatnonzero(codes == ERROR)
    kernel = gaussian_kernel(keys[active], keys[active], gamma)
    if len(S):
        right = np.stack([weights_bar[S], np.ones(len(S))], 1)
        solution = cho_solve((found.factor, False), right)
        nu = (solution[:, 0].sum() - 2.0 * offset_bar) / solution[:, 1].sum()
        w[S] = solution[:, 0] - nu * solution[:, 1]
        reach = (kernel @ w[active])[codes[active] == ERROR]
        cap_bar = float((weights_bar[error] - reach - nu).sum())
    else:  # the weights are fixed; the offset follows the error row with the largest gradient
        top = active[np.argmax(kernel @ a[active] + ridge * a[active])]
        w[top] = 2.0 * offset_bar
    coupling = -(np.outer(w[active], a[active]) + np.outer(a[active], w[active])) * kernel
    np.fill_diagonal(coupling, 0.0)
    near = keys[active] - keys[active].mean(0)
    pull = coupling.sum(1)[:, None] * near - coupling @ near
    keys_bar = np.zeros_like(keys)
    keys_bar[active] = -2.0 * gamma * pull
    gamma_bar = -float((pull * near).sum())
    return keys_bar, gamma_bar, cap_bar
