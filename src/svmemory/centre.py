"""Centres of a memory in feature space, and how far one can be below another as a row sees them.

A row x is a point ``phi(x)`` of the kernel's feature space, of length 1, and a memory with masses
``b`` has the centre ``c = sum_i b_i phi(x_i)``. A reserve row j has *height* ``h_j = <c,
phi(x_j)>`` and *slack* ``h_j - mu``. When the centre goes from ``c0`` to ``c``, then for every
``tilt >= -1``

    h_j(c) = (1 + tilt) h_j(c0) + <c - (1 + tilt) c0, phi(x_j)>
          >= (1 + tilt) floor - |c - (1 + tilt) c0|          if h_j(c0) >= floor,

which needs nothing of row j but the floor. docs/pruning.md has the whole argument.

Kernel values are those of the package, :func:`svmemory.problem.gaussian_error` away from a kernel
that is positive definite. That and every rounding is counted, and counted downwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import problem
from .engine.state import RESERVE
from .errors import InputError
from .holding import Holding
from .reads import kernel_sums

Floats = NDArray[np.float64]

ROUND = 2.0**-53  # unit roundoff of float64
_BLOCK = 4096


@dataclass(frozen=True)
class Centre:
    """``sum_i b_i phi(x_i)`` over some held rows.

    Attributes
    ----------
    names : list of str
        Ids of the rows.
    keys : (n, d) array
    b : (n,) array
        Their masses, > 0.
    """

    names: list[str]
    keys: Floats
    b: Floats


def present_centre(holding: Holding) -> Centre:
    """Centre of the present state."""
    engine = holding.engine
    if engine is None:
        return Centre([], np.zeros((0, 1)), np.zeros(0))
    slots = engine.active_slots()
    b = engine.masses(slots)
    slots, b = slots[b > 0.0], b[b > 0.0]
    return Centre(holding.table.names(slots), engine.keys(slots), b)


def blur(dimension: int, rows: int) -> float:
    """Bound on the error of ``x' K y`` over up to ``rows`` rows, for ``|x|_1 |y|_1 = 1``.

    The kernel's own error, and two nested sums in any order with some operations around them.
    """
    return problem.gaussian_error(dimension) + (2.02 * rows + 64.0) * ROUND


def form(x: Floats, left: Floats, y: Floats, right: Floats, gamma: float) -> float:
    """``x' K y`` between the keys ``left`` (of x) and ``right`` (of y)."""
    near = np.ascontiguousarray(right.T)
    return float(x @ kernel_sums(near, y, left, gamma)) if len(x) and len(y) else 0.0


def square(centre: Centre, gamma: float) -> float:
    """Upper bound on ``|c|^2``, close to it."""
    mass = float(centre.b.sum())
    error = blur(centre.keys.shape[1], len(centre.b)) * mass**2
    return form(centre.b, centre.keys, centre.b, centre.keys, gamma) + error


def carried(
    floor: float, old: Centre, old_square: float, new: Centre, gamma: float
) -> tuple[float, float]:
    """What is known at ``new``, if no row's height is less than ``floor`` at ``old``.

    Parameters
    ----------
    floor : float
        >= 0.
    old, new : Centre
        Equal names are the same row.
    old_square : float
        :func:`square` of ``old``.
    gamma : float
        Of the kernel.

    Returns
    -------
    floor : float
        No row's height is less there. >= 0: kernel values are not negative, and so is no height.
    square : float
        As :func:`square`, from what was computed anyway.
    """
    if floor <= 0.0 or not len(new.b):
        return 0.0, 0.0
    moved, keys = _difference(old, new)
    if not len(moved):
        return floor, old_square
    length = form(moved, keys, moved, keys, gamma)
    along = form(moved, keys, old.b, old.keys, gamma)
    size, mass = float(np.abs(moved).sum()), float(old.b.sum())
    error = blur(keys.shape[1], max(len(moved), len(old.b)))
    best = 0.0
    for tilt in _tilts(floor, old_square, length, along):
        rest = length - 2.0 * tilt * along + tilt * tilt * old_square
        reach = math.sqrt(max(rest, 0.0) + error * (size + abs(tilt) * mass) ** 2)
        # `moved` is the rounded difference of two masses
        slip = 8.0 * ROUND * ((1.0 + abs(tilt)) * floor + reach + size)
        best = max(best, (1.0 + tilt) * floor - reach - slip)
    return best, old_square + 2.0 * along + length + 2.0 * error * (size + mass) ** 2


