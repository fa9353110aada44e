"""The three numbers that define a memory, fixed for its life.

A contract names the problem every other module solves (see :mod:`svmemory.problem`). The cap is
kept as its reciprocal, the mass ``m = 1/C`` on a grid of 2**-39, because a float ``C`` makes
``k * C == 1`` false by a rounding, and "all rows exactly at the cap" must be decidable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import ContractError

KERNEL_BITS = 52
"""Kernel values and the ridge are whole multiples of 2**-52."""

MASS_BITS = 39
"""The mass is a whole multiple of 2**-39."""

KERNEL_VERSION = "gaussian-1"
"""Name of the arithmetic in :mod:`svmemory.kernel`; part of every digest."""

LARGEST_GAMMA = 1e100
"""Largest gamma: beyond it, key differences that matter would underflow when squared."""

RIDGE_FLOOR = 1e-10
"""Smallest non-zero ridge: below it float64 factors cannot certify the optimum."""


def _number(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ContractError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise ContractError(f"{name} must be finite, got {number}")
    return number


@dataclass(frozen=True)
class Contract:
    """Kernel width, mass and ridge of a memory.

    Parameters
    ----------
    gamma : float
        Kernel parameter of ``exp(-gamma |x - y|^2)``, in 1 / (key unit)^2, > 0 and at most 1e100.
    mass : float
        ``m = 1/C`` in rows, > 0; rounded to the 2**-39 grid.
    ridge : float
        Added to the kernel's diagonal; 0, or from 1e-10 to 1e6. Rounded to the 2**-52 grid.

    Raises
    ------
    ContractError
        If a number is missing its range.
    """

    gamma: float
    mass: float
    ridge: float = 1e-8

    def __post_init__(self) -> None:
        gamma = _number("gamma", self.gamma)
        if not gamma > 0:
            raise ContractError(f"gamma must be > 0, got {gamma}")
        if gamma > LARGEST_GAMMA:
            raise ContractError(f"gamma must be at most {LARGEST_GAMMA:g}, got {gamma}")
        mass = _number("mass", self.mass)
        if mass < 2.0**14:  # above, every float64 is on the grid
            mass = round(mass * 2.0**MASS_BITS) / 2.0**MASS_BITS
        if not mass > 0:
            raise ContractError(
                f"the mass 1/C must be at least 2**-39, got {self.mass} (C is too large)"
            )
        if mass >= 2.0**40:
            raise ContractError(f"the mass 1/C must be below 2**40 rows, got {mass}")
        ridge = _number("ridge", self.ridge)
        if ridge != 0 and not RIDGE_FLOOR <= ridge <= 1e6:
            raise ContractError(f"ridge must be 0 or from {RIDGE_FLOOR} to 1e6, got {ridge}")
        object.__setattr__(self, "gamma", gamma)
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "ridge", round(ridge * 2**KERNEL_BITS) / 2**KERNEL_BITS)

    @classmethod
    def from_cap(cls, gamma: float, C: float, ridge: float = 1e-8) -> Contract:
        """Contract with cap ``C`` (largest weight of one row), 0 < C <= 2**39."""
        cap = _number("C", C)
        if not cap > 0:
            raise ContractError(f"C must be > 0, got {cap}")
        mass = 2.0**MASS_BITS / cap
        if not math.isfinite(mass):
            raise ContractError(f"C is too small: {cap}")
        return cls(gamma, mass / 2.0**MASS_BITS, ridge)

    @classmethod
    def from_nu(cls, nu: float, n0: int, gamma: float, ridge: float = 1e-8) -> Contract:
        """Contract with cap ``1 / (nu * n0)``: at most a share ``nu`` of ``n0`` rows is outside.

        ``nu`` is in (0, 1]; ``n0`` is the declared size, a whole number >= 1. Both are used once.
        """
        share = _number("nu", nu)
        size = _number("n0", n0)
        if not 0 < share <= 1:
            raise ContractError(f"nu must be in (0, 1], got {share}")
        if size < 1 or size != int(size):
            raise ContractError(f"n0 must be a whole number of rows >= 1, got {n0!r}")
        return cls(gamma, share * size, ridge)

    @property
    def C(self) -> float:
        """Cap on one row's weight."""
        return 1.0 / self.mass

    @property
    def ridge_units(self) -> int:
        """Ridge in units of 2**-52."""
        return int(self.ridge * 2.0**KERNEL_BITS)  # the ridge is on the grid: exact

    @property
    def mass_units(self) -> int:
        """Mass in units of 2**-39."""
        numerator, denominator = self.mass.as_integer_ratio()
        return int(numerator * 2**MASS_BITS // denominator)

    def held_mass(self, n: int) -> float:
        """Total mass ``m' = min(m, n)`` of ``n`` rows."""
        return min(self.mass, float(n))
