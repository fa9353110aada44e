"""Byte scan: does any file of a folder still hold the bytes of a row.

    needles.py   the byte strings that a row leaves
    search.py    many byte strings at once, in one pass
    files.py     the files of a folder, and what is no file
    report.py    what was found, and what that shows
    run.py       :func:`scan`

The scan knows nothing of memories or stores: it reads files, as somebody would who steals the disk.
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
