"""Two slow solvers that are easy to believe, to check the engine by.

:func:`canonical` computes the canonical form of a memory with whole numbers only, no rounding
before the end. :func:`solve` is a dense float64 solver that also takes ``ridge = 0``. Both walk the
same way: start from a feasible point, minimise over the rows strictly inside the box with all
others held at their bound, stop a step where the first row meets its bound, and at each minimum
release the row whose gradient is most wrong.

Every exact step has positive length and lowers the objective: rows at a bound leave the free set at
once, and a released row moves inwards. So no minimum is visited twice, nothing cycles, and no rule
against cycling is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from . import problem
from .contract import KERNEL_BITS, MASS_BITS, Contract
from .errors import ContractError, ConvergenceError, InputError
from .kernel import gaussian_kernel, kernel_units

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_GRID_BITS = 112  # exact values are rounded to multiples of 2**-112 before float64
_TOLERANCE = 2.0**-46  # float solver: largest KKT residual of an answer, for ridge <= 1


@dataclass(frozen=True)
class Solution:
    """An optimum: masses ``b = m' a``, their multiplier, and how well they satisfy the conditions.

    Attributes
    ----------
    masses : (n,) array
        ``b``, in [0, 1], sum ``held``.
    mu : float
        Common value of ``(K + ridge I) b`` on the margin; the largest over error rows without one.
    labels : str
        One letter a row: S margin, E error, R reserve.
    held, ridge : float
        ``m' = min(m, n)`` and the ridge.
    residual : float
        Largest violation, :func:`svmemory.problem.kkt_residual`.
    """

    masses: Floats
    mu: float
    labels: str
    held: float
    ridge: float
    residual: float

    @property
    def weights(self) -> Floats:
        """``a = b / m'``, sum 1."""
        return self.masses / self.held

    @property
    def offset(self) -> float:
        """``rho = 1 + ridge - 2 mu / m'``."""
        return problem.offset_from_mu(self.mu, self.ridge, self.held)


def from_keys(keys: Floats, contract: Contract) -> Solution:
    """Optimum for (n, d) keys, n >= 1: exact and rounded if ridge > 0, else by :func:`solve`."""
    kernel = gaussian_kernel(keys, keys, contract.gamma)
    if contract.ridge == 0.0:
        return solve(kernel, 0.0, contract.mass)
    units = kernel_units(keys, keys, contract.gamma)
    masses, mu, _ = canonical(units, contract.ridge_units, contract.mass_units)
    return _solution(kernel, contract.ridge, contract.held_mass(len(keys)), masses, mu)


# -- exact --------------------------------------------------------------------------------------


def canonical(
    kernel: Integers, ridge: int, mass: int, start: Floats | None = None
) -> tuple[Floats, float, str]:
    """Canonical form by rational arithmetic; good for some tens of rows.

    Parameters
    ----------
    kernel : (n, n) int64 array
        Symmetric, in units of 2**-52, diagonal 2**52.
    ridge : int
        In units of 2**-52, > 0.
    mass : int
        ``m = 1/C`` in units of 2**-39, > 0, before ``m' = min(m, n)``.
    start : (n,) array, optional
        Approximate masses. The answer does not depend on them, only the time does.

    Returns
    -------
    b : (n,) float64 array
        Masses, rounded half-even to the 2**-112 grid, then half-even to float64.
    mu : float
        Rounded the same way.
    labels : str
        One letter a row, from the rounded masses: S margin, E error, R reserve.

    Raises
    ------
    ContractError
        If the ridge or the mass is not positive, or the ridge does not make the matrix positive
        definite.
    InputError
        If an array has the wrong shape or values.
    """
    masses, mu = exact_optimum(kernel, ridge, mass, start)
    b = np.array([_rounded(x) for x in masses], dtype=np.float64)
    # A margin cannot vanish by this rounding: at a vertex every difference of gradients is 0 or at
    # least 2**-52, so the nearest optimum inside is further from it than the grid is wide.
    return b, _rounded(mu), _labels(b)


