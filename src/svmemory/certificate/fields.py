"""What a field of a document may hold; every field is checked, and unknown ones are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol

from ..errors import EvidenceError
from .plain import strange

MOST_ITEMS = 10_000_000

_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_COUNT = re.compile("0|[1-9][0-9]{0,18}")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Field(Protocol):
    """A rule for a value."""

    def check(self, value: Any, where: str) -> None:
        """Raise EvidenceError (layer "encoding"), naming ``where``, if ``value`` breaks it."""


def refuse(where: str, why: str) -> NoReturn:
    """Raise EvidenceError about a field."""
    raise EvidenceError(f"{where} {why}", "encoding")


@dataclass(frozen=True)
class Text:
    """A string of 1 to ``most`` characters, perhaps of a pattern.

    ``plain`` text holds no control characters and none that turn the reading direction.
    """

    most: int | None = 500
    pattern: str | None = None
    plain: bool = False

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        if not isinstance(value, str) or not value:
            refuse(where, "must be a text that is not empty")
        if self.most is not None and len(value) > self.most:
            refuse(where, f"is longer than {self.most} characters")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            refuse(where, f"is not of the form {self.pattern}")
        if self.plain and (found := strange(value)) is not None:
            refuse(where, f"holds the control character {found}")


@dataclass(frozen=True)
class Digest:
    """``sha256:`` and 64 lower-case hexadecimal digits."""

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        if not isinstance(value, str) or not _DIGEST.fullmatch(value):
            refuse(where, "must be sha256: and 64 hexadecimal digits")


@dataclass(frozen=True)
class Count:
    """A whole number >= 0 as decimal text."""

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        if not isinstance(value, str) or not _COUNT.fullmatch(value):
            refuse(where, "must be a whole number in decimal, written as a string")


@dataclass(frozen=True)
class Real:
    """A finite float64 in C99 hex, as Python writes it."""

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        try:
            # A length first: reading a long text takes long.
            good = isinstance(value, str) and len(value) < 40
            number = float.fromhex(value) if good else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or number.hex() != value:
            refuse(where, "must be a finite number in C99 hex, written as a string")


@dataclass(frozen=True)
class Time:
    """A moment in UTC, to the second: 2026-01-31T12:00:00Z."""

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        try:
            good = time_text(parse_time(value)) == value
        except (ValueError, TypeError):
            good = False
        if not good:
            refuse(where, "must be a time in UTC such as 2026-01-31T12:00:00Z")


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        if not isinstance(value, bool):
            refuse(where, "must be true or false")


@dataclass(frozen=True)
class Choice:
    """One of some texts."""

    among: Sequence[str]

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        if not isinstance(value, str) or value not in self.among:
            refuse(where, f"must be one of {', '.join(self.among)}")


@dataclass(frozen=True)
class Optional:
    """Null, or what another rule allows."""

    field: Field

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        if value is not None:
            self.field.check(value, where)


@dataclass(frozen=True)
class ListOf:
    """A list, each item by the same rule."""

    field: Field

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            refuse(where, "must be a list")
        for i, item in enumerate(value):
            self.field.check(item, f"{where}[{i}]")


@dataclass(frozen=True)
class Object:
    """An object with exactly these fields."""

    fields: Mapping[str, Field]

    def check(self, value: Any, where: str) -> None:
        """As :meth:`Field.check`."""
        check_fields(value, self.fields, where)


def check_fields(value: Any, fields: Mapping[str, Field], where: str) -> None:
    """Check an object's fields: all there, none unknown, each by its rule.

    Raises
    ------
    EvidenceError
        Layer "encoding"; names the field.
    """
    if not isinstance(value, dict):
        refuse(where, "must be an object")
    for name in fields:
        if name not in value:
            refuse(f"{where}.{name}", "is missing")
    for name in value:
        if name not in fields:
            refuse(f"{where}.{name[:80]}", "is not a known field")
    for name, field in fields.items():
        field.check(value[name], f"{where}.{name}")


def time_text(moment: datetime) -> str:
    """A moment as text, cut to the second; a moment without a zone is refused."""
    if moment.tzinfo is None:
        raise EvidenceError("a time needs a zone: use datetime.now(UTC)", "encoding")
    return moment.astimezone(UTC).strftime(_TIME)


def parse_time(text: str) -> datetime:
    """The moment that :func:`time_text` wrote; ValueError for anything else."""
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
