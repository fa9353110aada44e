"""Arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def grown(array: NDArray[Any], size: int, fill: float) -> NDArray[Any]:
    """The array if it has ``size`` entries, else a copy with at least that many.

    The copy is longer by half, so that growing entry by entry costs a constant time an entry, and
    at most a third of it is idle.
    """
    old = len(array)
    if size <= old:
        return array
    longer = np.empty((max(size, old + old // 2), *array.shape[1:]), array.dtype)
    longer[:old], longer[old:] = array, fill
    return longer
