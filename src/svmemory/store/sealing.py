"""Encrypted rows: which key seals which row, and which keys must go.

A subject has one key, a row without a subject its own. When a row leaves, its key goes; what else
the key sealed gets a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import StoreError
from .schema import Line
from .vault import UnreadableError, Vault, seal, unseal


class Sealer:
    """Seals and opens the rows of one memory.

    Parameters
    ----------
    vault : Vault
    token : bytes
        The memory's random name, which every row is bound to.
    """

    def __init__(self, vault: Vault, token: bytes) -> None:
        self.vault = vault
        self._token = token
        self._key_of: dict[bytes, bytes] = {}  # of subjects
        self._secrets: dict[bytes, bytes] = {}
        self._leaving: list[bytes] = []

    def opened(self, sealed: Sequence[Line]) -> list[Line]:
        """Rows as they were before :meth:`sealed`."""
        names = {line.vault_key or b"" for line in sealed}
        self._secrets.update(self.vault.secrets(names - self._secrets.keys()))
        if names.isdisjoint(self._secrets):
            raise UnreadableError("the vault has none of its keys: is it another vault?")
        result = []
        for line in sealed:
            name = line.vault_key or b""
            parts = unseal(self._secrets, name, self._place(line.row), line.key)
            if len(parts) != 4:
                raise StoreError("an encrypted row has another form; the store is damaged")
            identity, subject, key, value = parts
            if subject is not None:
                self._key_of[subject] = name
            result.append(line._replace(id=identity, subject=subject, key=key or b"", value=value))
        return result

    def sealed(self, lines: Sequence[Line], afresh: bool = False) -> list[Line]:
        """Rows as the tables hold them; ``afresh`` gives their subjects new keys."""
        subjects = dict.fromkeys(line.subject for line in lines if line.subject is not None)
        without = [s for s in subjects if afresh or s not in self._key_of]
        alone = sum(line.subject is None for line in lines)
        made = self.vault.new(len(without) + alone)
        self._secrets.update(made)
        names = iter(made)
        self._key_of.update(zip(without, names, strict=False))
        result = []
        for line in lines:
            name = next(names) if line.subject is None else self._key_of[line.subject]
            parts = (line.id, line.subject, line.key, line.value)
            data = seal(self._secrets[name], self._place(line.row), parts)
            result.append(
                line._replace(id=None, subject=None, key=data, value=None, vault_key=name)
            )
        return result

    def leaving(self, lines: Iterable[Line]) -> None:
        """Note the keys of rows that are being deleted."""
        self._leaving += [line.vault_key for line in lines if line.vault_key is not None]

    def take_leaving(self) -> list[bytes]:
        """The noted keys, once each; none of them seals anything from now on."""
        names = list(dict.fromkeys(self._leaving))
        self._leaving = []
        gone = set(names)
        self._key_of = {s: name for s, name in self._key_of.items() if name not in gone}
        return names

    def _place(self, row: int) -> bytes:
        return self._token + row.to_bytes(8, "little")
