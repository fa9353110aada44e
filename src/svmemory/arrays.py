"""Arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGE = 2**16


def with_room(size: int, old: int) -> int:
    """Length of an array that had ``old`` entries and needs ``size``.

    It grows by a share of its length, so that growing entry by entry costs a constant time an
    entry: by half, or by an eighth where it is large and idle entries would cost memory.
    """
    return max(size, old + (old // 2 if old < _LARGE else old // 8))


def grown(array: NDArray[Any], size: int, fill: float) -> NDArray[Any]:
    """The array if it has ``size`` entries, else a copy with at least that many.

    The copy has the length that :func:`with_room` gives.
    """
    old = len(array)
    if size <= old:
        return array
    longer = np.empty((with_room(size, old), *array.shape[1:]), array.dtype)
    longer[:old], longer[old:] = array, fill
    return longer
