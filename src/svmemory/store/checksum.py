"""Checksums of a memory's lines: functions of the lines that are there, whatever came and went.

The sum of the lines' SHA-256 modulo 2^256: a line adds its hash when it comes and takes it away
when it goes. It finds damage. Who can write to the store can also write another checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from .schema import Line

_MODULUS = 2**256


def added(checksum: int, lines: Iterable[Line]) -> int:
    """The checksum with more lines."""
    return (checksum + sum(map(_number, lines))) % _MODULUS


def taken(checksum: int, lines: Iterable[Line]) -> int:
    """The checksum with fewer lines."""
    return (checksum - sum(map(_number, lines))) % _MODULUS


def marked(checksum: int, marks: Iterable[bytes], sign: int = 1) -> int:
    """The checksum with more tombstones, or with fewer where ``sign`` is -1."""
    return (checksum + sign * sum(int.from_bytes(mark, "little") for mark in marks)) % _MODULUS


def as_bytes(checksum: int) -> bytes:
    """As it is kept in the tables."""
    return checksum.to_bytes(32, "little")


def _number(line: Line) -> int:
    hasher = hashlib.sha256(b"%d %d" % (line.row, line.time))
    for part in (line.id, line.subject, line.key, line.value, line.vault_key):
        hasher.update(b";-" if part is None else b";%d:" % len(part) + part)
    return int.from_bytes(hasher.digest(), "little")
