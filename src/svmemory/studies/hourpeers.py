"""Stays that train, validate and test, and the models that see each hour by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from .nexthours import Scale, Stay, summary
from .settings import MissingError

Floats = NDArray[np.float64]

SPLIT = (0.60, 0.15)  # training, validation; the rest tests


@dataclass(frozen=True)
class Cohort:
    """Stays by what they are for; each stay is another patient."""

    training: list[Stay]
    validation: list[Stay]
    test: list[Stay]
    scale: Scale

    @classmethod
    def drawn(cls, everyone: list[Stay], seed: int) -> Cohort:
        """Split at random."""
        order = np.random.default_rng(seed).permutation(len(everyone))
        first, second = (round(len(order) * share) for share in np.cumsum(SPLIT))
        training, validation, test = (
            [everyone[i] for i in rows] for rows in np.split(order, [first, second])
        )
        for part in (training, validation, test):
            if not part or len(np.unique(labels(part))) < 2:
                raise MissingError(
                    f"{len(everyone)} stays are too few: each of the parts that train, validate "
                    "and test needs hours with and without a deterioration to come"
                )
        return cls(training, validation, test, Scale.of(training))


def logistic(cohort: Cohort) -> list[float]:
    """Test log-odds from the last measured values and what was measured in the hour."""

    def hours(part: list[Stay]) -> Floats:
        return np.concatenate([cohort.scale.inputs(stay)[stay.asked] for stay in part])

    model = LogisticRegression(max_iter=1000)
    model.fit(hours(cohort.training), labels(cohort.training))
    return rounded(model.decision_function(hours(cohort.test)))


def trees(cohort: Cohort, seed: int) -> list[float]:
    """Test log-odds of boosted trees on summaries of the last six hours."""

    def hours(part: list[Stay]) -> Floats:
        return np.concatenate(
            [summary(cohort.scale.inputs(stay), stay.event)[stay.asked] for stay in part]
        )

    # a fixed number of trees: early stopping would split hours, and so patients, at random
    model = HistGradientBoostingClassifier(
        max_iter=200, learning_rate=0.06, early_stopping=False, random_state=seed
    )
    model.fit(hours(cohort.training), labels(cohort.training))
    return rounded(model.decision_function(hours(cohort.test)))


def labels(part: list[Stay]) -> NDArray[np.bool_]:
    """Labels of the asked hours, stay after stay."""
    return np.concatenate([stay.label[stay.asked] for stay in part])


def rounded(scores: NDArray[Any]) -> list[float]:
    """Log-odds to four digits, for files of reasonable size."""
    return [round(float(score), 4) for score in scores]
