"""One way to write a JSON document, and a reader that accepts nothing else.

Documents are in the JSON Canonicalization Scheme (RFC 8785), so that a document has one byte
string and a digest of it means something. There are no floating-point numbers in evidence: reals
are strings in C99 hex, counters are strings in decimal, and whole numbers stay below 2**53, where
every JSON reader agrees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import rfc8785

from ..errors import EvidenceError

MOST_BYTES = 64 * 2**20
"""Size of the largest document that is read."""

MOST_DEPTH = 16
"""Levels of nesting that are read."""

_LARGEST = 2**53 - 1


def encode(document: Mapping[str, Any]) -> bytes:
    """Canonical bytes of a document.

    Raises
    ------
    EvidenceError
        If it holds a float, a whole number beyond 2**53, or anything that is not JSON (layer
        "encoding").
    """
    _check(document, "document", 0)
    try:
        return bytes(rfc8785.dumps(document))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise EvidenceError(f"the document is not canonical JSON: {error}", "encoding") from None


def decode(data: bytes, what: str, most: int = MOST_BYTES) -> dict[str, Any]:
    """The document behind canonical bytes: ``encode(decode(data)) == data``.

    Parameters
    ----------
    data : bytes
    what : str
        Names the document in messages.
    most : int
        Largest size in bytes.

    Raises
    ------
    EvidenceError
        Layer "encoding": too large or too deep, not UTF-8, not JSON, a key given twice, a float, a
        whole number beyond 2**53, no object, or not in canonical form.
    """
    if len(data) > most:
        _refuse(what, f"is larger than {most:,} bytes")
    try:
        text = data.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        _refuse(what, f"is not UTF-8 text (byte {error.start})")
    try:
        document = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_int=_whole,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except json.JSONDecodeError as error:
        _refuse(what, f"is not JSON ({error.msg} at character {error.pos})")
    except RecursionError:
        _refuse(what, f"is nested deeper than {MOST_DEPTH} levels")
    except ValueError as error:
        _refuse(what, str(error))
    if not isinstance(document, dict):
        _refuse(what, "is not a JSON object")
    try:
        canonical = encode(document)
    except EvidenceError as error:
        _refuse(what, f"cannot be used: {error}")
    if canonical != data:
        _refuse(what, "is not in canonical form (RFC 8785)")
    return document


def _refuse(what: str, why: str) -> NoReturn:
    raise EvidenceError(f"{what} {why}", "encoding") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("gives a key twice")
    return document


def _whole(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > _LARGEST:  # a length first: int() of a long text is slow
        raise ValueError("holds a whole number beyond 2**53")
    return int(text)


def _no_float(text: str) -> NoReturn:
    raise ValueError(f"holds a number that is not whole ({text[:20]}); reals are hex strings")


def _check(value: Any, where: str, depth: int) -> None:
    """Refuse what the canonical writer would accept but evidence must not hold."""
    if depth > MOST_DEPTH:
        raise EvidenceError(f"{where[:80]} is nested deeper than {MOST_DEPTH} levels", "encoding")
    if value is None or isinstance(value, str | bool):
        return
    if isinstance(value, int):
        if abs(value) > _LARGEST:
            raise EvidenceError(f"{where} is beyond 2**53; write it as a string", "encoding")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise EvidenceError(f"{where} has a key that is no string", "encoding")
            _check(item, f"{where}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check(item, f"{where}[{i}]", depth + 1)
    else:
        kind = type(value).__name__
        raise EvidenceError(f"{where} is a {kind}; write reals as hex strings", "encoding")
