"""The canonical form by exact arithmetic, from a guess of the sets: docs/design.md, section 2.

Written from the definition and not from the engine. Given margin, error and reserve rows, the
margin's linear system is solved to 2**-170 by refinement: a float Cholesky factor proposes, and the
residual is computed in Python integers. Then every condition is checked for every row, in floats
where those decide beyond doubt and in integers where they do not. The conditions are sufficient and
the optimum is unique, so what passes is the optimum, whoever made the guess.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..contract import KERNEL_BITS, MASS_BITS
from ..errors import ConvergenceError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = Callable[[Ints, Ints], Floats]
"""Kernel values between two sets of rows, whole multiples of 2**-52."""

_FRACTION = 200  # masses and mu are held in units of 2**-200
_ONE = 1 << _FRACTION
_STOP = 2.0**-170
_MASS_SLACK = 1 << (_FRACTION - 118)
_GRID = 112
_TIES = 150  # values closer than this to a multiple of 2**-150 are that multiple
_PASSES = 60
_STEP = 1 << 20  # kernel values at a time


def canonical(
    block: Block, n: int, ridge: int, mass: int, labels: str
) -> tuple[Floats, float, int]:
    """Canonical masses (n,), mu, and the number of rows whose guessed set was wrong.

    Parameters
    ----------
    block : callable
        ``block(rows, columns)`` gives kernel values.
    n : int
        Rows, >= 1.
    ridge, mass : int
        In units of 2**-52 and 2**-39, > 0.
    labels : str
        Guessed sets, one letter a row: S, E or R.

    Raises
    ------
    ConvergenceError
        If no sets that satisfy the conditions were found from this guess.
    """
    search = _Search(block, n, ridge, min(mass, n << MASS_BITS) << (_FRACTION - MASS_BITS))
    search.margin = [i for i, letter in enumerate(labels) if letter == "S"]
    search.error = [i for i, letter in enumerate(labels) if letter == "E"]
    fixed, mu = search.run()
    b = np.zeros(n)
    b[search.error] = 1.0
    b[search.margin] = [_to_float(_to_grid(x)) for x in fixed]
    if np.any((b > 0.0) & (b < 1.0)):
        value = _to_float(_to_grid(mu))
    else:  # every margin mass has rounded to a wall
        value = _to_float(max(search.heights(np.flatnonzero(b == 1.0))) << (_GRID - KERNEL_BITS))
    now = "".join("R" if x == 0.0 else "E" if x == 1.0 else "S" for x in b.tolist())
    return b, value, sum(one != other for one, other in zip(labels, now, strict=True))


class _Search:
    """Sets of rows, moved until the conditions hold."""

    def __init__(self, block: Block, n: int, ridge: int, total: int) -> None:
        self.block, self.n, self.ridge, self.total = block, n, ridge, total
        self.margin: list[int] = []
        self.error: list[int] = []
        self.one_by_one = False

    def run(self) -> tuple[list[int], int]:
        """Fixed-point masses of the margin and mu, in units of 2**-200."""
        seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
        for _ in range(_PASSES):
            state = tuple(self.margin), tuple(self.error)
            if state in seen:  # moving all wrong rows at once can lead round in a circle
                if self.one_by_one:
                    raise ConvergenceError("the exact conditions lead round in a circle")
                self.one_by_one, seen = True, set()
            seen.add(state)
            if not self.margin:
                if self._without_margin():
                    return [], 0
                continue
            b, mu = self._solve()
            if self._leave(b) or self._enter(b, mu):
                continue
            return b, mu
        raise ConvergenceError(f"no sets satisfy the conditions after {_PASSES} passes")

    # -- the margin's system ------------------------------------------------------------------

    def _solve(self) -> tuple[list[int], int]:
        rows = np.array(self.margin)
        kernel = self.block(rows, rows)
        matrix = kernel + self.ridge * 2.0**-KERNEL_BITS * np.eye(len(rows))
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            raise ConvergenceError("the margin's system is singular in float64") from None
        ones = cho_solve(factor, np.ones(len(rows)), check_finite=False)
        units = _units(kernel)
        load = [x << _FRACTION for x in self._error_sums(rows)]
        need = self.total - len(self.error) * _ONE
        b, mu = [0] * len(rows), 0
        for step in range(40):
            product = units @ np.array(b, object)
            residual = np.array(
                [
                    float((mu << KERNEL_BITS) - c - p - self.ridge * x)
                    for c, p, x in zip(load, product, b, strict=True)
                ]
            ) * 2.0 ** -(_FRACTION + KERNEL_BITS)
            change = cho_solve(factor, residual, check_finite=False)
            dmu = (float(need - sum(b)) * 2.0**-_FRACTION - change.sum()) / ones.sum()
            change = change + dmu * ones
            if not np.isfinite(change).all() or np.abs(change).max() > 2.0**60:
                break
            b = [x + int(y * 2.0**_FRACTION) for x, y in zip(b, change.tolist(), strict=True)]
            mu += int(float(dmu) * 2.0**_FRACTION)
            if step > 0 and max(float(np.abs(change).max()), abs(float(dmu))) <= _STOP:
                return b, mu
        raise ConvergenceError("refinement of the margin's system does not converge")

    # -- conditions ---------------------------------------------------------------------------

    def _leave(self, b: list[int]) -> bool:
        """Take rows whose mass is outside the box out of the margin; False if there are none."""
        over = {
            i: max(-x, x - _ONE)
            for i, x in zip(self.margin, b, strict=True)
            if x < -_MASS_SLACK or x > _ONE + _MASS_SLACK
        }
        gone = set(self._chosen(over))
        full = [i for i, x in zip(self.margin, b, strict=True) if i in gone and x > 0]
        self.error = sorted([*self.error, *full])
        self.margin = [i for i in self.margin if i not in gone]
        return bool(over)

    def _enter(self, b: list[int], mu: int) -> bool:
        """Put rows with the wrong sign into the margin; False if there are none."""
        limit = self.ridge << (_FRACTION - 118)
        wrong = {i: x for i, x in self._violations(b, mu).items() if x > limit}
        if not wrong:
            return False
        chosen = set(self._chosen(wrong))
        self.error = [i for i in self.error if i not in chosen]
        self.margin = sorted([*self.margin, *chosen])
        return True

    def _violations(self, b: list[int], mu: int) -> dict[int, int]:
        """Exact violations, in units of 2**-252, of rows that floats do not clear."""
        error, margin = np.array(self.error, np.int64), np.array(self.margin, np.int64)
        active = np.concatenate([margin, error])
        mass = np.concatenate([[x * 2.0**-_FRACTION for x in b], np.ones(len(error))])
        others = np.setdiff1d(np.arange(self.n), margin)
        side = np.where(np.isin(others, error), 1.0, -1.0)
        h = np.empty(len(others))
        step = max(1, _STEP // max(1, len(active)))
        for i in range(0, len(others), step):
            h[i : i + step] = self.block(others[i : i + step], active) @ mass
        h += self.ridge * 2.0**-KERNEL_BITS * (side > 0)
        doubt = 2.0**-50 * (len(active) + 32) * (self.total * 2.0**-_FRACTION + 1.0)
        doubtful = np.flatnonzero(side * (h - mu * 2.0**-_FRACTION) > -doubt)
        rows = others[doubtful]
        if not len(rows):
            return {}
        products = _units(self.block(rows, margin)) @ np.array(b, object)
        found = {}
        for k, i, p, c in zip(doubtful, rows, products, self._error_sums(rows), strict=True):
            height = int(p) + (c << _FRACTION)
            if side[k] > 0:
                found[int(i)] = height + (self.ridge << _FRACTION) - (mu << KERNEL_BITS)
            else:
                found[int(i)] = (mu << KERNEL_BITS) - height
        return found

    def _without_margin(self) -> bool:
        """Only error and reserve rows: True if they are the optimum, else rows are released."""
        excess = len(self.error) * _ONE - self.total
        error = np.array(self.error, np.int64)
        others = np.setdiff1d(np.arange(self.n), error)
        heights, depths = self.heights(error), self._error_sums(others)
        top = max(range(len(heights)), key=heights.__getitem__, default=-1)
        low = min(range(len(depths)), key=depths.__getitem__, default=-1)
        if excess == 0 and (top < 0 or low < 0 or heights[top] <= depths[low]):
            return True
        if excess <= 0:
            self.margin.append(int(others[low]))
        if excess >= 0:
            self.margin.append(self.error.pop(top))
        self.margin.sort()
        return False

    def _chosen(self, amounts: dict[int, int]) -> list[int]:
        """All of some wrong rows, or the worst."""
        if not self.one_by_one or not amounts:
            return list(amounts)
        return [max(amounts, key=amounts.__getitem__)]

    def heights(self, error: Ints) -> list[int]:
        """``(K + ridge I) b`` of error rows with an empty margin, in units of 2**-52."""
        return [x + self.ridge for x in self._error_sums(error, error)]

    def _error_sums(self, rows: Ints, error: Ints | None = None) -> list[int]:
        """Exact sums of the kernel over the error rows, in units of 2**-52."""
        columns = np.array(self.error, np.int64) if error is None else error
        sums: list[int] = []
        step = max(1, _STEP // max(1, len(columns)))
        for i in range(0, len(rows), step):
            units = self.block(rows[i : i + step], columns) * 2.0**KERNEL_BITS
            high = np.floor(units * 2.0**-26)  # both halves add up without rounding
            low = units - high * 2.0**26
            parts = zip(high.sum(axis=1).tolist(), low.sum(axis=1).tolist(), strict=True)
            sums.extend((int(x) << 26) + int(y) for x, y in parts)
        return sums


def _units(kernel: Floats) -> NDArray[np.object_]:
    """Kernel values as Python integers in units of 2**-52."""
    return (kernel * 2.0**KERNEL_BITS).astype(np.int64).astype(object)


def _to_grid(value: int) -> int:
    """Units of 2**-200 to units of 2**-112, halves to even, ties told by the 2**-150 grid."""
    return _half_even(_half_even(value, _FRACTION - _TIES), _TIES - _GRID)


def _half_even(value: int, bits: int) -> int:
    quotient, rest = value >> bits, value & ((1 << bits) - 1)
    half = 1 << (bits - 1)
    return quotient + (rest > half or (rest == half and quotient % 2 == 1))


def _to_float(units: int) -> float:
    """Float64 nearest to ``units * 2**-112``; division of integers rounds correctly."""
    return units / (1 << _GRID)
