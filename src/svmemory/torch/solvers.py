"""The ways to solve a batch of problems, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

from .exact import solve_exact
from .gpu import solve_gpu
from .solve.naive import solve_naive
from .solve.paper import solve_paper
from .solve.problems import Problems, Solved
from .solve.vjp import solve_with_gradient


def solve_batched(problems: Problems) -> Solved:
    """All problems at once, where the keys are; on the CPU if kernels need Triton and have none."""
    if problems.keys.is_cuda and find_spec("triton") is not None:
        return solve_gpu(problems)
    return solve_with_gradient(problems)


SOLVERS: dict[str, Callable[[Problems], Solved]] = {
    "batched": solve_batched,
    "exact": solve_exact,
    "paper": solve_paper,
    "naive": solve_naive,
}


def solve(problems: Problems, solver: str) -> Solved:
    """Solve in the stated precision, whatever autocast says."""
    with torch.autocast(problems.keys.device.type, enabled=False):
        return SOLVERS[solver](problems)
