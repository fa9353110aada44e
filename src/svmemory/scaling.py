"""Scaling of key columns, fixed when a memory is built.

A scaler maps column ``j`` to ``(x - mean_j) / scale_j`` with numbers that are chosen once and
never change: a deletion must not leave a trace by moving them. Where they come from decides what
they give away: ``standard`` numbers come from the rows themselves, so they also depend on rows that
are forgotten later; ``from-file`` and ``fixed-range`` numbers do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        """Scaled copy of an (n, d) array."""
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
        except (KeyError, TypeError, ValueError):
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


def standard_scaler(keys: Floats, kind: str = "standard") -> Scaler:
    """Scaler to mean 0 and standard deviation 1 of ``keys`` (n, d).

    Sums are exact (``math.fsum``), so the order of the rows does not change a bit of the result. A
    constant column is only centred (its scale is 1).
    """
    count = len(keys)
    means, scales = [], []
    for column in keys.T:
        mean = math.fsum(column) / count
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in column) / count)
        if column.min() == column.max():  # else rounding of the mean would pass for a deviation
            mean, deviation = float(column[0]), 1.0
        means.append(mean)
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
        whole = spec.rpartition("=")[0] in columns  # a column name may contain a comma
        for part in [spec] if whole else spec.split(","):
            name, _, bounds = part.strip().rpartition("=")
            name = name if name in columns else name.strip()
            low_text, colon, high_text = bounds.partition(":")
            try:
                low, high = float(low_text), float(high_text)
            except ValueError:
                low, high = math.nan, math.nan
            if not name or not colon or not (math.isfinite(high - low) and low < high):
                raise InputError(
                    f"range {part.strip()!r}: expected COLUMN=LOW:HIGH with LOW < HIGH"
                )
            if name not in columns:
                raise InputError(f"range for {name!r}, which is not a key column: {list(columns)}")
            if name in ranges:
                raise InputError(f"two ranges are given for column {name!r}")
            ranges[name] = (low, high)
    missing = [name for name in columns if name not in ranges]
    if missing:
        raise InputError(f"no range is given for key column {missing[0]!r}; every key needs one")
    lows = tuple(ranges[name][0] for name in columns)
    return Scaler("fixed-range", lows, tuple(ranges[n][1] - ranges[n][0] for n in columns))


def scale_gamma(keys: Floats) -> float:
    """Gamma ``1 / (d * variance)`` of scaled keys (n, d), scikit-learn's ``gamma="scale"``.

    The variance runs over all entries. Exact sums again: row order does not matter.

    Raises
    ------
    InputError
        If all entries are equal.
    """
    entries = keys.ravel()
    mean = math.fsum(entries) / len(entries)
    variance = math.fsum((x - mean) ** 2 for x in entries) / len(entries)
    product = float(keys.shape[1] * variance)
    if not (product > 0 and math.isfinite(1.0 / product)):
        raise InputError("gamma 'scale' needs keys that vary; give --gamma as a number")
    return 1.0 / product
