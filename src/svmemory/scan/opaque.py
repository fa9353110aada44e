"""Files in which bytes cannot be found as they were: compressed or encrypted ones.

Formats are known by how a file begins, everything else by its bytes: what is encrypted, and most of
what is compressed, looks random, which numbers, texts and programs do not.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from urllib.parse import quote

import numpy as np
from numba import njit
from numpy.typing import NDArray

WINDOW = 512
"""Bytes that are judged together."""

_RANDOM = 360.0
"""Chi-square of the counts of byte values below which a window looks random.

Random bytes have 255 on average, with deviation 23. The least of windows of float64 numbers of a
normal distribution is about 1,000, of salted hashes in a table 490.
"""

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x1f\x9d": "compress (.Z)",
    b"\x1f\xa0": "compress (.Z)",
    b"x\x01": "zlib",
    b"x\x5e": "zlib",
    b"x\x9c": "zlib",
    b"x\xda": "zlib",
    b"PK\x03\x04": "zip",
    b"PK\x07\x08": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"]\x00\x00": "lzma",
    b"LZIP": "lzip",
    b"BZh": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x02\x21\x4c\x18": "lz4",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"MSCF": "cabinet",
    b"PAR1": "Parquet",
    b"PARE": "encrypted Parquet",
    b"ORC": "ORC",
    b"ARROW1": "Arrow",
    b"FEA1": "Feather",
    b"Obj\x01": "Avro",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"%PDF-": "PDF",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"LUKS\xba\xbe": "LUKS",
    b"Salted__": "OpenSSL, encrypted",
    b"age-encryption.org/": "age, encrypted",
    b"-----BEGIN PGP MESSAGE": "PGP, encrypted",
}
_SQLITE = b"SQLite format 3\x00"


def by_start(path: str, start: bytes) -> str | None:
    """The format of a file that begins like this, if bytes cannot be found in it as they were."""
    if start.startswith(_SQLITE):
        return _sealed(path)
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def looks_random(data: NDArray[np.uint8]) -> bool:
    """Whether some whole window of ``data`` looks random."""
    return bool(_least(data, WINDOW) < _RANDOM)


@njit(cache=True)
def _least(data, window):  # type: ignore[no-untyped-def]
    """The least chi-square of the byte counts of windows; infinite where there is no window."""
    least = np.inf
    counts = np.zeros(256, np.int64)
    for start in range(0, len(data) - window + 1, window):
        counts[:] = 0
        for i in range(start, start + window):
            counts[data[i]] += 1
        squares = 0
        for value in range(256):
            squares += int(counts[value]) ** 2
        least = min(least, squares * 256.0 / window - window)
    return least


def _sealed(path: str) -> str | None:
    """Whether a database is a store of this package with encrypted rows.

    A store of few rows holds too few encrypted bytes for a window to look random.
    """
    where = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro&immutable=1"
    query = "select exists (select * from svm_memories where sealed and live)"
    try:
        with closing(sqlite3.connect(where, uri=True)) as base:
            return "store with encrypted rows" if base.execute(query).fetchone()[0] else None
    except sqlite3.Error:  # some other database, or a part of one: its bytes are judged
        return None
