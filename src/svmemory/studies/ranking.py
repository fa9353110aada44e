"""Areas under the ROC and the precision-recall curve, with intervals over patients."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Ranking:
    """Hours ordered by a score, ready to be counted under any weights.

    Parameters
    ----------
    scores : (n,) array
        Larger: more likely positive. Equal scores count half, as in scikit-learn.
    labels : (n,) array of bool
    """

    def __init__(self, scores: ArrayLike, labels: ArrayLike) -> None:
        falling = -np.asarray(scores, dtype=float)
        self._order = np.argsort(falling, kind="stable")
        ranked = falling[self._order]
        self._starts = np.concatenate([[0], np.flatnonzero(np.diff(ranked)) + 1])  # of ties
        self._positive = np.asarray(labels, dtype=float)[self._order]

    def areas(self, weights: ArrayLike | None = None) -> tuple[float, float]:
        """ROC area and average precision, each hour counted ``weights`` times (once by default).

        Both are NaN without positives or without negatives.
        """
        counted = np.ones(len(self._order)) if weights is None else np.asarray(weights, dtype=float)
        counted = counted[self._order]
        hits = np.add.reduceat(counted * self._positive, self._starts)
        all_ = np.add.reduceat(counted, self._starts)
        misses = all_ - hits
        positives, negatives = hits.sum(), misses.sum()
        if not (positives > 0 and negatives > 0):
            return float("nan"), float("nan")
        found = np.cumsum(hits)
        roc = (misses * (found - 0.5 * hits)).sum() / (positives * negatives)
        taken = np.cumsum(all_)
        precision = np.divide(found, taken, out=np.zeros_like(found), where=taken > 0)
        return float(roc), float((hits * precision).sum() / positives)


def patient_draws(patients: int, samples: int, seed: int) -> NDArray[np.int64]:
    """How often each patient occurs in each bootstrap sample; (samples, patients)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(patients, np.full(patients, 1.0 / patients), size=samples)


def bootstrapped(
    scores: Floats, labels: NDArray[np.bool_], owner: NDArray[np.int64], draws: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Areas over all hours, and in each bootstrap sample of patients.

    Parameters
    ----------
    scores : (runs, n) array
        One row for each run (seed) of a model; areas are means over runs.
    labels : (n,) array of bool
    owner : (n,) array
        Patient of each hour, as a column of ``draws``.
    draws : (samples, patients) array
        From :func:`patient_draws`; the same for all models, so that differences are paired.

    Returns
    -------
    (2,) and (samples, 2) arrays
        ROC area and average precision.
    """
    rankings = [Ranking(row, labels) for row in scores]
    whole = np.mean([ranking.areas() for ranking in rankings], axis=0)
    sampled = np.empty((len(draws), 2))
    for i, draw in enumerate(draws):
        weights = draw[owner].astype(float)
        sampled[i] = np.mean([ranking.areas(weights) for ranking in rankings], axis=0)
    return whole, sampled
