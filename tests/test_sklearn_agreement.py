"""Without a ridge, the memory is scikit-learn's ``OneClassSVM``.

libsvm solves the same problem with weights that sum to nu n = m instead of 1, and with k(x, y)
where ours has 2 k(x, y): its decision function is ours times m / 2. Both are compared after
division by their largest magnitude, on the rows and on points between and beyond them. libsvm keeps
kernel values in float32, so agreement far below 1e-7 is not to be had.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import OneClassSVM

from svmemory.estimator import OneClassSVDD

Floats = NDArray[np.float64]

TABLES = ("29_Pima", "43_WDBC", "45_wine", "15_Hepatitis", "39_vertebral")


def probes(rows: Floats, rng: np.random.Generator) -> Floats:
    """The rows, the rows moved a little, and points far from most of them."""
    jitter = rng.standard_normal(rows.shape)
    return np.concatenate([rows, rows + 0.1 * jitter, 3.0 * jitter])


def worst_difference(rows: Floats, nu: float, gamma: float, seed: int) -> float:
    ours = OneClassSVDD(C=1.0 / (nu * len(rows)), gamma=gamma, ridge=0.0).fit(rows)
    theirs = OneClassSVM(nu=nu, gamma=gamma, tol=1e-12).fit(rows)
    points = probes(rows, np.random.default_rng(seed))
    left, right = ours.decision_function(points), theirs.decision_function(points)
    return float(np.abs(left / np.abs(left).max() - right / np.abs(right).max()).max())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n", [24, 64])
def test_gaussian_keys(n: int, seed: int) -> None:
    rows = np.random.default_rng([n, seed]).standard_normal((n, 6))
    assert worst_difference(rows, nu=0.4, gamma=0.25, seed=seed) <= 1e-6


@pytest.mark.parametrize("nu", [0.1007, 0.4003])  # nu n is no whole number: the margin is not empty
@pytest.mark.parametrize("table", TABLES)
def test_real_tables(data_dir: Path, table: str, nu: float) -> None:
    path = data_dir / "adbench" / f"{table}.npz"
    if not path.is_file():
        pytest.skip(f"the data folder has no adbench/{table}.npz (docs/how-to/data.md)")
    with np.load(path) as archive:
        rows = archive["X"].astype(np.float64)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    assert worst_difference(rows, nu=nu, gamma=1.0 / rows.shape[1], seed=0) <= 1e-6