def exact_optimum(
    kernel: Integers, ridge: int, mass: int, start: Floats | None = None
) -> tuple[list[Fraction], Fraction]:
    """Unrounded masses ``b`` and multiplier ``mu`` of :func:`canonical`."""
    n = len(kernel)
    if ridge <= 0 or mass <= 0:
        raise ContractError(f"the exact optimum needs ridge > 0 and mass > 0, got {ridge}, {mass}")
    if kernel.shape != (n, n) or not np.array_equal(kernel, kernel.T):
        raise InputError("the kernel must be a symmetric matrix")
    if np.any(np.diagonal(kernel) != 2**KERNEL_BITS):
        raise InputError("the kernel's diagonal must be 2**52")
    if n == 0:
        return [], Fraction(0)
    q: list[list[int]] = kernel.tolist()
    for i in range(n):
        q[i][i] += ridge
    total = min(Fraction(mass, 2**MASS_BITS), Fraction(n))
    if start is None:  # the float solver's point, however far it got
        start, _ = _walk(kernel / 2.0**KERNEL_BITS, ridge / 2.0**KERNEL_BITS, float(total))
    b = _feasible(start, n, total)
    released: list[int] = []
    while True:
        free = sorted([i for i in range(n) if 0 < b[i] < 1] + released)
        released = []
        if free:
            full_step = _step(b, free, _minimiser(q, b, free, total))
            if not full_step:
                continue
        h = _product(q, b)  # b is now the minimum with all other rows held
        margin = [i for i in range(n) if 0 < b[i] < 1]
        largest_error = max((i for i in range(n) if b[i] == 1), key=lambda i: h[i], default=-1)
        mu = h[margin[0]] if margin else h[largest_error]
        wrong = [mu - h[i] if b[i] == 0 else h[i] - mu for i in range(n)]
        worst = max(range(n), key=lambda i: wrong[i])
        if wrong[worst] <= 0:
            return b, mu / 2**KERNEL_BITS
        released = [worst] if margin else [largest_error, worst]


def _feasible(start: Floats, n: int, total: Fraction) -> list[Fraction]:
    """``start`` clipped to the box, its sum repaired on few rows, those inside the box first."""
    if np.shape(start) != (n,) or not np.all(np.isfinite(start)):
        raise InputError(f"start must be {n} finite numbers")
    # A grid keeps the numbers short; the start is approximate anyway.
    b = [Fraction(round(min(max(float(x), 0.0), 1.0) * 2**64), 2**64) for x in start]
    missing = total - sum(b)
    for i in sorted(range(n), key=lambda i: not 0 < b[i] < 1):
        repaired = min(max(b[i] + missing, Fraction(0)), Fraction(1))
        missing -= repaired - b[i]
        b[i] = repaired
    return b


def _minimiser(
    q: list[list[int]], b: list[Fraction], free: list[int], total: Fraction
) -> list[Fraction]:
    """Minimum over the free rows: ``(Q b)_i`` equal on them and the sum right, box ignored.

    Fraction-free (Bareiss) Gauss-Jordan elimination of ``Q_FF [x y] = [1 load]``: every division is
    exact, and the pivots are the leading minors, positive if and only if ``Q_FF`` is positive
    definite. The minimum is ``t x - y`` with the ``t`` that gives the sum.
    """
    held = [j for j in range(len(b)) if b[j] == 1 and j not in free]
    rows = [[q[i][j] for j in free] + [1, sum(q[i][j] for j in held)] for i in free]
    det = 1
    for k, pivot_row in enumerate(rows):
        pivot, tail = pivot_row[k], pivot_row[k + 1 :]
        if pivot <= 0:
            raise ContractError("the ridge is too small: kernel + ridge is not positive definite")
        for i, row in enumerate(rows):
            if i != k:
                factor = row[k]
                row[k + 1 :] = [
                    (pivot * x - factor * y) // det for x, y in zip(row[k + 1 :], tail, strict=True)
                ]
        det = pivot
    x, y = [row[-2] for row in rows], [row[-1] for row in rows]  # both times det
    t = ((total - len(held)) * det + sum(y)) / sum(x)
    return [(t * xi - yi) / det for xi, yi in zip(x, y, strict=True)]


def _step(b: list[Fraction], free: list[int], target: list[Fraction]) -> bool:
    """Move ``b`` towards ``target`` until a row meets its bound; True if it got there."""
    limits = {
        i: ((1 if end > 1 else 0) - b[i]) / (end - b[i])
        for i, end in zip(free, target, strict=True)
        if not 0 <= end <= 1
    }
    length = min(limits.values(), default=Fraction(1))
    for i, end in zip(free, target, strict=True):
        if limits.get(i) == length:
            b[i] = Fraction(1 if end > 1 else 0)
        else:
            b[i] += length * (end - b[i])
    return not limits


