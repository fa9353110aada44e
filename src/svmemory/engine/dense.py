"""Canonical form of a kernel matrix given whole, for callers without an engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..contract import KERNEL_BITS, MASS_BITS
from ..errors import ContractError
from .exact import Floats, Ints, canonical_form
from .feasible import spread


class DenseSource:
    """Rows of a kernel matrix given whole, from any feasible start."""

    def __init__(self, kernel: NDArray[np.int64], total: int, start: Floats | None) -> None:
        self._units = kernel
        self._kernel = kernel / 2.0**KERNEL_BITS
        self._total = total / 2.0**MASS_BITS
        n = len(kernel)
        self._start = np.full(n, self._total / n) if start is None else spread(start, self._total)

    def start(self) -> tuple[Ints, Floats, Ints]:
        """The given start, made feasible."""
        b = self._start
        margin = np.flatnonzero((b > 0) & (b < 1))
        return margin, b[margin], np.flatnonzero(b >= 1)

    def block(self, rows: Ints, columns: Ints) -> Floats:
        """Kernel values, (len(rows), len(columns))."""
        return self._kernel[np.ix_(rows, columns)]

    def error_sums(self, rows: Ints, error: Ints) -> list[int]:
        """Exact sums over ``error``, in units of 2**-52."""
        part = self._units[np.ix_(rows, error)]
        high = (part >> 26).sum(axis=1).tolist()
        low = (part & (2**26 - 1)).sum(axis=1).tolist()
        return [(a << 26) + b for a, b in zip(high, low, strict=True)]

    def suspects(self, margin: Ints, b: Floats, error: Ints, mu: float) -> Ints:
        """All rows in neither set: nothing is known of them."""
        return self.everyone_else(margin, error)

    def everyone_else(self, margin: Ints, error: Ints) -> Ints:
        """All rows in neither set."""
        return np.setdiff1d(np.arange(len(self._kernel)), np.concatenate([margin, error]))


def canonical(
    kernel: NDArray[np.int64], ridge: int, mass: int, start: Floats | None = None
) -> tuple[Floats, float, str]:
    """Canonical form of a kernel matrix.

    Parameters
    ----------
    kernel : (n, n) integer array
        Symmetric, in units of 2**-52, diagonal 2**52.
    ridge : int
        In units of 2**-52, > 0.
    mass : int
        m = 1/C in units of 2**-39, > 0; the problem holds min(m, n).
    start : (n,) array, optional
        Approximate masses; any will do, a close one is faster.

    Returns
    -------
    b : (n,) array
        Exact masses, rounded half-even to the 2**-112 grid and then to float64.
    mu : float
        Multiplier, rounded the same way.
    labels : str
        One letter a row: S margin, E error, R reserve.

    Raises
    ------
    ContractError
        If ``kernel``, ``ridge`` or ``mass`` is not of this form.
    ConvergenceError
        If the ridge is too small for the size of the problem.
    """
    kernel = np.asarray(kernel)
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or kernel.dtype.kind not in "iu":
        raise ContractError("kernel must be a square integer array in units of 2**-52")
    n = len(kernel)
    kernel = kernel.astype(np.int64)
    if n and (kernel.min() < 0 or (np.diag(kernel) != 2**52).any() or kernel.max() > 2**52):
        raise ContractError("kernel values must lie in [0, 2**52], with 2**52 on the diagonal")
    if not np.array_equal(kernel, kernel.T):
        raise ContractError("kernel must be symmetric")
    if mass <= 0:
        raise ContractError(f"mass must be > 0, got {mass}")
    if start is not None and (np.shape(start) != (n,) or not np.isfinite(start).all()):
        raise ContractError(f"start must hold {n} finite masses")
    if n == 0:
        return np.zeros(0), 0.0, ""
    total = min(int(mass), n << MASS_BITS)
    form = canonical_form(DenseSource(kernel, total, start), total, int(ridge))
    b = np.zeros(n)
    labels = np.full(n, "R")
    b[form.margin], labels[form.margin] = form.b, "S"
    b[form.error], labels[form.error] = 1.0, "E"
    return b, form.mu, "".join(labels)
