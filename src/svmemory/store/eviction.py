"""Which rows to give up when a memory must fit a budget: a heuristic, and not certified."""

from __future__ import annotations

import operator

import numpy as np

from ..errors import InputError
from ..memory import SupportVectorMemory
from ..reads import kernel_sums


def evictable(memory: SupportVectorMemory, budget: int) -> list[str]:
    """Ids of the rows to drop so that at most ``budget`` stay, in order of arrival.

    Reserve rows go first, those farthest from the boundary before others; then rows with weight,
    the lightest before others. Among equals the oldest goes first. Dropping reserve rows changes no
    readout now; dropping others does.

    Raises
    ------
    InputError
        If ``budget`` is no whole number >= 0.
    """
    try:
        most = operator.index(budget)
    except TypeError:
        raise InputError(f"budget must be a whole number of rows, got {budget!r}") from None
    if most < 0:
        raise InputError(f"budget must be >= 0, got {most}")
    surplus = len(memory) - most
    if surplus <= 0:
        return []
    near, weights, *_ = memory._held.support()
    masses = memory.masses
    heights = kernel_sums(near, weights, memory.keys, memory.contract.gamma)
    order = np.lexsort((np.arange(len(masses)), -heights, masses))  # the last key decides first
    chosen = np.sort(order[:surplus])
    ids = memory.ids
    return [ids[place] for place in chosen.tolist()]
