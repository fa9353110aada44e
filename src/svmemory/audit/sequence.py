"""Audit of long histories: after every operation the memory must be that of a fresh build."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .regimes import Regime
from .trials import Progress
from .walk import Move, WalkReport, run_walks, walk_setup


def plan_sequence(rng: np.random.Generator, number: int, rows: int, operations: int) -> list[Move]:
    """Random operations from ``rows`` held rows on.

    Trajectories with an even number alternate between forgetting and adding, as the paper's do;
    the others flip a fair coin each time. A removal takes a random held row. An addition takes,
    with even odds, a row removed before (the same id, key and value) or the next spare row.
    """
    held = list(range(rows))
    gone: list[int] = []
    fresh = rows
    moves = []
    for step in range(operations):
        forget = step % 2 == 0 if number % 2 == 0 else rng.random() < 0.5
        if forget and held:
            row = held.pop(int(rng.integers(len(held))))
            gone.append(row)
            moves.append(Move("forget", row))
            continue
        if gone and rng.random() < 0.5:
            row = gone.pop(int(rng.integers(len(gone))))
        else:
            row, fresh = fresh, fresh + 1
        held.append(row)
        moves.append(Move("add", row))
    return moves


def run_sequence(
    regime: Regime = "gaussian",
    trajectories: int = 80,
    operations: int = 64,
    rows: int = 64,
    ridge: float = 1e-8,
    seed: int = 0,
    data: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> WalkReport:
    """Add and forget rows at random; after every operation compare with a fresh memory.

    Parameters
    ----------
    regime : "gaussian", "redundant", "duplicate" or "icu"
    trajectories, operations : int
        Histories, and operations in each (see :func:`plan_sequence`).
    rows : int
        Rows at the start; C = 1/(0.4 rows).
    ridge : float
        At 0 no canonical form exists: only gate scores are compared.
    seed : int
        A trajectory depends on the seed, the regime and its number alone.
    data : str, optional
        Vitals for "icu", see :func:`svmemory.audit.read_vitals`.
    jobs : int
        Processes.
    progress : callable, optional
        ``progress(done, trajectories)`` after each trajectory.
    """
    if rows < 1 or operations < 1:
        raise InputError(f"rows and operations must be at least 1, got {rows} and {operations}")
    setup = walk_setup(
        "sequence", regime, rows, operations, operations, ridge, seed, plan_sequence, data
    )
    return run_walks(setup, trajectories, jobs, progress)
