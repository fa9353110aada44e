"""``OneClassSVDD``: the memory as a scikit-learn outlier detector that can unlearn rows.

The estimator adds no mathematics. It turns scikit-learn's parameters into a contract once, at the
first fit, numbers the rows, and leaves everything else to :class:`~svmemory.SupportVectorMemory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .contract import LARGEST_GAMMA, Contract
from .errors import ContractError, InputError, UnknownIdError
from .memory import SupportVectorMemory

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


class OneClassSVDD(OutlierMixin, BaseEstimator):
    """Outlier detector that learns row by row and forgets row by row, both exactly.

    Fits the smallest ball around the rows in the feature space of a Gaussian kernel (support vector
    data description). With ``ridge=0`` this is scikit-learn's ``OneClassSVM`` with
    ``nu = 1 / (n C)``; its decision function is ours times ``1 / (2 C)``.

    Parameters
    ----------
    nu : float, default=0.1
        Share of the first batch that may lie outside, in (0, 1]. Used once: the first fit, on
        ``n0`` rows, sets ``C = 1 / (nu * n0)``, and nothing recomputes it.
    C : float or None, default=None
        Largest weight of one row, > 0. When given, ``nu`` is ignored.
    gamma : {'scale', 'auto'} or float, default='scale'
        Kernel parameter of ``exp(-gamma |x - y|^2)``. ``'scale'`` is ``1 / (n_features * X.var())``
        of the first batch, ``'auto'`` is ``1 / n_features``. Like ``C``, it is fixed by the first
        fit; with ``'scale'`` it keeps a trace of that batch which `unlearn` does not remove.
    ridge : float, default=1e-8
        Added to the kernel's diagonal. Above 0 the optimum is unique; 0 is for comparisons.

    Attributes
    ----------
    memory_ : SupportVectorMemory
        The memory that holds the rows. The id of a row is its row number as a string.
    n_samples_seen_ : int
        Rows ever given, the unlearned ones included: the number of the next row.
    support_ : ndarray of shape (n_support,)
        Row numbers of the rows with positive weight, ascending.
    support_vectors_ : ndarray of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (1, n_support)
        Their weights; the sum is 1.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    n_features_in_ : int
        Width of a row.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, when the first batch has names that are all strings.

    Notes
    -----
    Rows on the margin have decision value ``-2 * ridge * weight``, a hair below 0, so `predict`
    calls them outliers; scikit-learn's ``OneClassSVM`` gives such rows either sign.

    Examples
    --------
    >>> import numpy as np
    >>> from svmemory import OneClassSVDD
    >>> X = np.array([[0.0, 0.0], [0.5, 0.1], [0.1, 0.4], [0.4, 0.5], [5.0, 5.0]])
    >>> model = OneClassSVDD(nu=0.25, gamma=0.5).fit(X)
    >>> model.predict([[0.3, 0.3], [9.0, 9.0]])
    array([ 1, -1])
    >>> 4 in model.support_
    True
    >>> model.unlearn([4]).memory_.ids
    ['0', '1', '2', '3']
    """

    memory_: SupportVectorMemory
    n_samples_seen_: int
    n_features_in_: int

    def __init__(
        self,
        nu: float = 0.1,
        C: float | None = None,
        gamma: float | str = "scale",
        ridge: float = 1e-8,
    ) -> None:
        self.nu = nu
        self.C = C
        self.gamma = gamma
        self.ridge = ridge

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Start afresh from these rows, numbered from 0; an error leaves the estimator as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers. Sparse input is not supported.
        y : ignored

        Returns
        -------
        OneClassSVDD
            The estimator itself.

        Raises
        ------
        ContractError
            If ``nu``, ``C``, ``gamma`` or ``ridge`` is out of range. A ``ValueError``.
        """
        before = self.__dict__.copy()
        try:
            rows: Floats = validate_data(self, X, dtype=np.float64)  # notes its width and names
            memory = SupportVectorMemory.from_contract(self._contract(rows))
            memory.add(rows, ids=range(len(rows)))
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self.memory_ = memory
        self.n_samples_seen_ = len(rows)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Add rows under the contract of the first batch; the first call acts as `fit`.

        Row numbers continue. The result is the one a single fit of all rows would give under the
        same ``C`` and ``gamma``, so pass both as numbers if batches should not depend on the first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers, as wide as the first batch.
        y : ignored

        Returns
        -------
        OneClassSVDD
            The estimator itself.
        """
        if not hasattr(self, "memory_"):
            return self.fit(X)
        rows: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        following = self.n_samples_seen_ + len(rows)
        self.memory_.add(rows, ids=range(self.n_samples_seen_, following))
        self.n_samples_seen_ = following
        return self

    def unlearn(self, indices: int | Sequence[int] | NDArray[np.integer[Any]]) -> Self:
        """Remove rows by number; what stays is the optimum of the rows never removed.

        ``C``, ``gamma`` and the numbers of the other rows stay as they are.

        Parameters
        ----------
        indices : int or array-like of int
            Row numbers; one given twice counts once, and none is nothing to do. For a boolean mask
            give ``numpy.flatnonzero(mask)``.

        Returns
        -------
        OneClassSVDD
            The estimator itself.

        Raises
        ------
        InputError
            If ``indices`` is not whole numbers (a boolean mask, say). A ``ValueError``.
        UnknownIdError
            If a row was never given or is already unlearned; then no row is removed. A
            ``KeyError``.
        """
        check_is_fitted(self, "memory_")
        numbers = _row_numbers(indices)
        if numbers:
            try:
                self.memory_.forget(ids=[str(number) for number in numbers])
            except UnknownIdError:  # its advice is for callers of the memory
                raise UnknownIdError(self._why_unknown(numbers)) from None
        return self

    def score_samples(self, X: ArrayLike) -> Floats:
        """Similarity to the held rows, ``2 * sum(a_i k(x, x_i))``, in [0, 2].

        Higher is more normal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        EmptyMemoryError
            If every row has been unlearned.
        """
        check_is_fitted(self, "memory_")
        points: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        return self.memory_.score(points) + self.memory_.offset

    def decision_function(self, X: ArrayLike) -> Floats:
        """Signed slack to the boundary, ``score_samples(X) - offset_``: positive inside.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> Integers:
        """Label rows +1 where the decision function is >= 0 (inside), else -1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1).astype(np.intp)

    @property
    def support_(self) -> Integers:
        """Row numbers with positive weight."""
        numbers = np.array([int(row) for row in self.memory_.ids], dtype=np.intp)
        return numbers[self._active()]

    @property
    def support_vectors_(self) -> Floats:
        """Rows with positive weight."""
        if len(self.memory_) == 0:  # an empty memory has forgotten its width
            return np.zeros((0, self.n_features_in_))
        return self.memory_.keys[self._active()]

    @property
    def dual_coef_(self) -> Floats:
        """Positive weights, in one row."""
        return self.memory_.weights[self._active()][None, :]

    @property
    def offset_(self) -> float:
        """``1 + ridge - rho``."""
        return 1.0 + self.memory_.contract.ridge - self.memory_.offset

    def _active(self) -> NDArray[np.bool_]:
        return self.memory_.weights > 0

    def _why_unknown(self, numbers: Sequence[int]) -> str:
        unknown = [number for number in numbers if str(number) not in self.memory_]
        if 0 <= unknown[0] < self.n_samples_seen_:
            why = f"row {unknown[0]} is unlearned already"
        else:
            last = self.n_samples_seen_ - 1
            why = f"row {unknown[0]} was never given: rows are numbered from 0 to {last}"
        more = f" ({len(unknown) - 1} more rows are not held either)" if len(unknown) > 1 else ""
        return f"{why}{more}; no row was removed: leave out what is not held"

    def _contract(self, rows: Floats) -> Contract:
        gamma = self.gamma
        if isinstance(gamma, str):
            if gamma == "scale":
                gamma = _scale_gamma(rows)
            elif gamma == "auto":
                gamma = 1.0 / rows.shape[1]
            else:
                raise ContractError(f"gamma must be 'scale', 'auto' or a number > 0, got {gamma!r}")
        if self.C is None:
            return Contract.from_nu(self.nu, len(rows), gamma, self.ridge)
        return Contract.from_cap(gamma, self.C, self.ridge)


def _row_numbers(indices: object) -> list[int]:
    try:
        numbers = np.atleast_1d(np.asarray(indices))
    except ValueError:  # rows of different lengths
        numbers = np.array([None])
    if numbers.ndim == 1 and (numbers.dtype.kind in "iu" or not numbers.size):
        return [int(number) for number in numbers]
    if numbers.dtype == bool:
        got = "a boolean mask: use numpy.flatnonzero(mask)"
    elif numbers.dtype == object:
        got = f"a {type(indices).__name__}"
    else:
        got = f"an array of {numbers.dtype} with shape {numbers.shape}"
    raise InputError(f"indices must be whole row numbers in one dimension, got {got}")


def _scale_gamma(rows: Floats) -> float:
    """``1 / (n_features * variance)`` as scikit-learn has it, 1 for rows that do not vary."""
    if rows.min() == rows.max():
        return 1.0
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        variance = rows.var()
        gamma = float(1.0 / (rows.shape[1] * variance))
    if not 0 < gamma <= LARGEST_GAMMA:
        raise ContractError(
            f"gamma='scale' is 1 / (n_features * X.var()), but X.var() is {variance:.3g}, too"
            f" {'small' if variance < 1 else 'large'}; rescale X or give gamma as a number"
        )
    return gamma
