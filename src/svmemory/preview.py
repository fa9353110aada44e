"""What a request would delete, and a token that names exactly that."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import PreviewError
from .memory import SupportVectorMemory

_DOMAIN = b"svmemory-preview-1"


@dataclass(frozen=True)
class Preview:
    """What a request would delete, if it came now.

    Attributes
    ----------
    verb : str
        "forget", "expire", "evict" or "prune".
    rows : list of str
        Ids that would go.
    former : dict of str to str
        The set that each of them is in now.
    subjects : list of str
        Their subjects.
    missing : list of str
        What the request names and the memory does not hold.
    rows_left : int
        Rows that would stay.
    token : str
        Given to the real call, it makes sure that exactly these rows go: another set of rows, or
        other contents, and the call is refused.
    """

    verb: str
    rows: list[str]
    former: dict[str, str]
    subjects: list[str]
    missing: list[str]
    rows_left: int
    token: str


def preview(
    verb: str, memory: SupportVectorMemory, names: Sequence[str], missing: Sequence[str]
) -> Preview:
    """What ``verb`` would delete from ``memory``."""
    held = memory._held
    owners = held.table.subjects(held.table.in_order(names)) if names else []
    return Preview(
        verb,
        list(names),
        memory._sets_of(list(names)),
        sorted({owner for owner in owners if owner is not None}),
        list(missing),
        len(memory) - len(names),
        token(verb, memory, names),
    )


def token(verb: str, memory: SupportVectorMemory, names: Sequence[str]) -> str:
    """SHA-256 over the verb and the rows that would go: ids, subjects, keys and values."""
    hasher = hashlib.sha256(_DOMAIN)
    parts: list[bytes] = [verb.encode()]
    ordered = sorted(names)
    held = memory._held
    if ordered and held.engine is not None:
        slots = held.table.in_order(ordered)
        owners = held.table.subjects(slots)
        keys, values = held.engine.keys(slots), held.table.values(slots)
        for i, name in enumerate(ordered):
            owner = owners[i]
            parts += [name.encode(), b"-" if owner is None else b"+" + owner.encode()]
            parts += [np.ascontiguousarray(x[i], "<f8").tobytes() for x in (keys, values)]
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.hexdigest()


def require(
    given: str | None, verb: str, memory: SupportVectorMemory, names: Sequence[str]
) -> None:
    """Raise PreviewError unless ``given`` is None or names what would go now."""
    if given is not None and given.strip().lower() != token(verb, memory, names):
        raise PreviewError(
            "the token of the preview does not fit: other rows would go now, or it was made for "
            "another request; look at a new preview. Nothing was deleted"
        )
