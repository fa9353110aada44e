"""What makes an hour in intensive care eventful: the paper's thresholds on six vital signs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LOW = (40.0, 90.0, -np.inf, 6.0, 90.0, 35.0)
HIGH = (130.0, 200.0, np.inf, 30.0, np.inf, 38.5)
"""A value outside is an event, in the order of :data:`svmemory.audit.vitals.CHANNELS`."""


def deteriorated(vitals: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Hours (T,) of vitals (T, 6) with a value beyond its threshold; a missing value is none."""
    # a comparison with NaN is false
    return np.asarray(((vitals < LOW) | (vitals > HIGH)).any(axis=1))
