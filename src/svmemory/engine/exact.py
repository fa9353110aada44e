"""Canonical form: the exact optimum, a function of the rows and of nothing else.

Given a start that is nearly optimal, the margin system is solved to 2**-160 by refinement with
exact residuals, then checked and corrected until the exact KKT conditions hold. The floats
involved (a Cholesky factor, ratio tests) only steer; every decision that reaches the result is
taken on integers. Definition and thresholds are those of docs/design.md, "Exact means same bytes".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..contract import KERNEL_BITS, MASS_BITS
from ..errors import ContractError, ConvergenceError
from .fixed import FRACTION, ExactProduct, grid_to_float, to_fixed, to_grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ONE = 1 << FRACTION
_STOP = 1 << (FRACTION - 160)
_BOUND = 1 << (FRACTION - 118)
_STEPS = 80
_EPS = 2.220446049250313e-16


class Source(Protocol):
    """Where kernel values come from; rows are named by integers that the source understands."""

    def start(self) -> tuple[Ints, Floats, Ints]:
        """Margin rows, their masses, and error rows of a nearly optimal state."""

    def block(self, rows: Ints, columns: Ints) -> Floats:
        """Kernel values (len(rows), len(columns)), whole multiples of 2**-52."""

    def error_sums(self, rows: Ints, error: Ints) -> list[int]:
        """Exact sums of the kernel over ``error`` for each of ``rows``, in units of 2**-52."""

    def suspects(self, margin: Ints, b: Floats, error: Ints, mu: float) -> Ints:
        """Reserve rows that are not known to keep a positive slack in the given state."""

    def everyone_else(self, margin: Ints, error: Ints) -> Ints:
        """All rows in neither set."""


@dataclass(frozen=True)
class Canonical:
    """Canonical form of a set of rows.

    Attributes
    ----------
    margin, error : arrays of row names
        All other rows are in reserve.
    b : array
        Masses of the margin rows.
    mu : float
        Multiplier.
    corrections : int
        Changes of set that were needed.
    """

    margin: Ints
    b: Floats
    error: Ints
    mu: float
    corrections: int


def canonical_form(source: Source, total: int, ridge: int) -> Canonical:
    """Exact optimum of the rows behind ``source``.

    Parameters
    ----------
    source : Source
    total : int
        Held mass m' = min(m, n) in units of 2**-39.
    ridge : int
        In units of 2**-52, > 0.

    Raises
    ------
    ContractError
        At ridge 0, where the optimum need not be unique.
    ConvergenceError
        If the margin system is too ill-conditioned for float64 refinement.
    """
    if ridge <= 0:
        raise ContractError(
            "canonical form needs a ridge > 0: without it the optimum is not unique"
        )
    return _Search(source, total, ridge).run()


class _Search:
    """Primal active set over exact numbers."""

    def __init__(self, source: Source, total: int, ridge: int) -> None:
        self.source = source
        self.total = total << (FRACTION - MASS_BITS)
        self.ridge = ridge
        margin, masses, error = source.start()
        self.margin: list[int] = margin.tolist()
        self.error: list[int] = error.tolist()
        self.point = dict(zip(self.margin, to_fixed(masses), strict=True))  # feasible, approximate
        self.corrections = 0
        self.scale = total / 2.0**MASS_BITS + 1.0
        rows = len(self.margin) + len(self.error)
        self.patience = 100 + 4 * rows
        self.limit = 2000 + 40 * rows

    def run(self) -> Canonical:
        while self.corrections <= self.limit:
            if not self.margin:
                if self._settle_empty():
                    return self._finish([], 0)
                continue
            b, mu = self._solve()
            if self._step(b):
                continue
            if not self._release(b, mu):
                return self._finish(b, mu)
        raise ConvergenceError("canonical form: too many corrections; use a larger ridge")

    # -- the margin system ------------------------------------------------------------------------

    def _solve(self) -> tuple[list[int], int]:
        """Masses of the margin and mu, to about 2**-160, in fixed point."""
        names = np.array(self.margin, np.int64)
        kernel = self.source.block(names, names)
        sums = self.source.error_sums(names, np.array(self.error, np.int64))
        exact = ExactProduct(kernel)
        matrix = kernel.copy()
        matrix[np.diag_indices_from(matrix)] += self.ridge / 2.0**KERNEL_BITS
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            raise ConvergenceError("the margin system is singular; use a larger ridge") from None
        ones = cho_solve(factor, np.ones(len(names)), check_finite=False)
        b = [self.point[name] for name in self.margin]
        mu = 0
        need = self.total - len(self.error) * _ONE
        fixed_sums = [x << FRACTION for x in sums]
        last = math.inf
        stalled = 0
        for step in range(_STEPS):
            product = exact @ b
            shifted = mu << KERNEL_BITS
            residual = np.array(
                [
                    float(shifted - c - p - self.ridge * x)
                    for c, p, x in zip(fixed_sums, product, b, strict=True)
                ]
            ) * 2.0 ** -(FRACTION + KERNEL_BITS)
            missing = float(need - sum(b)) * 2.0**-FRACTION
            change = cho_solve(factor, residual, check_finite=False)
            dmu = (missing - change.sum()) / ones.sum()
            change += dmu * ones
            b = [x + y for x, y in zip(b, to_fixed(change), strict=True)]
            mu += to_fixed(np.array([dmu]))[0]
            size = max(float(np.abs(change).max()), abs(dmu))
            if step > 0 and size <= 2.0**-160:
                return b, mu
            if not math.isfinite(size) or max(map(abs, b)) >> (FRACTION + 30):
                break
            stalled = stalled + 1 if step > 1 and size > 0.5 * last else 0
            if stalled > 3:
                break
            last = size
        raise ConvergenceError("refinement does not converge; use a larger ridge")

    # -- corrections ------------------------------------------------------------------------------

    def _step(self, goal: list[int]) -> bool:
        """Move towards ``goal``; where a bound stops the step, that row leaves the margin."""
        out = [
            (i, 0 if x < 0 else _ONE)
            for i, x in enumerate(goal)
            if x < -_BOUND or x > _ONE + _BOUND
        ]
        if not out:
            return False
        self.corrections += 1
        before = [self.point[name] for name in self.margin]
        lengths = [
            max(float(bound - before[i]) / float(goal[i] - before[i]), 0.0) for i, bound in out
        ]
        if self.corrections > self.patience:  # Bland's rule among equals
            shortest = min(lengths)
            pick = min(
                (self.margin[i], k)
                for k, (i, _) in enumerate(out)
                if lengths[k] <= shortest + 1e-15
            )[1]
        else:
            pick = lengths.index(min(lengths))
        numerator = int(min(lengths[pick], 1.0) * 2**60)
        for name, x, y in zip(self.margin, before, goal, strict=True):
            moved = x + ((y - x) * numerator >> 60)
            self.point[name] = min(max(moved, 0), _ONE)
        index, bound = out[pick]
        name = self.margin.pop(index)
        del self.point[name]
        if bound:
            self.error.append(name)
        return True

    def _release(self, b: list[int], mu: int) -> bool:
        """Move the row whose sign is most wrong into the margin; False if there is none."""
        margin = np.array(self.margin, np.int64)
        error = np.array(self.error, np.int64)
        near_b = np.array([float(x) for x in b]) * 2.0**-FRACTION
        near_mu = float(mu) * 2.0**-FRACTION
        reserve = self.source.suspects(margin, near_b, error, near_mu)
        names = np.concatenate([error, reserve])
        if not len(names):
            return False
        side = np.concatenate([np.ones(len(error)), -np.ones(len(reserve))])
        block = self.source.block(names, margin)
        sums = self.source.error_sums(names, error)
        ridge = self.ridge / 2.0**KERNEL_BITS
        h = block @ near_b + np.array([float(x) for x in sums]) * 2.0**-KERNEL_BITS
        violation = side * (h + ridge * (side > 0) - near_mu)
        unsure = 4 * _EPS * (len(margin) + 32) * self.scale
        if violation.max() > unsure:
            candidates = violation > unsure
            amounts: Floats | list[int] = violation
        else:
            doubtful = np.flatnonzero(violation > -unsure)
            if not len(doubtful):
                return False
            products = ExactProduct(block[doubtful]) @ b
            exact = {}
            for k, product in zip(doubtful.tolist(), products, strict=True):
                height = (sums[k] << FRACTION) + product
                if side[k] > 0:
                    height += self.ridge << FRACTION
                exact[k] = int(side[k]) * (height - (mu << KERNEL_BITS))
            # g counts as zero up to ridge * 2**-118
            threshold = self.ridge << (FRACTION - 118)
            candidates = np.zeros(len(names), bool)
            candidates[[k for k, amount in exact.items() if amount > threshold]] = True
            if not candidates.any():
                return False
            amounts = [exact.get(k, 0) for k in range(len(names))]
        rows = np.flatnonzero(candidates).tolist()
        if self.corrections > self.patience:
            pick = min(rows, key=lambda k: int(names[k]))
        else:
            pick = max(rows, key=lambda k: amounts[k])
        self.corrections += 1
        for name, x in zip(self.margin, b, strict=True):
            self.point[name] = min(max(x, 0), _ONE)
        self._enter(int(names[pick]), side[pick] > 0)
        return True

    def _enter(self, name: int, from_error: bool) -> None:
        if from_error:
            self.error.remove(name)
        self.margin.append(name)
        self.point[name] = _ONE if from_error else 0

    def _settle_empty(self) -> bool:
        """Only error and reserve rows: compare exact integers. True if this is the optimum."""
        excess = len(self.error) * _ONE - self.total
        error = np.array(self.error, np.int64)
        none = np.zeros(0, np.int64)
        heights = [x + self.ridge for x in self.source.error_sums(error, error)]
        top = max(range(len(heights)), key=lambda k: (heights[k], -self.error[k]), default=-1)
        if excess == 0:
            mu = heights[top] / 2.0**KERNEL_BITS if heights else 0.0
            others = self.source.suspects(none, np.zeros(0), error, mu)
        else:
            others = self.source.everyone_else(none, error)
        depths = self.source.error_sums(others, error)
        low = min(range(len(depths)), key=lambda k: (depths[k], others[k]), default=-1)
        if excess == 0 and (low < 0 or top < 0 or heights[top] <= depths[low]):
            return True
        self.corrections += 1
        names = []
        if excess >= 0:
            names.append((self.error[top], True))
        if excess <= 0:
            names.append((int(others[low]), False))
        for name, from_error in names:
            self._enter(name, from_error)
        return False

    # -- the result -------------------------------------------------------------------------------

    def _finish(self, b: list[int], mu: int) -> Canonical:
        """Round, and read the sets off the rounded masses."""
        rounded = [to_grid(x) for x in b]
        one = 1 << 112
        margin = [(n, x) for n, x in zip(self.margin, rounded, strict=True) if 0 < x < one]
        error = self.error + [n for n, x in zip(self.margin, rounded, strict=True) if x >= one]
        if margin:
            value = grid_to_float(to_grid(mu))
        elif error:
            names = np.array(error, np.int64)
            height = max(self.source.error_sums(names, names)) + self.ridge
            value = grid_to_float(height << (112 - KERNEL_BITS))
        else:
            value = 0.0
        return Canonical(
            margin=np.array([n for n, _ in margin], np.int64),
            b=np.array([grid_to_float(x) for _, x in margin], np.float64),
            error=np.array(error, np.int64),
            mu=value,
            corrections=self.corrections,
        )
