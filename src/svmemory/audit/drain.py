"""Audit of forgetting everything: rows leave one by one until none is left."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .regimes import Regime
from .trials import Progress
from .walk import Move, WalkReport, run_walks, walk_setup


def plan_drain(rng: np.random.Generator, number: int, rows: int, operations: int) -> list[Move]:
    """Forget ``operations`` of ``rows`` rows, one by one, in random order."""
    return [Move("forget", int(row)) for row in rng.permutation(rows)[:operations]]


def run_drain(
    regime: Regime = "gaussian",
    sequences: int = 20,
    rows: int = 64,
    ridge: float = 1e-8,
    seed: int = 0,
    data: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> WalkReport:
    """Forget all rows one by one; after every one compare with a fresh memory, down to zero rows.

    On the way the memory passes through warm-up, where fewer rows are left than the mass 1/C = 0.4
    rows. The parameters are those of :func:`svmemory.audit.run_sequence`.
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    setup = walk_setup("drain", regime, rows, 0, rows, ridge, seed, plan_drain, data)
    return run_walks(setup, sequences, jobs, progress)
