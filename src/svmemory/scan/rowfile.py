"""Rows to look for, from a memory file or from JSON."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs import Label, as_label
from ..memory import SupportVectorMemory
from .needles import ScanRow

_FIELDS = {"id", "key", "value", "subject"}


def rows_of(memory: SupportVectorMemory) -> list[ScanRow]:
    """The rows that a memory holds."""
    values = memory.values
    return [
        ScanRow(name, key, None if values is None else values[i], subject)
        for i, (name, key, subject) in enumerate(
            zip(memory.ids, memory.keys, memory.subjects, strict=True)
        )
    ]


def rows_of_json(path: str | os.PathLike[str]) -> list[ScanRow]:
    """Rows in a JSON file: one object, a list of objects, or one object a line.

    An object has ``id`` and ``key`` (a list of numbers), and may have ``value`` (a list or a
    number) and ``subject``.

    Raises
    ------
    InputError
        If there is no row, or one cannot be read; names it.
    """
    where = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except UnicodeDecodeError:
        raise InputError(f"{where}: it is not UTF-8 text") from None
    objects = _objects(text, where)
    if not objects:
        raise InputError(f"{where}: it holds no row")
    return [_row(one, f"{where}: row {i}") for i, one in enumerate(objects, 1)]


def _objects(text: str, where: str) -> list[Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: it is neither JSON nor JSON lines ({error})") from None
    return document if isinstance(document, list) else [document]


def _row(document: Any, where: str) -> ScanRow:
    if not isinstance(document, dict):
        raise InputError(f"{where} is no object with the fields id and key")
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        raise InputError(f"{where} has an unknown field {unknown[0]!r}; known: {sorted(_FIELDS)}")
    for name in ("id", "key"):
        if name not in document:
            raise InputError(f"{where} has no {name!r}")
    value, subject = document.get("value"), document.get("subject")
    return ScanRow(
        _label(document["id"], "id", where),
        _numbers(document["key"], f"{where}: key"),
        None if value is None else _numbers(value, f"{where}: value"),
        None if subject is None else _label(subject, "subject", where),
    )


def _label(value: Label, what: str, where: str) -> str:
    try:
        return as_label(value, what, 0)
    except InputError:
        raise InputError(f"{where}: {what} must be a text or a whole number") from None


def _numbers(content: Any, where: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    listed = content if isinstance(content, list) else [content]
    if not listed:
        raise InputError(f"{where} is empty")
    for number in listed:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(f"{where} must be a list of numbers")
    try:
        array = np.array([float(number) for number in listed])
    except OverflowError:
        array = np.array([math.inf])
    if not np.isfinite(array).all():
        raise InputError(f"{where} holds a number that is not finite")
    return array
