"""Times of rows: whole microseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ..errors import InputError

Time = datetime | str

_START = datetime(1970, 1, 1, tzinfo=UTC)


def as_time(value: Time, what: str) -> int:
    """Microseconds since 1970 of a time.

    Parameters
    ----------
    value : datetime or str
        With a time zone, or in UTC; text in ISO 8601, where a date is its midnight.
    what : str
        Names it in messages.

    Raises
    ------
    InputError
        If it is no time.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InputError(
                f"{what} must be a time such as 2026-05-31 or 2026-05-31T12:00:00Z, got {value!r}"
            ) from None
    if not isinstance(value, datetime):
        raise InputError(f"{what} must be a datetime or ISO text, got {type(value).__name__}")
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - _START) // timedelta(microseconds=1)


def as_times(values: Iterable[Time] | None, n: int) -> list[int]:
    """Times of ``n`` rows; the present one if none are given."""
    if values is None:
        return [as_time(datetime.now(UTC), "time")] * n
    if isinstance(values, str | datetime):
        return [as_time(values, "times")] * n
    listed = list(values)
    if len(listed) != n:
        raise InputError(f"{len(listed)} times were given for {n} rows")
    return [as_time(value, f"time of row {row}") for row, value in enumerate(listed)]
