"""Keys of encrypted rows, apart from the rows: destroying one makes every backup of a row noise.

A vault is a database of its own, best on another disk and never in the same backup. It holds one
random 256-bit key per subject, and one per row without a subject. Rows are sealed with AES-GCM and
bound to their place, so that no sealed row passes for another.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Column, Connection, LargeBinary, MetaData, Table, delete, inspect, select

from ..errors import InputError, StoreError
from . import schema, sqlite
from .database import Database, Target

metadata = MetaData()

keys = Table(
    "svm_keys",
    metadata,
    Column("name", LargeBinary, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
)

identity = Table("svm_vault", metadata, Column("token", LargeBinary, primary_key=True))
"""One line: 16 random bytes by which a memory knows the vault that has its keys."""

_BATCH = 500
_NONCE = 12


class UnreadableError(StoreError):
    """A row that is as it was written, but whose key is not in the vault."""


class Vault:
    """Keys by name.

    Parameters
    ----------
    target : str, path or Engine
        As for a store, but another database.
    create : bool
        Whether an SQLite file may be made.

    Attributes
    ----------
    token : bytes
        Tells this vault, and copies of it, from others.

    Raises
    ------
    InputError
        If it is a store; nothing was written.
    StoreError
        If it is a database of another program, or cannot be used.
    """

    def __init__(self, target: Target, create: bool = True) -> None:
        self.database = Database(target, create, "vault")
        try:
            self._prepare()
        except BaseException:
            self.database.close()
            raise

    def _prepare(self) -> None:
        """Make the tables, unless something else is there."""
        server = self.database.server
        if not isinstance(server, sqlite.SQLite) or server.exists():
            with self.database.reading() as connection:
                self._require_vault(connection)
        if isinstance(server, sqlite.SQLite):
            sqlite.make_private(server.path)
        with self.database.writing() as connection:
            server.lock_all(connection)
            self._require_vault(connection)
            metadata.create_all(connection)
            token = connection.scalar(select(identity.c.token))
            if token is None:
                token = os.urandom(16)
                connection.execute(identity.insert().values(token=token))
            self.token = bytes(token)

    def _require_vault(self, connection: Connection) -> None:
        held = set(inspect(connection).get_table_names())
        if schema.facts.name in held:
            raise InputError(
                f"{self.database.name}: a store, not a vault; the vault must be another database"
                " than the store"
            )
        if held and keys.name not in held and self.database.engine.dialect.name == "sqlite":
            raise StoreError(f"{self.database.name}: a database of another program, not a vault")

    def close(self) -> None:
        """Close its connections."""
        self.database.close()

    def new(self, count: int) -> dict[bytes, bytes]:
        """Fresh keys by their random names, on disk before this returns."""
        made = {os.urandom(16): os.urandom(32) for _ in range(count)}
        if made:
            with self.database.writing() as connection:
                connection.execute(
                    keys.insert(), [{"name": n, "secret": s} for n, s in made.items()]
                )
        return made

    def secrets(self, names: Iterable[bytes]) -> dict[bytes, bytes]:
        """The keys that still exist among ``names``."""
        found: dict[bytes, bytes] = {}
        with self.database.reading() as connection:
            for batch in batches(names):
                query = select(keys).where(keys.c.name.in_(batch))
                found.update({bytes(n): bytes(s) for n, s in connection.execute(query)})
        return found

    def destroy(self, names: Sequence[bytes]) -> int:
        """Delete keys; returns how many there were."""
        gone = 0
        with self.database.writing() as connection:
            for batch in batches(names):
                gone += connection.execute(delete(keys).where(keys.c.name.in_(batch))).rowcount
        return gone

    def purge(self) -> str | None:
        """Take what deleted keys left out of the vault's files; why it could not be, or None."""
        return self.database.purge()


def batches(items: Iterable[bytes], size: int = _BATCH) -> Iterator[list[bytes]]:
    """Lists of at most ``size`` items: databases limit the number of parameters."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


def seal(secret: bytes, place: bytes, parts: Sequence[bytes | None]) -> bytes:
    """Nonce and ciphertext of some byte strings; ``place`` must be the same to open them."""
    nonce = os.urandom(_NONCE)
    plain = b"".join(
        struct.pack("<q", -1) if part is None else struct.pack("<q", len(part)) + part
        for part in parts
    )
    return nonce + AESGCM(secret).encrypt(nonce, plain, place)


def unseal(
    secrets: Mapping[bytes, bytes], name: bytes, place: bytes, data: bytes
) -> list[bytes | None]:
    """What :func:`seal` closed.

    Raises
    ------
    StoreError
        If the key was destroyed, or the row was changed or moved.
    """
    if name not in secrets:
        raise UnreadableError(
            "the vault has not the key of a row: either its key was destroyed when the row was"
            " forgotten, or the vault is a copy from before the row"
        )
    try:
        plain = AESGCM(secrets[name]).decrypt(data[:_NONCE], data[_NONCE:], place)
    except (InvalidTag, ValueError):
        raise StoreError("an encrypted row was changed or moved; the store is damaged") from None
    parts: list[bytes | None] = []
    at = 0
    while at < len(plain):
        (length,) = struct.unpack_from("<q", plain, at)
        at += 8
        parts.append(None if length < 0 else plain[at : at + length])
        at += max(0, length)
    return parts


def same_file(one: Database, other: Database) -> bool:
    """Whether two databases are one."""
    a, b = one.server, other.server
    if isinstance(a, sqlite.SQLite) and isinstance(b, sqlite.SQLite):
        return Path(a.path).resolve() == Path(b.path).resolve()
    return one.engine.url == other.engine.url
