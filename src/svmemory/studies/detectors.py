"""Outlier detectors under comparison, each at its library's usual setting, none tuned."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from ..estimator import OneClassSVDD

Floats = NDArray[np.float64]
Detector = Callable[[Floats, Floats, int], Floats]
"""``detect(train, points, seed)``: how anomalous each point is; (q,), larger is more."""

OURS, THEIRS = "OneClassSVDD (ours)", "OneClassSVM"
PYOD = "pyod"
NU = 0.1  # share of the training rows that may lie outside, for both one-class machines


def _svdd(train: Floats, points: Floats, seed: int) -> Floats:
    return -OneClassSVDD(nu=NU).fit(train).score_samples(points)


def _svm(train: Floats, points: Floats, seed: int) -> Floats:
    return -np.asarray(OneClassSVM(nu=NU).fit(train).score_samples(points))


def _forest(train: Floats, points: Floats, seed: int) -> Floats:
    return -np.asarray(IsolationForest(random_state=seed).fit(train).score_samples(points))


def _lof(train: Floats, points: Floats, seed: int) -> Floats:
    neighbours = min(20, len(train) - 1)
    model = LocalOutlierFactor(n_neighbors=neighbours, novelty=True)
    with warnings.catch_warnings():
        # tables with repeated rows: scikit-learn advises more neighbours; its default is compared
        warnings.filterwarnings("ignore", "Duplicate values are leading to incorrect results")
        return -np.asarray(model.fit(train).score_samples(points))


def _pyod(module: str, name: str) -> Detector:
    def detect(train: Floats, points: Floats, seed: int) -> Floats:
        model: Any = getattr(import_module(f"pyod.models.{module}"), name)()
        return np.asarray(model.fit(train).decision_function(points), dtype=np.float64)

    return detect


def detectors() -> dict[str, Detector]:
    """The detectors that can run here, by name; PyOD's only where it is installed."""
    found: dict[str, Detector] = {
        OURS: _svdd,
        THEIRS: _svm,
        "IsolationForest": _forest,
        "LOF": _lof,
    }
    if find_spec(PYOD) is not None:
        found["ECOD (PyOD)"] = _pyod("ecod", "ECOD")
        found["KNN (PyOD)"] = _pyod("knn", "KNN")
    return found
