"""Scaling of key columns, fixed when a memory is built.

A scaler maps column ``j`` to ``(x - mean_j) / scale_j`` with numbers that are chosen once and
never change: a deletion must not leave a trace by moving them. Where they come from decides what
they give away: ``standard`` numbers come from the rows themselves, so they also depend on rows that
are forgotten later; ``from-file`` and ``fixed-range`` numbers do not.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contract import LARGEST_GAMMA
from .errors import FileFormatError, InputError

Floats = NDArray[np.float64]

KINDS = ("standard", "fixed-range", "from-file")


@dataclass(frozen=True)
class Scaler:
    """Affine scaling of d columns.

    Parameters
    ----------
    kind : str
        ``standard``, ``fixed-range`` or ``from-file``.
    mean : tuple of d floats
        Subtracted, in the column's unit (for a fixed range: its low end).
    scale : tuple of d floats
        Divided by, in the column's unit, > 0 (for a fixed range: its length).
    """

    kind: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]

    def apply(self, keys: Floats) -> Floats:
        """Scaled copy of an (n, d) array; infinite where a key is too far off for its scale."""
        with np.errstate(over="ignore"):
            result: Floats = (keys - np.array(self.mean)) / np.array(self.scale)
        return result

    def to_header(self) -> dict[str, Any]:
        """The scaler as JSON values, for the header of a memory file."""
        return {"kind": self.kind, "mean": list(self.mean), "scale": list(self.scale)}

    @classmethod
    def from_header(cls, stored: Mapping[str, Any] | None, dimension: int) -> Scaler | None:
        """The scaler stored in a file's header, None when keys were not scaled.

        Raises
        ------
        FileFormatError
            If the stored numbers cannot scale keys of ``dimension`` columns.
        """
        if stored is None:
            return None
        try:
            scaler = cls(
                str(stored["kind"]),
                tuple(float(x) for x in stored["mean"]),
                tuple(float(x) for x in stored["scale"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise FileFormatError("the scaler in the file's header is damaged") from None
        if (
            scaler.kind not in KINDS
            or len(scaler.mean) != dimension
            or len(scaler.scale) != dimension
            or not all(math.isfinite(x) for x in scaler.mean)
            or not all(math.isfinite(x) and x > 0 for x in scaler.scale)
        ):
            raise FileFormatError(
                f"the scaler in the file's header does not fit keys of {dimension} columns"
            )
        return scaler


def standard_scaler(
    keys: Floats, kind: str = "standard", columns: Sequence[str] | None = None
) -> Scaler:
    """Scaler to mean 0 and standard deviation 1 of ``keys`` (n, d).

    Sums are exact (``math.fsum``), so the order of the rows does not change a bit of the result. A
    constant column is only centred (its scale is 1).

    Parameters
    ----------
    keys : (n, d) array
        Finite numbers.
    kind : str
        ``standard`` or ``from-file``.
    columns : sequence of d str, optional
        Names of the columns, for messages.

    Raises
    ------
    InputError
        If a column varies by less than the smallest number that can be divided by.
    """
    means, scales = [], []
    for j, column in enumerate(keys.T):
        if column.min() == column.max():  # else rounding of the mean would pass for a deviation
            means.append(float(column[0]) + 0.0)  # 0 and -0 are equal: their order must not show
            scales.append(1.0)
            continue
        mean, variance, power = _moments(column)
        deviation = math.ldexp(math.sqrt(variance), power)
        if deviation < sys.float_info.min:  # a rounded denormal: nothing to divide by
            name = j if columns is None else repr(columns[j])
            raise InputError(
                f"key column {name} has standard deviation {deviation:.3g}, too small to scale by;"
                " give it in another unit"
            )
        means.append(math.ldexp(mean, power))
        scales.append(deviation)
    return Scaler(kind, tuple(means), tuple(scales))


def range_scaler(specs: Sequence[str], columns: Sequence[str]) -> Scaler:
    """Scaler that maps a declared range of each column to 0..1 (values outside are not clipped).

    Parameters
    ----------
    specs : sequence of str
        ``"HR=0:300,SBP=0:250"``; every key column exactly once.
    columns : sequence of str
        The key columns, in order.

    Raises
    ------
    InputError
        If a range cannot be read, or a column is unknown, repeated or missing.
    """
    ranges: dict[str, tuple[float, float]] = {}
    for spec in specs:
        whole = spec.rpartition("=")[0].strip() in columns  # a column name may contain a comma
        for part in [spec] if whole else spec.split(","):
            name, _, bounds = part.rpartition("=")
            name = name if name in columns else name.strip()
            if not name:
                raise InputError(f"range {part.strip()!r}: expected COLUMN=LOW:HIGH")
            if name not in columns:
                raise InputError(f"range for {name!r}, which is not a key column: {list(columns)}")
            if name in ranges:
                raise InputError(f"two ranges are given for column {name!r}")
            ranges[name] = _bounds(bounds, f"range {part.strip()!r}")
    missing = [name for name in columns if name not in ranges]
    if missing:
        raise InputError(f"no range is given for key column {missing[0]!r}; every key needs one")
    lows = tuple(ranges[name][0] for name in columns)
    return Scaler("fixed-range", lows, tuple(ranges[n][1] - ranges[n][0] for n in columns))


def _bounds(text: str, what: str) -> tuple[float, float]:
    """Low and high end from ``LOW:HIGH``; their difference can be divided by."""
    low_text, _, high_text = text.partition(":")
    try:
        low, high = float(low_text), float(high_text)
    except ValueError:
        raise InputError(f"{what}: expected COLUMN=LOW:HIGH, two numbers") from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"{what}: LOW and HIGH must be finite, got {low:g} and {high:g}")
    if not low < high:
        raise InputError(f"{what}: LOW must be less than HIGH")
    if math.isinf(high - low):
        raise InputError(f"{what} is too long: HIGH - LOW is more than {sys.float_info.max:.3g}")
    if high - low < sys.float_info.min:
        raise InputError(f"{what} is too short: HIGH - LOW is less than {sys.float_info.min:.3g}")
    return low, high


def scale_gamma(keys: Floats) -> float:
    """Gamma ``1 / (d * variance)`` of scaled keys (n, d), scikit-learn's ``gamma="scale"``.

    The variance runs over all entries. Exact sums again: row order does not matter.

    Raises
    ------
    InputError
        If all entries are equal, or gamma would be 0 or above its largest value.
    """
    entries = keys.ravel()
    if entries.min() == entries.max():
        raise InputError("gamma 'scale' needs keys that vary; give --gamma as a number")
    _, variance, power = _moments(entries)
    with np.errstate(over="ignore"):
        product = float(np.ldexp(keys.shape[1] * variance, 2 * power))
    gamma = 1.0 / product if product > 0 else math.inf
    if not 0 < gamma <= LARGEST_GAMMA:
        deviation = math.ldexp(math.sqrt(variance), power)
        raise InputError(
            "gamma 'scale' is 1 / (columns * variance), and the scaled keys have standard deviation"
            f" {deviation:.3g}: too {'small' if gamma else 'large'}; scale the keys with"
            " --standardize or --range, or give --gamma as a number"
        )
    return gamma


def _moments(numbers: Floats) -> tuple[float, float, int]:
    """Mean and variance of finite numbers, in units of ``2**p`` and ``4**p``, and p.

    In these units all numbers are below 1, so no square overflows and none that matters
    underflows. Powers of two cost no rounding.
    """
    power = int(np.frexp(np.abs(numbers).max())[1])
    small = np.ldexp(numbers, -power)
    mean = math.fsum(small) / len(small)
    centred = small - mean
    return mean, math.fsum(centred * centred) / len(small), power
