"""The bytes that name a memory: a function of its contract and its rows, not of its history.

    SHA-256( header, ids, subjects, keys, values, b, mu )

with rows in the order of the UTF-8 bytes of their ids. The header is canonical JSON (sorted keys,
no spaces) of the digest's version, the contract (floats in C99 hex) and the counts; ids and
subjects are length-prefixed; numbers are little-endian float64. Any language can recompute it:
docs/design.md gives the layout byte by byte.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .contract import KERNEL_VERSION, Contract

Floats = NDArray[np.float64]

DIGEST_VERSION = "svmemory-digest-1"


@dataclass(frozen=True)
class Rows:
    """Held rows in id order, with their optimum.

    Attributes
    ----------
    ids : list of str
        Sorted by UTF-8 bytes.
    subjects : list of str or None
    keys : (n, d) array
    values : (n, dv) array
        dv may be 0.
    b : (n,) array
        Masses.
    mu : float
    """

    ids: list[str]
    subjects: list[str | None]
    keys: Floats
    values: Floats
    b: Floats
    mu: float


def id_order(ids: list[str]) -> list[int]:
    """Positions of ``ids`` in the order of their UTF-8 bytes."""
    # Python compares strings by code point, and UTF-8 keeps that order.
    return sorted(range(len(ids)), key=ids.__getitem__)


def contract_fields(contract: Contract) -> dict[str, str]:
    """The contract as text that loses nothing."""
    return {
        "gamma": contract.gamma.hex(),
        "kernel": KERNEL_VERSION,
        "mass": contract.mass.hex(),
        "ridge": contract.ridge.hex(),
    }


def canonical_json(document: object) -> bytes:
    """Compact JSON with sorted keys, ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _text(items: list[str | None]) -> bytes:
    """Each text as an 8-byte little-endian length and its UTF-8 bytes; -1 for none."""
    parts = []
    for item in items:
        if item is None:
            parts.append((-1).to_bytes(8, "little", signed=True))
        else:
            data = item.encode()
            parts.append(len(data).to_bytes(8, "little"))
            parts.append(data)
    return b"".join(parts)


def _numbers(array: Floats) -> bytes:
    return np.ascontiguousarray(array, "<f8").tobytes()


def digest(contract: Contract, rows: Rows | None) -> str:
    """SHA-256 of a memory in hex; ``rows`` is None for a memory without rows."""
    header: dict[str, object] = {"version": DIGEST_VERSION, "contract": contract_fields(contract)}
    if rows is not None:
        header["rows"], header["key_width"] = rows.keys.shape
        header["value_width"] = rows.values.shape[1]
    head = canonical_json(header)
    hasher = hashlib.sha256(len(head).to_bytes(8, "little") + head)
    if rows is not None:
        hasher.update(_text(list(rows.ids)))
        hasher.update(_text(rows.subjects))
        for array in (rows.keys, rows.values, rows.b, np.array([rows.mu])):
            hasher.update(_numbers(array))
    return hasher.hexdigest()
