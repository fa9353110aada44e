"""Salted commitments: a text that can be shown later to be the one that was meant, and not guessed.

    SHA-256( salt || domain || 0 || text )

A certificate names what was deleted only by commitments under one fresh salt of 32 bytes. The salt
is in the *opening*, a separate document, and without it a commitment says nothing, not even to
somebody who can list all possible ids. The digest and the Merkle root of the state *before* are
committed to as well: plain, they could be tested by whoever holds all rows but one and guesses that
one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import EvidenceError
from .canonical import decode, encode
from .fields import Digest, Field, ListOf, Object, Optional, Text, check_fields

ROW = "svmemory row id"
SUBJECT = "svmemory subject"
DIGEST_BEFORE = "svmemory digest before"
ROOT_BEFORE = "svmemory root before"

OPENING_VERSION = "svmemory-opening-1"
SALT_BYTES = 32


def new_salt() -> bytes:
    """A salt from the system's random source."""
    return secrets.token_bytes(SALT_BYTES)


def commitment(salt: bytes, domain: str, text: str) -> str:
    """``sha256:`` and the hex of the commitment to ``text`` in ``domain``."""
    if len(salt) != SALT_BYTES:
        raise EvidenceError(f"a salt has {SALT_BYTES} bytes, got {len(salt)}", "encoding")
    data = salt + domain.encode() + b"\0" + text.encode()
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Opening:
    """What a certificate's commitments stand for; whoever holds it can name the deleted rows.

    Attributes
    ----------
    certificate : str
        Id of the certificate.
    salt : bytes
    rows : sequence of (id, subject or None)
        The deleted rows.
    digest, root : str
        Plain ``sha256:`` digest and Merkle root of the state before.
    """

    certificate: str
    salt: bytes
    rows: Sequence[tuple[str, str | None]]
    digest: str
    root: str

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return encode(
            {
                "version": OPENING_VERSION,
                "certificate": self.certificate,
                "salt": self.salt.hex(),
                "rows": [{"id": name, "subject": subject} for name, subject in self.rows],
                "before": {"digest": self.digest, "root": self.root},
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Opening:
        """An opening from its file; EvidenceError (layer "encoding") if it is none."""
        document = decode(data, "the opening")
        check_fields(document, _SCHEMA, "opening")
        if document["version"] != OPENING_VERSION:
            raise EvidenceError(f"opening.version is not {OPENING_VERSION!r}", "encoding")
        return cls(
            document["certificate"],
            bytes.fromhex(document["salt"]),
            [(row["id"], row["subject"]) for row in document["rows"]],
            document["before"]["digest"],
            document["before"]["root"],
        )

    def mismatch(self, predicate: dict[str, Any]) -> str | None:
        """What this opening does not open in a certificate's predicate; None if it opens all."""
        if predicate["identity"]["id"] != self.certificate:
            return "it belongs to another certificate"
        before = predicate["state"]["before"]
        for name, domain, text in (
            ("digest", DIGEST_BEFORE, self.digest),
            ("root", ROOT_BEFORE, self.root),
        ):
            if not hmac.compare_digest(before[name], commitment(self.salt, domain, text)):
                return f"the {name} of the state before is another"
        if row_commitments(self.salt, self.rows) != sorted(
            (row["id"], row["subject"]) for row in predicate["removed"]
        ):
            return "its rows are not the ones that were removed"
        return None


def row_commitments(
    salt: bytes, rows: Sequence[tuple[str, str | None]]
) -> list[tuple[str, str | None]]:
    """Commitments to (id, subject) of some rows, in their own order, which says nothing."""
    return sorted(
        (
            commitment(salt, ROW, name),
            None if subject is None else commitment(salt, SUBJECT, subject),
        )
        for name, subject in rows
    )


_SCHEMA: dict[str, Field] = {
    "version": Text(60),
    "certificate": Text(80),
    "salt": Text(2 * SALT_BYTES, f"[0-9a-f]{{{2 * SALT_BYTES}}}"),
    "rows": ListOf(Object({"id": Text(None), "subject": Optional(Text(None))})),
    "before": Object({"digest": Digest(), "root": Digest()}),
}
