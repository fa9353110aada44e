"""The log of certificates: a list that only grows, with signed checkpoints of how far it has grown.

As a file it is canonical JSON lines: one that names the format, then envelopes. An envelope of a
certificate is an entry; one of a checkpoint is about the entries above it. Each certificate names
its place in the log (from 0) and the digest of the certificate before it, so that a log cannot be
cut, reordered or thinned out without a trace; :func:`svmemory.certificate.logcheck.verify_log`
finds the traces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from ..errors import EvidenceError
from .canonical import decode, encode
from .checkpoint import CHECKPOINT_TYPE, sign_checkpoint
from .envelope import parse
from .fields import Count, Digest, Optional
from .keys import SecretKey
from .merkle import consistency_proof, inclusion_proof, leaf_hash, root
from .proof import ConsistencyProof, InclusionProof

CERTIFICATE_TYPE = "application/vnd.in-toto+json"
FIRST_LINE = encode({"format": "svmemory-log", "version": "1"})


@dataclass(frozen=True)
class Link:
    """How a certificate is chained: its place, and the digest of the one before (None: first)."""

    sequence: int
    previous: str | None


def entry_digest(entry: bytes) -> str:
    """Name of a certificate in the chain: ``sha256:`` and the hex SHA-256 of its envelope."""
    return "sha256:" + hashlib.sha256(entry).hexdigest()


def link_of(statement: dict[str, Any]) -> Link:
    """Place in the chain that a certificate's statement claims.

    Raises
    ------
    EvidenceError
        If it claims none (layer "chain") or nothing that can be read ("encoding").
    """
    try:
        identity = statement["predicate"]["identity"]
        sequence, previous = identity["sequence"], identity["previous"]
    except (KeyError, TypeError):
        raise EvidenceError(
            "the certificate has no predicate.identity.sequence and .previous", "chain"
        ) from None
    Count().check(sequence, "predicate.identity.sequence")
    Optional(Digest()).check(previous, "predicate.identity.previous")
    return Link(int(sequence), previous)


class Log:
    """Certificates in order, and checkpoints between them.

    Parameters
    ----------
    lines : iterable of bytes
        Envelopes in the order of the file.

    Raises
    ------
    EvidenceError
        If one is neither a certificate's envelope nor a checkpoint's (layer "encoding"). Whether
        they are signed, and by whom, is for :func:`svmemory.certificate.logcheck.verify_log`.
    """

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self._lines: list[bytes] = []
        self._entries: list[bytes] = []
        self._checkpoints: list[bytes] = []
        for number, line in enumerate(lines, start=2):  # as an editor counts, see to_bytes
            self._take(line, f"line {number} of the log")

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[bytes]:
        """Envelopes of the certificates, oldest first."""
        return list(self._entries)

    @property
    def checkpoints(self) -> list[bytes]:
        """Envelopes of the checkpoints, oldest first."""
        return list(self._checkpoints)

    @property
    def lines(self) -> list[bytes]:
        """Envelopes of both kinds, in the order in which they came."""
        return list(self._lines)

    def head(self) -> Link:
        """What the next certificate must carry."""
        last = entry_digest(self._entries[-1]) if self._entries else None
        return Link(len(self._entries), last)

    def append(self, entry: bytes) -> int:
        """Add a certificate's envelope; returns its place.

        Raises
        ------
        EvidenceError
            If its "sequence" and "previous" do not follow (layer "chain"), or it is no certificate
            ("encoding"). The log is unchanged.
        """
        envelope = parse(entry)
        if envelope.payload_type != CERTIFICATE_TYPE:
            raise EvidenceError(
                f"an entry of payload type {envelope.payload_type[:80]!r} is no certificate",
                "encoding",
            )
        found, head = link_of(decode(envelope.payload, "the certificate")), self.head()
        if found != head:
            raise EvidenceError(
                f"the certificate is number {found.sequence} after {found.previous}, and the log"
                f" goes on with number {head.sequence} after {head.previous}; issue it anew",
                "chain",
            )
        self._take(entry, "the certificate")
        return len(self._entries) - 1

    def checkpoint(self, key: SecretKey, origin: str, time: str) -> bytes:
        """Sign for the entries so far, keep the checkpoint in the log, and return its envelope."""
        data = sign_checkpoint(key, origin, len(self), self.root(), time)
        self._take(data, "the checkpoint")
        return data

    def root(self, size: int | None = None) -> bytes:
        """Merkle root of the first ``size`` entries; of all, by default."""
        return root(self._leaves(size))

    def inclusion(self, index: int, size: int | None = None) -> InclusionProof:
        """Proof that entry ``index`` is among the first ``size`` (by default: all)."""
        leaves = self._leaves(size)
        return InclusionProof(index, len(leaves), tuple(inclusion_proof(leaves, index)))

    def consistency(self, old: int, size: int | None = None) -> ConsistencyProof:
        """Proof that the first ``size`` entries (by default: all) begin with the first ``old``."""
        leaves = self._leaves(size)
        return ConsistencyProof(old, len(leaves), tuple(consistency_proof(leaves, old)))

    def to_bytes(self) -> bytes:
        """The log as a file."""
        return b"".join(line + b"\n" for line in [FIRST_LINE, *self._lines])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The log in a file; ``to_bytes`` gives the same bytes again.

        Raises
        ------
        EvidenceError
            If it is no log or is damaged (layer "encoding").
        """
        first, *lines = data.split(b"\n")
        if first != FIRST_LINE:
            raise EvidenceError(
                f"it is no svmemory log: its first line is not {FIRST_LINE.decode()}", "encoding"
            )
        if not lines or lines.pop():
            raise EvidenceError("the log is cut in the middle of a line", "encoding")
        return cls(lines)

    def _leaves(self, size: int | None) -> list[bytes]:
        if size is not None and not 0 <= size <= len(self):
            raise IndexError(f"the log has {len(self)} entries, not {size}")
        return [leaf_hash(entry) for entry in self._entries[:size]]

    def _take(self, line: bytes, what: str) -> None:
        try:
            kind = parse(line).payload_type
        except EvidenceError as error:
            raise EvidenceError(f"{what}: {error}", error.layer) from None
        if kind == CERTIFICATE_TYPE:
            self._entries.append(line)
        elif kind == CHECKPOINT_TYPE:
            self._checkpoints.append(line)
        else:
            raise EvidenceError(f"{what}: payload type {kind[:80]!r} is unknown", "encoding")
        self._lines.append(line)
