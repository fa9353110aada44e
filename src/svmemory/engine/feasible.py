"""Masses that satisfy the constraints, from masses that nearly do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def spread(b: Floats, total: float) -> Floats:
    """Shift masses evenly within [0, 1] until they sum to ``total`` (at most len(b))."""
    b = np.clip(b, 0.0, 1.0)
    for _ in range(len(b) + 1):
        missing = total - b.sum()
        room = 1.0 - b if missing > 0 else b
        if abs(missing) <= 1e-15 * total or not room.any():
            break
        b = np.clip(b + missing * room / room.sum(), 0.0, 1.0)
    return b
