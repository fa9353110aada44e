"""Checks of what callers pass, with messages that say what is wrong in their words."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, Literal

import torch
from torch import Tensor

from ..contract import RIDGE_FLOOR
from ..errors import ContractError, InputError
from .solvers import SOLVERS

Solver = Literal["batched", "exact", "paper", "naive"]


def whole(name: str, value: Any) -> int:
    """A whole number; True and 64.0 are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    return int(value)


def yes_or_no(name: str, value: Any) -> bool:
    """A truth value; no other value passes for one."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return value


def check_solver(solver: str) -> None:
    """InputError unless there is such a solver."""
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}")


def check_ridge(ridge: Any) -> float:
    """The ridge as a float; ContractError if it is out of the solvers' range."""
    if isinstance(ridge, Tensor) and ridge.requires_grad:
        raise InputError("ridge is fixed and gets no gradient: pass a plain number")
    try:
        number = float(ridge)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"ridge must be a number, got {ridge!r}") from None
    if not RIDGE_FLOOR <= number <= 1e6:
        raise ContractError(f"ridge must be from {RIDGE_FLOOR} to 1e6, got {number}")
    return number


def check_tensor(name: str, value: Any) -> Tensor:
    """The value, which must be a tensor."""
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a torch tensor, got {type(value).__name__}")
    return value


def check_rows(name: str, x: Any, rows: int | None = None, width: int | None = None) -> None:
    """InputError unless x is a floating-point tensor (..., rows, width)."""
    shape = check_tensor(name, x).shape
    fits = len(shape) >= 2 and rows in (None, shape[-2]) and width in (None, shape[-1])
    if not fits:
        wanted = f"(..., {'n' if rows is None else rows}, {'d' if width is None else width})"
        raise InputError(f"{name} must have shape {wanted}, got {tuple(shape)}")
    if not x.dtype.is_floating_point:
        raise InputError(f"{name} must be floating point, got {x.dtype}")


def check_keys(keys: Any, mask: Any, solver: str) -> None:
    """InputError unless keys and mask are what a gate can be solved on."""
    check_rows("keys", keys)
    if mask is not None and check_tensor("mask", mask).dtype != torch.bool:
        raise InputError(f"mask must be boolean, got {mask.dtype}")
    check_values(keys)
    if solver != "naive" and torch._C._are_functorch_transforms_active():
        raise InputError(
            f"torch.func does not reach solver {solver!r}: use torch.autograd, or solver='naive' "
            "for torch.func.grad and jvp"
        )


def check_values(x: Tensor) -> None:
    """InputError where the numbers in x cannot be looked at: on the meta device, under vmap."""
    if x.is_meta:
        raise InputError("a gate needs numbers to solve, and tensors on the meta device hold none")
    if torch.compiler.is_compiling():
        return
    functorch = torch._C._functorch
    for level in functorch.get_interpreter_stack() or ():
        if level.key() == functorch.TransformType.Vmap:
            raise InputError(
                "a gate cannot be solved under torch.func.vmap: keys may have any number of "
                "batch dimensions, pass them all at once"
            )


@torch.compiler.disable  # type: ignore[untyped-decorator]
def all_finite(*tensors: Tensor) -> bool:
    """Whether all numbers are finite, in one pass; False also where a sum overflows."""
    return all(math.isfinite(float(x.detach().sum())) for x in tensors)
