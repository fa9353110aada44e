"""A second opinion on the optimum: an interior-point solver that starts from nothing.

    minimise   b' Q b / 2     subject to   sum(b) = m',   0 <= b <= 1,       Q = K + ridge I

Mehrotra's predictor-corrector method in plain NumPy. It starts in the middle of the box and knows
of no earlier state, and it shares no idea with the engine, which walks from vertex to vertex: where
both arrive at the same weights, no common fault has brought them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..errors import ConvergenceError

Floats = NDArray[np.float64]

_ROUNDS = 100
_SOLVED = 1e-20  # mean complementarity product: small, to tell walls apart where curvature is low
_ROUNDING = 1e-12  # error of the other conditions that roundings may leave
_ENOUGH = 1e-3  # error where roundings stop progress: the sets are a guess, proved elsewhere
_WALL = 2.0**-60  # a distance from a wall is never less, or there would be no way back


@dataclass(frozen=True)
class InteriorPoint:
    """Masses strictly inside the box, with the multipliers of its walls.

    Attributes
    ----------
    b, lower, upper : (n,) arrays
        ``lower`` belongs to ``b >= 0``, ``upper`` to ``b <= 1``.
    """

    b: Floats
    lower: Floats
    upper: Floats

    @property
    def labels(self) -> str:
        """One letter a row: S margin, E error, R reserve.

        A row is at a wall if its distance from it is smaller than the wall's multiplier.
        """
        reserve, error = self.lower > self.b, self.upper > 1.0 - self.b
        return "".join(np.where(reserve, "R", np.where(error, "E", "S")).tolist())


def solve(kernel: Floats, ridge: float, held: float) -> InteriorPoint:
    """Optimum of n rows with total mass 0 < ``held`` < n, from a dense (n, n) kernel matrix.

    Raises
    ------
    ConvergenceError
        If it is not reached.
    """
    n = len(kernel)
    q = kernel + ridge * np.eye(n)
    b = np.full(n, held / n)
    h = q @ b
    mu = float(h.mean())
    scale = 1.0 + abs(mu)
    lower = np.full(n, scale)
    upper = np.full(n, scale)
    best: tuple[float, InteriorPoint | None] = (np.inf, None)
    stalled = 0
    for _ in range(_ROUNDS):
        system = _System(q, h, b, mu, lower, upper, held)
        error = system.error / scale
        stalled = stalled + 1 if error > 0.9 * best[0] else 0
        if error < best[0]:
            best = error, InteriorPoint(b, lower, upper)
        patience = 5 if error > _ROUNDING else 0
        if error <= _SOLVED or stalled > patience or not system.factored:
            break
        db, dmu, dl, du = system.direction(0.0, 0.0, 0.0)
        length = _room(b, db, lower, dl, upper, du)
        after = (lower + length * dl) @ (b + length * db)
        after += (upper + length * du) @ (1.0 - b - length * db)
        target = system.gap * (float(after) / (2 * n) / system.gap) ** 3
        db, dmu, dl, du = system.direction(target, dl * db, -du * db)
        length = min(1.0, 0.995 * _room(b, db, lower, dl, upper, du))
        b, mu = b + length * db, mu + length * dmu
        lower, upper = lower + length * dl, upper + length * du
        h = q @ b
    if best[1] is None or best[0] > _ENOUGH:
        raise ConvergenceError(f"the independent solve stops {best[0]:.1e} from the optimum")
    return best[1]


class _System:
    """The conditions at one point, and Newton directions for them."""

    def __init__(
        self, q: Floats, h: Floats, b: Floats, mu: float, lower: Floats, upper: Floats, held: float
    ) -> None:
        self.b, self.room = np.maximum(b, _WALL), np.maximum(1.0 - b, _WALL)
        self.lower, self.upper = lower, upper
        self.dual = mu - h + lower - upper  # to become zero
        self.missing = held - float(b.sum())
        self.gap = float(lower @ b + upper @ self.room) / (2 * len(b))
        rest = max(float(np.abs(self.dual).max()), abs(self.missing) / len(b))
        self.error = self.gap if rest <= _ROUNDING * (1.0 + abs(mu)) else max(self.gap, rest)
        matrix = q.copy()
        matrix[np.diag_indices(len(b))] += lower / self.b + upper / self.room
        self._factor: Any = None
        try:
            self._factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return
        self._ones = cho_solve(self._factor, np.ones(len(b)), check_finite=False)

    @property
    def factored(self) -> bool:
        """Whether there is a direction."""
        return self._factor is not None

    def direction(
        self, target: float, low: Floats | float, high: Floats | float
    ) -> tuple[Floats, float, Floats, Floats]:
        """Step of (b, mu, lower, upper) towards products ``target``, corrected by second order."""
        to_lower = (target - low) / self.b - self.lower
        to_upper = (target - high) / self.room - self.upper
        db = cho_solve(self._factor, self.dual + to_lower - to_upper, check_finite=False)
        dmu = (self.missing - float(db.sum())) / float(self._ones.sum())
        db = db + dmu * self._ones
        return (
            db,
            dmu,
            to_lower - self.lower / self.b * db,
            to_upper + self.upper / self.room * db,
        )


def _room(b: Floats, db: Floats, lower: Floats, dl: Floats, upper: Floats, du: Floats) -> float:
    """Longest step, at most 1, that leaves everything positive."""
    length = 1.0
    for value, change in ((b, db), (1.0 - b, -db), (lower, dl), (upper, du)):
        falls = change < 0.0
        if falls.any():
            length = min(length, float((-value[falls] / change[falls]).min()))
    return length
