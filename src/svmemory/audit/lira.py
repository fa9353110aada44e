"""Likelihood-ratio membership test (LiRA): was this record in, judged from a few numbers.

For one record, an attacker who can build memories of his own collects the numbers in worlds with
the record and in worlds without it, fits a normal distribution to each, and asks of the memory
under attack how much likelier its numbers are in the first. Pooled over records and memories, the
answers give a ROC curve: what matters is how many members are found at very few false alarms.

Source: Carlini et al., Membership Inference Attacks From First Principles, IEEE S&P 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_LEAST_SPREAD = 1e-9  # of a fitted distribution: numbers that never vary are no certainty


@dataclass(frozen=True)
class Rate:
    """An estimate with its interval at 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """How well a test tells members from others.

    Attributes
    ----------
    auc : Rate
        Probability that a member looks likelier than another; 0.5 is a coin. Interval of DeLong.
    at_1_percent, at_01_percent : Rate
        Share of members found at 1 % and at 0.1 % false alarms. Interval of Clopper and Pearson,
        with the threshold taken as given.
    """

    auc: Rate
    at_1_percent: Rate
    at_01_percent: Rate


def log_ratio(numbers: Floats, inside: Floats, outside: Floats) -> Floats:
    """Logarithm of how much likelier numbers are inside than outside.

    Parameters
    ----------
    numbers : (t, f) array
        Under test; f numbers of each world.
    inside, outside : (s, f) arrays
        Of the attacker's worlds, s >= 2.

    Returns
    -------
    (t, f) array
        For several numbers together, add them up (as if they were independent).
    """
    parts = []
    for known in (inside, outside):
        spread = np.maximum(known.std(axis=0, ddof=1), _LEAST_SPREAD)
        parts.append(norm.logpdf(numbers, known.mean(axis=0), spread))
    return np.asarray(parts[0] - parts[1])


def outcome(members: Floats, others: Floats) -> Outcome:
    """ROC figures of scores, larger for members; (p,) and (q,) arrays."""
    return Outcome(
        auc(members, others), found_at(0.01, members, others), found_at(0.001, members, others)
    )


def auc(members: Floats, others: Floats) -> Rate:
    """Area under the ROC curve, ties counted half."""
    above = _placements(members, others)  # for each member, the share of others below it
    below = 1.0 - _placements(others, members)
    value = float(above.mean())
    variance = above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below)
    reach = float(norm.ppf(0.5 + CONFIDENCE / 2) * np.sqrt(variance))
    return Rate(value, max(0.0, value - reach), min(1.0, value + reach))


def found_at(false_alarms: float, members: Floats, others: Floats) -> Rate:
    """Share of members above the threshold that at most a share ``false_alarms`` of others is."""
    allowed = int(np.floor(false_alarms * len(others)))
    threshold = np.sort(others)[::-1][allowed]  # "allowed" of them, at most, are above it
    hits, n = int((members > threshold).sum()), len(members)
    low = beta.ppf((1 - CONFIDENCE) / 2, hits, n - hits + 1) if hits else 0.0
    high = beta.ppf((1 + CONFIDENCE) / 2, hits + 1, n - hits) if hits < n else 1.0
    return Rate(hits / n, float(low), float(high))


def _placements(points: Floats, among: Floats) -> Floats:
    """For each point, the share of ``among`` below it, ties counted half."""
    ordered = np.sort(among)
    below = np.searchsorted(ordered, points, "left") + np.searchsorted(ordered, points, "right")
    return np.asarray(below / (2.0 * len(ordered)))
