"""The peers: other people's solvers of the same problem, called as their users would.

* scikit-learn's ``OneClassSVM`` is libsvm. Its weights are ``m a`` with ``m = nu n``, and the cap
  is fixed by passing ``nu = m / n`` for the n rows at hand. It has no ridge and keeps kernel values
  in float32, so at any tolerance its answer is good to about seven digits: it does less than ours.
* Clarabel, through qpsolvers, solves the quadratic programme from the dense kernel matrix.
* ``SGDOneClassSVM`` over Nystroem features is scikit-learn's answer to long streams: approximate.
"""

from __future__ import annotations

import importlib.util

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDOneClassSVM
from sklearn.svm import OneClassSVM

from common import timed
from svmemory import Contract
from svmemory.kernel import gaussian_kernel
from workloads import Mixture

Floats = NDArray[np.float64]

TOLERANCE = 1e-9


def libsvm(keys: Floats, contract: Contract) -> OneClassSVM:
    """Fit ``OneClassSVM`` under a contract's cap; needs more rows than 1/C.

    2 GB of kernel cache instead of the default 200 MB: the peer at its best.
    """
    nu = contract.mass / len(keys)
    model = OneClassSVM(nu=nu, gamma=contract.gamma, tol=TOLERANCE, cache_size=2000)
    model.fit(keys)
    return model


def libsvm_weights(model: OneClassSVM, n: int) -> Floats:
    """Weights that sum to 1, of all n rows."""
    weights = np.zeros(n)
    weights[model.support_] = model.dual_coef_[0]
    normed: Floats = weights / weights.sum()
    return normed


def libsvm_on_stream(seed: int, rows: int, contract: Contract) -> float:
    """Seconds of one refit on the first ``rows`` rows of a :class:`workloads.Mixture`."""
    keys = Mixture(seed).keys(range(-(-rows // Mixture.BLOCK)))[:rows]
    return timed(lambda: libsvm(keys, contract))[0]


def clarabel(keys: Floats, contract: Contract) -> Floats:
    """Weights by Clarabel from the dense kernel matrix, its construction included."""
    import qpsolvers  # an optional extra: only this peer needs it
    from scipy.sparse import csc_matrix

    n = len(keys)
    kernel = gaussian_kernel(keys, keys, contract.gamma)
    kernel[np.diag_indices(n)] += contract.ridge
    cap = 1.0 / contract.held_mass(n)
    weights = qpsolvers.solve_qp(
        csc_matrix(2.0 * kernel),
        -np.diag(kernel),
        A=csc_matrix(np.ones((1, n))),
        b=np.ones(1),
        lb=np.zeros(n),
        ub=np.full(n, cap),
        solver="clarabel",
        tol_gap_abs=TOLERANCE,
        tol_gap_rel=TOLERANCE,
        tol_feas=TOLERANCE,
    )
    if weights is None:
        raise RuntimeError("Clarabel found no solution")
    return np.asarray(weights, dtype=np.float64)


def has_clarabel() -> bool:
    """Whether the extra ``bench`` is installed."""
    return all(importlib.util.find_spec(name) for name in ("clarabel", "qpsolvers"))


class Sketch:
    """``SGDOneClassSVM`` over Nystroem features whose landmarks come from the first block.

    Parameters
    ----------
    contract : Contract
    rows : int
        Declared length of the stream, for nu.
    """

    LANDMARKS = 200

    def __init__(self, contract: Contract, rows: int, seed: int) -> None:
        self._features = Nystroem(
            gamma=contract.gamma, n_components=self.LANDMARKS, random_state=seed
        )
        self._model = SGDOneClassSVM(
            nu=min(1.0, contract.mass / rows), random_state=seed, learning_rate="optimal"
        )
        self._ready = False

    def add(self, keys: Floats) -> None:
        """One block of the stream."""
        if not self._ready:
            self._features.fit(keys)
            self._ready = True
        self._model.partial_fit(self._features.transform(keys))

    def score(self, points: Floats) -> Floats:
        """Larger is more typical."""
        scores: Floats = self._model.score_samples(self._features.transform(points))
        return scores
