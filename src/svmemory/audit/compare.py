"""Two memories side by side: what they say at the same points, and how far apart it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contract import Contract
from ..memory import SupportVectorMemory

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows an audit adds and removes; row ``i`` has the id ``str(i)`` in every memory.

    ``keys`` is (n, d), ``values`` (n, dv).
    """

    keys: Floats
    values: Floats

    def memory(self, contract: Contract, order: Sequence[int]) -> SupportVectorMemory:
        """A new memory that has seen the rows ``order``, in that order, and nothing else."""
        memory = SupportVectorMemory.from_contract(contract)
        self.add(memory, order)
        return memory

    def add(self, memory: SupportVectorMemory, order: Sequence[int]) -> None:
        """Add the rows ``order`` to a memory."""
        if len(order):
            rows = np.asarray(order)
            memory.add(self.keys[rows], values=self.values[rows], ids=[str(i) for i in rows])


@dataclass(frozen=True)
class Snapshot:
    """A memory's answers at fixed points: weights and labels by id, score (q,), readout (q, dv)."""

    weights: dict[str, float]
    labels: dict[str, str]
    score: Floats
    readout: Floats


def snapshot(memory: SupportVectorMemory, probes: Floats) -> Snapshot:
    """Ask a non-empty memory for its weights and sets, and its score and readout at ``probes``."""
    sets = memory.partition
    labels = {i: "S" for i in sets.margin}
    labels.update({i: "E" for i in sets.error})
    labels.update({i: "R" for i in sets.reserve})
    weights = dict(zip(memory.ids, memory.weights.tolist(), strict=True))
    return Snapshot(weights, labels, memory.score(probes), memory.read(probes))


@dataclass(frozen=True)
class Deviation:
    """Largest absolute differences of weights, gate score and readout between two states."""

    weights: float
    score: float
    readout: float


def deviation(state: Snapshot, truth: Snapshot) -> Deviation:
    """Largest differences over all rows and probes; both states must hold the same ids."""
    if state.weights.keys() != truth.weights.keys():
        raise ValueError("the two memories do not hold the same rows")
    weights = np.array([w - truth.weights[i] for i, w in state.weights.items()])
    return Deviation(
        largest(weights),
        largest(state.score - truth.score),
        largest(state.readout - truth.readout),
    )


def largest(difference: Floats) -> float:
    """Largest magnitude, 0 for nothing; NaN stays NaN, so that no check can pass on it."""
    return float(np.max(np.abs(difference), initial=0.0))


@dataclass(frozen=True)
class Spread:
    """Median, 95th percentile and worst of one figure over the trials."""

    median: float
    p95: float
    worst: float


def spread(figures: Sequence[float]) -> Spread | None:
    """Summary of one figure over the trials; None when no trial completed."""
    if not len(figures):
        return None
    values = np.asarray(figures, dtype=float)
    return Spread(float(np.median(values)), float(np.quantile(values, 0.95)), float(np.max(values)))
