"""Signed checkpoints: what the owner of a log says it holds at one time.

A checkpoint names the log, the number of its entries, their Merkle root and the time. Whoever keeps
one can tell later whether the log still begins with those entries: a checkpoint is what a
certificate's receiver should keep, because a log alone cannot show that its end is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .envelope import open_envelope, seal
from .fields import Choice, Count, Digest, Field, Text, Time, check_fields
from .keys import PublicKey, SecretKey

CHECKPOINT_TYPE = "application/vnd.svmemory.checkpoint+json"
VERSION = "1"

_FIELDS: dict[str, Field] = {
    "origin": Text(plain=True),
    "root": Digest(),
    "size": Count(),
    "time": Time(),
    "version": Choice([VERSION]),
}


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint.

    Attributes
    ----------
    origin : str
        Name of the log.
    size : int
        Number of its entries.
    root : bytes
        Merkle root of the entries' leaf hashes.
    time : str
        UTC, as 2026-01-31T12:00:00Z.
    signer : str
        Fingerprint of the trusted key that signed it.
    """

    origin: str
    size: int
    root: bytes
    time: str
    signer: str


def sign_checkpoint(key: SecretKey, origin: str, size: int, root: bytes, time: str) -> bytes:
    """Envelope of a checkpoint.

    Raises
    ------
    EvidenceError
        If a field could not be read back.
    """
    document = {
        "origin": origin,
        "root": "sha256:" + root.hex(),
        "size": str(size),
        "time": time,
        "version": VERSION,
    }
    check_fields(document, _FIELDS, "checkpoint")
    return seal(CHECKPOINT_TYPE, document, key)


def open_checkpoint(data: bytes, trusted: Sequence[PublicKey]) -> Checkpoint:
    """The checkpoint in an envelope, once its signature is verified.

    Raises
    ------
    EvidenceError
        As :func:`svmemory.certificate.envelope.open_envelope`; and layer "encoding" for a field
        that is missing, unknown or malformed.
    """
    opened = open_envelope(data, CHECKPOINT_TYPE, trusted)
    fields = opened.document
    check_fields(fields, _FIELDS, "checkpoint")
    return Checkpoint(
        fields["origin"],
        int(fields["size"]),
        hash_in(fields["root"]),
        fields["time"],
        opened.key.fingerprint,
    )


def size_of(document: dict[str, Any]) -> int:
    """Size that a checkpoint's document states, checked for its form and not for its signature."""
    check_fields(document, _FIELDS, "checkpoint")
    return int(document["size"])


def hash_in(digest: str) -> bytes:
    """The 32 bytes that a checked ``sha256:...`` text stands for."""
    return bytes.fromhex(digest.removeprefix("sha256:"))
