"""What a memory holds, as aligned lists and arrays that can be looked at but not changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import problem
from .contract import Contract
from .engine import Stats
from .engine.state import ERROR, MARGIN, RESERVE
from .holding import Holding
from .results import Partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SET_NAMES = {RESERVE: "reserve", MARGIN: "margin", ERROR: "error"}


class HeldView:
    """The readable side of a memory; arrays are copies, aligned with :attr:`ids`."""

    _held: Holding

    def __repr__(self) -> str:
        c = self.contract
        return (
            f"SupportVectorMemory(gamma={c.gamma:g}, C={c.C:g}, ridge={c.ridge:g}; "
            f"{len(self)} rows, {self.status})"
        )

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held.table

    @property
    def contract(self) -> Contract:
        """Kernel width, mass and ridge, fixed for the memory's life."""
        return self._held.contract

    @property
    def status(self) -> str:
        """One of "empty", "warmup" (at most 1/C rows: all weights are 1/n) and "optimal"."""
        if self._held.engine is None:
            return "empty"
        return "warmup" if self._held.engine.warmup else "optimal"

    @property
    def dimension(self) -> int | None:
        """Width of a key; None without rows."""
        return None if self._held.engine is None else self._held.engine.dimension

    @property
    def value_dimension(self) -> int | None:
        """Width of a value (0: rows have none); None without rows."""
        return None if self._held.engine is None else self._held.table.value_width

    @property
    def ids(self) -> list[str]:
        """Ids in order of arrival."""
        return self._held.table.names()

    @property
    def subjects(self) -> list[str | None]:
        """Subjects, aligned with :attr:`ids`."""
        return self._held.table.subjects(self._held.table.in_order())

    @property
    def keys(self) -> Floats:
        """Keys (n, d), aligned with :attr:`ids`."""
        if self._held.engine is None:
            return np.zeros((0, 0))
        return self._held.engine.keys(self._held.table.in_order())

    @property
    def values(self) -> Floats | None:
        """Values (n, dv), aligned with :attr:`ids`; None if the rows have none."""
        if not self._held.table.value_width:
            return None
        return self._held.table.values(self._held.table.in_order())

    @property
    def masses(self) -> Floats:
        """Masses b = m' a in [0, 1], (n,), aligned with :attr:`ids`."""
        if self._held.engine is None:
            return np.zeros(0)
        return self._held.engine.masses(self._held.table.in_order())

    @property
    def weights(self) -> Floats:
        """Weights a, (n,), sum 1, aligned with :attr:`ids`."""
        return self.masses / self._held.held_mass if len(self) else np.zeros(0)

    @property
    def mu(self) -> float:
        """Multiplier of the mass constraint; 0 without rows."""
        return 0.0 if self._held.engine is None else self._held.engine.mu

    @property
    def offset(self) -> float:
        """Offset rho of the gate score; raises EmptyMemoryError without rows."""
        mu = self._held.need("has no offset").mu
        return problem.offset_from_mu(mu, self._held.contract.ridge, self._held.held_mass)

    @property
    def partition(self) -> Partition:
        """Ids by set: margin, error and reserve."""
        sets: dict[int, list[str]] = {MARGIN: [], ERROR: [], RESERVE: []}
        if self._held.engine is not None:
            codes = self._held.engine.codes(self._held.table.in_order()).tolist()
            for name, code in zip(self._held.table.names(), codes, strict=True):
                sets[code].append(name)
        return Partition(sets[MARGIN], sets[ERROR], sets[RESERVE])

    def _sets_of(self, names: list[str], slots: Ints | None = None) -> dict[str, str]:
        """Set of each named row; ``slots`` where they are known already."""
        if self._held.engine is None:
            return {}
        if slots is None:
            slots = self._held.table.in_order(names)
        codes = self._held.engine.codes(slots).tolist()
        return {name: SET_NAMES[code] for name, code in zip(names, codes, strict=True)}

    @property
    def stats(self) -> Stats:
        """Work done since the memory was created."""
        return self._held.stats