def _product(q: list[list[int]], b: list[Fraction]) -> list[Fraction]:
    """``Q b`` with one common denominator, which saves most of the work of adding fractions."""
    common = math.lcm(*(x.denominator for x in b))
    whole = [(j, x.numerator * (common // x.denominator)) for j, x in enumerate(b) if x != 0]
    return [Fraction(sum(row[j] * x for j, x in whole), common) for row in q]


def _rounded(value: Fraction) -> float:
    """Half-even to the 2**-112 grid, then half-even to float64."""
    units, one = round(value * 2**_GRID_BITS), 2**_GRID_BITS
    return float(Fraction(units, one))  # correctly rounded


# -- float64 ------------------------------------------------------------------------------------


def solve(kernel: Floats, ridge: float, mass: float) -> Solution:
    """Optimum in float64 from a dense kernel matrix, ridge >= 0.

    Parameters
    ----------
    kernel : (n, n) array
        Symmetric, positive semidefinite up to roundings, diagonal 1, n >= 1.
    ridge : float
        At 0 the optimum need not be unique; this is one of them.
    mass : float
        ``m = 1/C`` in rows, > 0.

    Returns
    -------
    Solution
        Residual at most ``2**-46 (1 + ridge)``. Weights are then accurate to about
        ``1e-14 / ridge`` or better.

    Raises
    ------
    ContractError, InputError
        If a number or the matrix is unusable.
    ConvergenceError
        If the residual cannot be reached.
    """
    n = len(kernel)
    if ridge < 0 or not mass > 0:
        raise ContractError(f"the problem needs ridge >= 0 and mass > 0, got {ridge}, {mass}")
    if n == 0 or kernel.shape != (n, n) or not np.all(np.isfinite(kernel)):
        raise InputError("the kernel must be a square matrix of finite numbers, not empty")
    held = min(float(mass), float(n))
    masses, mu = _walk(kernel, ridge, held)
    solution = _solution(kernel, ridge, held, masses, mu)
    if not solution.residual <= _TOLERANCE * (1.0 + ridge):
        raise ConvergenceError(f"the KKT residual stays at {solution.residual:.1e}")
    return solution


def _walk(kernel: Floats, ridge: float, held: float) -> tuple[Floats, float]:
    """The walk of the module's description in float64, until nothing is wrong or time is up."""
    n = len(kernel)
    q = kernel + ridge * np.eye(n)
    b = np.zeros(n)
    outermost = np.argsort(q.sum(axis=1), kind="stable")  # likely error rows
    whole = int(held)
    b[outermost[:whole]] = 1.0
    if whole < n:
        b[outermost[whole]] = held - whole
    released: list[int] = []
    mu = 0.0
    for _ in range(100 + 20 * n):
        free = np.union1d(np.flatnonzero((b > 0.0) & (b < 1.0)), released).astype(np.int64)
        released = []
        if free.size:
            target = b[free] + _direction(q[np.ix_(free, free)], q[free] @ b, ridge)
            if not _float_step(b, free, target, 2.0**-52 * held):
                continue
        h = q @ b
        margin, full = (b > 0.0) & (b < 1.0), b == 1.0
        mu = float(h[margin].mean() if margin.any() else h[full].max())
        wrong = np.where(margin, np.abs(h - mu), np.where(full, h - mu, mu - h))
        if 2.0 * wrong.max() <= 0.25 * _TOLERANCE * (1.0 + ridge) * held:
            break
        worst = int(np.where(margin, -np.inf, wrong).argmax()) if not margin.all() else -1
        if worst >= 0 and wrong[worst] > 0.0:
            released = [worst]
            if not margin.any():
                released.append(int(np.where(full, h, -np.inf).argmax()))
    return b, mu


def _direction(q: Floats, h: Floats, ridge: float) -> Floats:
    """Step to the minimum over the free rows, its sum 0.

    Duplicates make the system singular without a ridge. A shift above the rounding of the kernel
    makes it definite; it only shortens steps, and the walk repeats them until nothing is wrong.
    """
    size = len(q)
    bordered = np.ones((size + 1, size + 1))
    bordered[:size, :size] = q + max(0.0, size * 2.0**-50 - ridge) * np.eye(size)
    bordered[size, size] = 0.0
    right = np.append(h.mean() - h, 0.0)
    return np.asarray(np.linalg.solve(bordered, right)[:size])


def _float_step(b: Floats, free: NDArray[np.int64], target: Floats, dust: float) -> bool:
    """:func:`_step` in float64; a row that ends within ``dust`` of a bound is put exactly on it."""
    bound = np.where(target > 0.5, 1.0, 0.0)
    outside = (target < 0.0) | (target > 1.0)
    limits = np.where(np.abs(target - bound) <= dust, 1.0, np.inf)
    limits[outside] = (bound - b[free])[outside] / (target - b[free])[outside]
    length = min(1.0, limits.min())
    b[free] = np.where(limits <= length, bound, b[free] + length * (target - b[free]))
    return bool(np.isinf(limits).all())


def _labels(b: Floats) -> str:
    return "".join("R" if x == 0.0 else "E" if x == 1.0 else "S" for x in b)


def _solution(kernel: Floats, ridge: float, held: float, masses: Floats, mu: float) -> Solution:
    a = masses / held
    rho = problem.offset_from_mu(mu, ridge, held)
    residual = problem.kkt_residual(a, problem.product(kernel, ridge, a), ridge, held, rho)
    return Solution(masses, mu, _labels(masses), held, ridge, residual)
