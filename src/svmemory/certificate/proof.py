"""Inclusion and consistency proofs as small files that can be sent without the log.

With the certificate, a checkpoint and an inclusion proof a third party sees that the certificate is
in the log, and sees no other certificate. With two checkpoints and a consistency proof it sees that
the log has only grown between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ..errors import EvidenceError
from .canonical import decode, encode
from .checkpoint import Checkpoint, hash_in
from .fields import Choice, Count, Digest, Field, ListOf, check_fields
from .merkle import leaf_hash, verify_consistency, verify_inclusion

_MOST_BYTES = 1 << 14  # a log of 2**63 entries needs no more


@dataclass(frozen=True)
class InclusionProof:
    """Proof that an entry is at a place of a log.

    Attributes
    ----------
    index : int
        Counted from 0.
    size : int
        Entries of the log that the proof is about.
    hashes : tuple of bytes
        Lowest first.
    """

    index: int
    size: int
    hashes: tuple[bytes, ...]

    def holds(self, entry: bytes, checkpoint: Checkpoint) -> bool:
        """Whether it shows that the log of ``checkpoint`` holds the envelope ``entry``."""
        return self.size == checkpoint.size and verify_inclusion(
            leaf_hash(entry), self.index, self.size, self.hashes, checkpoint.root
        )

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return encode(
            {
                "hashes": _texts(self.hashes),
                "index": str(self.index),
                "proof": "inclusion",
                "size": str(self.size),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The proof in a file; EvidenceError (layer "encoding") for anything else."""
        first, second, hashes = _parsed(data, "inclusion", "index", "size")
        return cls(first, second, hashes)


@dataclass(frozen=True)
class ConsistencyProof:
    """Proof that the first ``old`` entries of a log of ``new`` entries are a log's of ``old``."""

    old: int
    new: int
    hashes: tuple[bytes, ...]

    def holds(self, before: Checkpoint, after: Checkpoint) -> bool:
        """Whether it shows that the log of ``after`` continues that of ``before``."""
        return (
            before.origin == after.origin
            and (self.old, self.new) == (before.size, after.size)
            and verify_consistency(self.old, self.new, before.root, after.root, self.hashes)
        )

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return encode(
            {
                "hashes": _texts(self.hashes),
                "new": str(self.new),
                "old": str(self.old),
                "proof": "consistency",
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The proof in a file; EvidenceError (layer "encoding") for anything else."""
        first, second, hashes = _parsed(data, "consistency", "old", "new")
        return cls(first, second, hashes)


def _texts(hashes: Sequence[bytes]) -> list[str]:
    return ["sha256:" + hash_.hex() for hash_ in hashes]


def _parsed(data: bytes, kind: str, first: str, second: str) -> tuple[int, int, tuple[bytes, ...]]:
    """The two counts and the hashes of a proof's file."""
    document = decode(data, f"the {kind} proof", _MOST_BYTES)
    if document.get("proof") != kind:
        raise EvidenceError(f"it is no {kind} proof", "encoding")
    fields: dict[str, Field] = {
        "hashes": ListOf(Digest()),
        "proof": Choice([kind]),
        first: Count(),
        second: Count(),
    }
    check_fields(document, fields, "proof")
    hashes = tuple(hash_in(text) for text in document["hashes"])
    return int(document[first]), int(document[second]), hashes
