"""Intervals, all at 95 %."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

Interval = tuple[float, float]


def mean_interval(
    values: ArrayLike, least: float = -math.inf, most: float = math.inf
) -> tuple[float, Interval]:
    """Mean of independent values and its interval from Student's t distribution.

    With a single value the interval is (NaN, NaN). ``least`` and ``most`` bound what the values can
    be (0 and 1 for shares), and the interval with them.
    """
    x = np.asarray(values, dtype=float)
    mean = float(x.mean())
    if len(x) < 2:
        return mean, (math.nan, math.nan)
    reach = float(student.ppf(0.975, len(x) - 1)) * float(x.std(ddof=1)) / math.sqrt(len(x))
    return mean, (max(mean - reach, least), min(mean + reach, most))


def share_interval(hits: int, tries: int) -> tuple[float, Interval]:
    """A share and Wilson's interval, which is right at 0 and 1 too."""
    z = 1.959963984540054
    share = hits / tries
    middle = (share + z * z / (2 * tries)) / (1 + z * z / tries)
    reach = (
        z / (1 + z * z / tries) * math.sqrt(share * (1 - share) / tries + (z / (2 * tries)) ** 2)
    )
    # at 0 and 1 an end meets the share only up to a rounding
    return share, (min(share, max(0.0, middle - reach)), max(share, min(1.0, middle + reach)))


def bootstrap_interval(
    values: ArrayLike, weights: ArrayLike | None = None, samples: int = 10_000, seed: int = 0
) -> tuple[float, Interval]:
    """Mean over units (stays, patients) and its percentile bootstrap interval.

    Parameters
    ----------
    values : (n,) array
        One a unit; for a paired comparison, the difference within a unit.
    weights : (n,) array, optional
        How much each unit counts in the mean (its number of events, say); equal by default.
    samples, seed : int
    """
    x = np.asarray(values, dtype=float)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float)
    rng = np.random.default_rng(seed)
    means: NDArray[np.float64] = np.empty(samples)
    for start in range(0, samples, 500):  # 500 draws of n units at a time
        drawn = rng.integers(0, len(x), (min(500, samples - start), len(x)))
        total = w[drawn].sum(axis=1)
        means[start : start + len(drawn)] = (w[drawn] * x[drawn]).sum(axis=1) / total
    low, high = np.quantile(means, [0.025, 0.975])
    return float((w * x).sum() / w.sum()), (float(low), float(high))


def excludes_zero(interval: Sequence[float]) -> bool:
    """Whether an interval lies on one side of 0."""
    low, high = interval
    return low > 0 or high < 0
