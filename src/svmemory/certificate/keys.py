"""Ed25519 keys in PEM files: one that signs, kept private, and one that anybody may have."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from ..errors import EvidenceError

Location = str | os.PathLike[str]

_MOST_BYTES = 1 << 16  # of a key file


@dataclass(frozen=True)
class PublicKey:
    """A key that checks signatures.

    Parameters
    ----------
    raw : bytes
        The 32 bytes of RFC 8032.

    Raises
    ------
    EvidenceError
        If it is no Ed25519 public key (layer "key").
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise EvidenceError(f"a public key has 32 bytes, got {len(self.raw)}", "key")

    @property
    def fingerprint(self) -> str:
        """``sha256:`` and the hex SHA-256 of the 32 bytes."""
        return "sha256:" + hashlib.sha256(self.raw).hexdigest()

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Whether ``signature`` is this key's on ``message``."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    @classmethod
    def load(cls, path: Location) -> Self:
        """Key in a PEM file (SubjectPublicKeyInfo)."""
        try:
            key = load_pem_public_key(_read(path))
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise EvidenceError(
                f"{os.fspath(path)} is no public key in PEM form; give the .pub file that"
                " `svmemory keys new` wrote",
                "key",
            ) from None
        if not isinstance(key, Ed25519PublicKey):
            raise EvidenceError(f"{os.fspath(path)} is no Ed25519 key", "key")
        return cls(key.public_bytes(Encoding.Raw, PublicFormat.Raw))

    def save(self, path: Location) -> None:
        """Write the key to a new PEM file."""
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        _write_new(path, key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), 0o644)


class SecretKey:
    """A key that signs; its file must be readable by its owner only."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return f"SecretKey(public {self.public.fingerprint})"

    @classmethod
    def generate(cls) -> Self:
        """A new random key."""
        return cls(Ed25519PrivateKey.generate())

    @property
    def public(self) -> PublicKey:
        """The key that checks this one's signatures."""
        return PublicKey(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, message: bytes) -> bytes:
        """Signature of 64 bytes on ``message``."""
        return self._key.sign(message)

    @classmethod
    def load(cls, path: Location) -> Self:
        """Key in a PEM file (PKCS8, not encrypted).

        Raises
        ------
        EvidenceError
            Layer "key": the file is no such key (the public half, for one), or others than its
            owner may read it.
        """
        data = _read(path)
        if b"-----BEGIN PUBLIC KEY-----" in data:  # first: chmod would be no help
            raise EvidenceError(_public_half(os.fspath(path)), "key")
        if os.name == "posix" and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            name = os.fspath(path)
            raise EvidenceError(
                f"{name} can be read by others, so it may not be secret any more; make a new key,"
                f" or chmod 600 {name} if you know that nobody has it",
                "key",
            )
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise EvidenceError(
                f"{os.fspath(path)} is no secret key in PEM form without a password; "
                "`svmemory keys new` makes one",
                "key",
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise EvidenceError(f"{os.fspath(path)} is no Ed25519 key", "key")
        return cls(key)

    def save(self, path: Location) -> Path:
        """Write the key to a new file that only its owner can read, and PATH.pub beside it.

        Returns
        -------
        Path
            The file of the public key.

        Raises
        ------
        FileExistsError
            If one of the two exists; nothing is written.
        """
        public = Path(f"{os.fspath(path)}.pub")
        if os.path.lexists(public):
            raise FileExistsError(17, "File exists; a key is never overwritten", str(public))
        form = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _write_new(path, form, 0o600)
        self.public.save(public)
        return public


def _public_half(name: str) -> str:
    secret = name.removesuffix(".pub")
    where = f", {secret}" if secret != name else ""
    return (
        f"{name} is the public half of a key, which checks signatures and cannot sign; give the"
        f" secret key{where}"
    )


def _read(path: Location) -> bytes:
    with Path(path).open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise EvidenceError(f"{os.fspath(path)} is too large for a key", "key")
    return data


def _write_new(path: Location, data: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as error:
        raise FileExistsError(
            error.errno, "File exists; a key is never overwritten", os.fspath(path)
        ) from None
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