def _difference(old: Centre, new: Centre) -> tuple[Floats, Floats]:
    """Masses of ``new`` minus those of ``old`` where they differ, and the keys of these rows."""
    change = dict(zip(new.names, new.b.tolist(), strict=True))
    for name, b in zip(old.names, old.b.tolist(), strict=True):
        change[name] = change.get(name, 0.0) - b
    place = {name: i for i, name in enumerate([*old.names, *new.names])}
    moved = {place[name]: x for name, x in change.items() if x != 0.0}
    keys = np.concatenate([old.keys, new.keys])[list(moved)]
    return np.array(list(moved.values())), keys


def _tilts(floor: float, old_square: float, length: float, along: float) -> list[float]:
    """Candidates; the last is the best one in exact arithmetic, and any is allowed.

    The best tilt bounds ``<c, phi>`` over all unit vectors with ``<c0, phi> >= floor``: a cap of
    the sphere around the old centre's direction, and not the whole sphere.
    """
    ratio = along / old_square
    across = max(length - along * ratio, 0.0)
    rim = old_square - floor * floor
    best = ratio + floor * math.sqrt(across / (old_square * rim)) if rim > 0.0 else ratio
    return [0.0, max(ratio, -1.0), max(best, -1.0)]


@dataclass(frozen=True)
class Prunable:
    """Reserve rows in order of arrival, and how much slack each has at least.

    Attributes
    ----------
    names : list of str
    heights : (r,) array
        ``h_j``, as computed.
    error : float
        Bound on its rounding error, for the kernel values as they are.
    slack : (r,) array
        Lower bounds of the gate-score slack ``g_j = 2 (h_j - mu) / m'``.
    """

    names: list[str]
    heights: Floats
    error: float
    slack: Floats

    @property
    def least_slack(self) -> float:
        """Smallest slack; infinite without rows."""
        return float(self.slack.min(initial=math.inf))


def prunable(holding: Holding, least: float = 0.0) -> Prunable:
    """Reserve rows of the present state with at least this slack; 0 takes all of them.

    Raises
    ------
    InputError
        If ``least`` is negative or no number.
    """
    if isinstance(least, str) or not least >= 0.0:
        raise InputError(f"keep_slack_below must be a number >= 0, got {least!r}")
    engine = holding.engine
    if engine is None:
        return Prunable([], np.zeros(0), 0.0, np.zeros(0))
    slots = holding.table.in_order()
    slots = slots[engine.codes(slots) == RESERVE]
    now, mu, held = present_centre(holding), engine.mu, holding.held_mass
    near, gamma = np.ascontiguousarray(now.keys.T), holding.contract.gamma
    heights = np.zeros(len(slots))
    for start in range(0, len(slots), _BLOCK):  # keys of a cold tier should not all be in memory
        part = slice(start, start + _BLOCK)
        heights[part] = kernel_sums(near, now.b, engine.keys(slots[part]), gamma)
    error = (2.02 * len(now.b) + 16.0) * ROUND * held
    slack = 2.0 * (heights - mu - (error + 4.0 * ROUND * mu)) / held
    slack -= 4.0 * ROUND * np.abs(slack)
    enough = slack >= least if least > 0.0 else np.ones(len(slots), bool)
    names = holding.table.names(slots[enough])
    return Prunable(names, heights[enough], error, slack[enough])
