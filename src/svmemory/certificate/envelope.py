"""Signed envelopes: DSSE version 1 with one Ed25519 signature.

    {"payload": base64, "payloadType": text, "signatures": [{"keyid": text, "sig": base64}]}

The signature is on ``DSSEv1 LEN(type) type LEN(payload) payload``, the raw bytes, and is checked
before the payload is parsed. Trust comes from outside only: an envelope names the key that signed
it, and that name must be the fingerprint of a key which the reader trusts already and which
verifies.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import EvidenceError
from .canonical import MOST_BYTES, decode, encode
from .keys import PublicKey, SecretKey


@dataclass(frozen=True)
class Opened:
    """What a verified envelope holds.

    Attributes
    ----------
    document : dict
        The payload, parsed.
    key : PublicKey
        The trusted key that signed it.
    payload : bytes
        Its canonical bytes.
    """

    document: dict[str, Any]
    key: PublicKey
    payload: bytes


@dataclass(frozen=True)
class Envelope:
    """An envelope's parts, decoded but not verified."""

    payload_type: str
    payload: bytes
    keyid: str
    signature: bytes


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed (DSSE's PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload_type: str, document: Mapping[str, Any], key: SecretKey) -> bytes:
    """Canonical bytes of a signed envelope around ``document``."""
    payload = encode(document)
    signature = key.sign(pre_authentication(payload_type, payload))
    return encode(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": payload_type,
            "signatures": [
                {"keyid": key.public.fingerprint, "sig": base64.b64encode(signature).decode()}
            ],
        }
    )


def parse(data: bytes) -> Envelope:
    """Parts of an envelope; nothing in them is verified.

    Raises
    ------
    EvidenceError
        If the bytes are no envelope (layer "encoding").
    """
    document = decode(data, "the envelope", 2 * MOST_BYTES)
    _require(document, {"payload", "payloadType", "signatures"}, "the envelope")
    kind, signatures = document["payloadType"], document["signatures"]
    if not isinstance(kind, str):
        raise EvidenceError("the envelope's payloadType is no text", "encoding")
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise EvidenceError("an envelope carries exactly one signature", "encoding")
    _require(signatures[0], {"keyid", "sig"}, "the envelope's signature")
    keyid = signatures[0]["keyid"]
    if not isinstance(keyid, str):
        raise EvidenceError("the envelope's keyid is no text", "encoding")
    payload = _base64(document["payload"], "payload")
    signature = _base64(signatures[0]["sig"], "sig")
    if len(signature) != 64:
        raise EvidenceError("an Ed25519 signature has 64 bytes", "encoding")
    return Envelope(kind, payload, keyid, signature)


def open_envelope(data: bytes, payload_type: str, trusted: Sequence[PublicKey]) -> Opened:
    """Verify an envelope and parse what is in it.

    Parameters
    ----------
    data : bytes
    payload_type : str
        The only type that is accepted.
    trusted : sequence of PublicKey
        Keys that the reader trusts, from a source other than the envelope.

    Raises
    ------
    EvidenceError
        Layer "encoding" (no envelope, another type, payload that is no canonical JSON),
        "signature" (it does not verify under the trusted key it names) or "key" (it names a key
        that is not trusted, or another than the one that verifies).
    """
    envelope = parse(data)
    key = verify_signature(envelope, payload_type, trusted)  # before the payload is parsed
    return Opened(decode(envelope.payload, "the payload"), key, envelope.payload)


def verify_signature(
    envelope: Envelope, payload_type: str, trusted: Sequence[PublicKey]
) -> PublicKey:
    """The trusted key that signed an envelope of the given type; raises as `open_envelope`."""
    if envelope.payload_type != payload_type:
        raise EvidenceError(
            f"payload type {envelope.payload_type[:80]!r} is not {payload_type!r}", "encoding"
        )
    if not trusted:
        raise EvidenceError("no key is trusted: give at least one public key", "key")
    message = pre_authentication(payload_type, envelope.payload)
    verified = [key for key in trusted if key.verify(envelope.signature, message)]
    named = [key for key in trusted if key.fingerprint == envelope.keyid]
    if verified and verified[0] in named:
        return verified[0]
    if verified:
        raise EvidenceError(
            f"the keyid {envelope.keyid[:80]!r} is not the key that verifies,"
            f" {verified[0].fingerprint}",
            "key",
        )
    if named:
        raise EvidenceError(
            f"the signature does not verify under {envelope.keyid}: payload, type or signature was"
            " changed, or somebody else signed",
            "signature",
        )
    raise EvidenceError(
        f"signed by {envelope.keyid[:80]!r}, which is not a trusted key; trust it only if its owner"
        " gave you that fingerprint",
        "key",
    )


def _require(document: Any, fields: set[str], what: str) -> None:
    if not isinstance(document, dict) or set(document) != fields:
        raise EvidenceError(
            f"{what} must have the fields {sorted(fields)} and no others", "encoding"
        )


def _base64(text: Any, what: str) -> bytes:
    """Bytes of strict base64: no blanks, padding as written by an encoder, no spare bits."""
    try:
        if not isinstance(text, str):
            raise ValueError
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise EvidenceError(f"the envelope's {what} is not base64", "encoding") from None
    if base64.b64encode(data).decode() != text:
        raise EvidenceError(f"the envelope's {what} is not strict base64", "encoding")
    return data
