"""A memory's state as evidence: its rows, their canonical weights, and what names them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contract import KERNEL_VERSION, Contract
from ..digest import Rows, canonical_json, digest
from ..errors import InputError
from .merkle import leaf_hash, root

Header = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StateRecord:
    """Rows in id order with canonical weights, under a contract.

    Attributes
    ----------
    contract : Contract
    rows : Rows or None
        None for a memory without rows.
    header : dict
        The notes that a memory file carries beside its rows.
    """

    contract: Contract
    rows: Rows | None
    header: Header

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows.ids)

    @cached_property
    def digest(self) -> str:
        """``sha256:`` and the digest of the state, recomputed from its rows."""
        return "sha256:" + digest(self.contract, self.rows)

    @cached_property
    def leaves(self) -> list[bytes]:
        """Leaf hashes of the rows, in id order."""
        return [leaf_hash(data) for data in row_bytes(self.rows)]

    @cached_property
    def root(self) -> str:
        """``sha256:`` and the Merkle root (RFC 6962) of the rows in id order.

        A leaf is a row without its weight: id and subject, each as an 8-byte length and UTF-8
        bytes (length -1 for no subject), key and value as an 8-byte count and float64, all
        little-endian.
        """
        return "sha256:" + root(self.leaves).hex()

    @property
    def labels(self) -> str:
        """One letter a row: S margin, E error, R reserve."""
        if self.rows is None:
            return ""
        return "".join("R" if x == 0.0 else "E" if x == 1.0 else "S" for x in self.rows.b.tolist())

    @property
    def status(self) -> str:
        """One of "empty", "warmup" and "optimal"."""
        if not len(self):
            return "empty"
        return "warmup" if len(self) <= self.contract.mass else "optimal"

    def sizes(self) -> dict[str, str]:
        """Rows in all and in each set, as decimal text."""
        labels = self.labels
        named = {"margin": "S", "error": "E", "reserve": "R"}
        return {"rows": str(len(labels))} | {
            name: str(labels.count(letter)) for name, letter in named.items()
        }


def share_leaves(before: StateRecord, after: StateRecord) -> None:
    """Give ``after`` the leaf hashes of ``before`` where its rows are, to the bit, rows of it.

    Saves hashing every row twice; where the rows differ, they are hashed when asked for.
    """
    old, new = before.rows, after.rows
    if old is None or new is None:
        return
    place = {name: i for i, name in enumerate(old.ids)}
    keep = [place.get(name, -1) for name in new.ids]
    if (
        -1 not in keep
        and [old.subjects[i] for i in keep] == new.subjects
        and _bits(old.keys[keep]) == _bits(new.keys)
        and _bits(old.values[keep]) == _bits(new.values)
    ):
        after.__dict__["leaves"] = [before.leaves[i] for i in keep]  # as the property would


def _bits(array: Floats) -> tuple[tuple[int, ...], bytes]:
    return array.shape, array.tobytes()


def row_bytes(rows: Rows | None) -> list[bytes]:
    """One canonical encoding a row; see :attr:`StateRecord.root`."""
    if rows is None:
        return []
    key_width, value_width = 8 * rows.keys.shape[1], 8 * rows.values.shape[1]
    key_count = rows.keys.shape[1].to_bytes(8, "little")
    value_count = rows.values.shape[1].to_bytes(8, "little")
    keys = np.ascontiguousarray(rows.keys, "<f8").tobytes()
    values = np.ascontiguousarray(rows.values, "<f8").tobytes()
    encoded = []
    for i, (name, subject) in enumerate(zip(rows.ids, rows.subjects, strict=True)):
        key = keys[i * key_width : (i + 1) * key_width]
        value = values[i * value_width : (i + 1) * value_width]
        encoded.append(_text(name) + _text(subject) + key_count + key + value_count + value)
    return encoded


def _text(item: str | None) -> bytes:
    if item is None:
        return b"\xff" * 8
    data = item.encode()
    return len(data).to_bytes(8, "little") + data


def json_digest(document: object) -> str:
    """``sha256:`` and the digest of a JSON document in the form that memory files use.

    Raises
    ------
    InputError
        If it is no JSON.
    """
    try:
        data = canonical_json(document)
    except (TypeError, ValueError) as error:
        raise InputError(f"the header cannot be written as JSON: {error}") from None
    return "sha256:" + hashlib.sha256(data).hexdigest()


def scaler_digest(header: Header) -> str | None:
    """Digest of the scaling in a memory's header; None where keys are not scaled."""
    scaler = header.get("scaler")
    return None if scaler is None else json_digest(scaler)


def contract_document(contract: Contract, header: Header) -> dict[str, str | None]:
    """The contract as a certificate writes it."""
    return {
        "gamma": contract.gamma.hex(),
        "C": contract.C.hex(),
        "mass": contract.mass.hex(),
        "ridge": contract.ridge.hex(),
        "kernel": KERNEL_VERSION,
        "scaler": scaler_digest(header),
    }
