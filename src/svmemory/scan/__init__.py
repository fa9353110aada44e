"""Byte scan: does any file of a folder still hold the bytes of a row.

    needles.py   the byte strings that a row leaves
    search.py    many byte strings at once, in one pass
    letters.py   the same in base64
    files.py     names and files of a folder, and what is no file
    opaque.py    files in which bytes cannot be seen
    reading.py   the pass over all of them
    report.py    what was found, and what that shows
    run.py       :func:`scan`

The scan reads files as somebody would who steals the disk. Of stores it knows one thing: whether
their rows are encrypted, so that it does not call absent what it cannot see.
"""

from __future__ import annotations

from .needles import MOST_PIECE, SHORTEST, ScanRow
from .report import Control, Found, Omitted, Place, ScanReport
from .run import scan

__all__ = [
    "MOST_PIECE",
    "SHORTEST",
    "Control",
    "Found",
    "Omitted",
    "Place",
    "ScanReport",
    "ScanRow",
    "scan",
]
