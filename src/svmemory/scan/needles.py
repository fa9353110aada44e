"""The byte strings that a row leaves in a file: its numbers in six encodings, its texts in three.

The same byte strings are looked for in what base64 stands for (letters.py).

The needle is a whole key or a whole value, not a single number: single numbers occur everywhere by
chance. Databases cut long records over pages, so a row longer than a few dozen bytes is searched in
pieces, and each piece counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHORTEST = 8
"""Bytes of the shortest needle."""

MOST_PIECE = 64
"""Longer needles are cut into pieces of this many bytes."""

LEAST_VARIED = 4
"""Bytes, besides its commonest one, that a needle of numbers must have.

[0.0, 1.0] has two: where files are padded with zeros, such a row is found in every one of them.
"""

NUMBER_FORMS = {
    f"{kind} {order}": mark + code
    for kind, code in (("float64", "f8"), ("float32", "f4"), ("float16", "f2"))
    for order, mark in (("little-endian", "<"), ("big-endian", ">"))
}
TEXT_FORMS = {
    "UTF-8": "utf-8",
    "UTF-16 little-endian": "utf-16-le",
    "UTF-16 big-endian": "utf-16-be",
}

PARTS = {"key": "key", "raw key": "raw", "value": "value", "id": "id", "subject": "subject"}
"""What is looked for of a row, and the attribute that it is in."""

NUMBERS = ("key", "raw key", "value")


@dataclass(frozen=True)
class ScanRow:
    """A row to look for.

    Attributes
    ----------
    id : str
    key : (d,) array
        As the memory holds it, that is, scaled.
    value : (dv,) array or None
    subject : str or None
    raw : (d,) array or None
        The key before it was scaled.
    """

    id: str
    key: Floats
    value: Floats | None = None
    subject: str | None = None
    raw: Floats | None = None


@dataclass(frozen=True)
class Form:
    """One part of a row in one encoding: ("key", "float32 big-endian")."""

    part: str
    encoding: str


@dataclass(frozen=True)
class Encoded:
    """A part of one row as bytes; ``data`` is None where the encoding cannot hold it."""

    form: Form
    data: bytes | None


def encodings(row: ScanRow) -> list[Encoded]:
    """All byte strings of a row, whole, however short."""
    found = []
    for part, attribute in PARTS.items():
        content = getattr(row, attribute)
        if content is None or not len(content):
            continue
        if part in NUMBERS:
            numbers = np.asarray(content, np.float64)
            data = {name: _number_bytes(numbers, code) for name, code in NUMBER_FORMS.items()}
        else:
            data = {name: content.encode(codec) for name, codec in TEXT_FORMS.items()}
        found += [Encoded(Form(part, name), one) for name, one in data.items()]
    return found


def pieces(data: bytes) -> list[bytes]:
    """A needle, or where it is long its pieces; the last one overlaps the one before."""
    if len(data) <= MOST_PIECE:
        return [data]
    starts = [*range(0, len(data) - MOST_PIECE, MOST_PIECE), len(data) - MOST_PIECE]
    return [data[start : start + MOST_PIECE] for start in starts]


def unfit(form: Form, data: bytes) -> str | None:
    """Why a byte string is no needle, None if it is one."""
    if len(data) < SHORTEST:
        return f"shorter than {SHORTEST} bytes: found everywhere by chance"
    if form.part in NUMBERS and varied(data) < LEAST_VARIED:
        return "nearly all bytes the same: found everywhere by chance"
    return None


def varied(data: bytes) -> int:
    """How many bytes differ from the commonest one."""
    return len(data) - int(np.bincount(np.frombuffer(data, np.uint8)).max())


def _number_bytes(content: Floats, code: str) -> bytes | None:
    with np.errstate(over="ignore"):
        cast = content.astype(code)
    # What does not fit a float16 is no longer this row.
    return cast.tobytes() if np.isfinite(cast).all() else None


def blob(rows: Sequence[ScanRow]) -> list[bytes]:
    """Every encoding of every row: what files with these rows in them may well hold."""
    return [one.data for row in rows for one in encodings(row) if one.data is not None]
