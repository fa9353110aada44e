"""Cells of a table's columns as numbers or as text, and what is wrong with one that is neither."""

from __future__ import annotations

import math

import polars as pl

from .errors import InputError

_TEXT = (pl.String, pl.Categorical, pl.Enum)
_TRUTH = {"true": 1.0, "false": 0.0}


def as_numbers(series: pl.Series, file: str) -> pl.Series:
    """A column as float64, null where a cell is not a number; truth values are 1 and 0.

    Raises
    ------
    InputError
        If the column as a whole does not hold numbers; names ``file`` and the column.
    """
    if series.dtype in _TEXT:
        text = series.cast(pl.String).str.strip_chars()
        number = text.cast(pl.Float64, strict=False)
        filled = text.is_not_null() & (text != "")
        if not filled.any() or (filled & number.is_not_null()).any():
            return number
        # Not one number: a column of true and false, as Parquet has a type for?
        truth = text.str.to_lowercase().replace_strict(
            _TRUTH, default=None, return_dtype=pl.Float64
        )
        if truth.is_not_null().any():
            return truth
        raise InputError(
            f"{file}: column {series.name!r} holds text ({text.filter(filled)[0]!r}), not numbers;"
            " encode it as numbers first (categories as one-hot columns)"
        )
    if series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
        return series.cast(pl.Float64)
    raise InputError(f"{file}: column {series.name!r} holds {series.dtype} values, not numbers")


def as_names(series: pl.Series, file: str) -> list[str | None]:
    """A column of ids or subjects as text; an empty cell is None.

    Raises
    ------
    InputError
        If the column holds neither text nor whole numbers; names ``file`` and the column.
    """
    if series.dtype.is_float():
        # 7.0 would become the text "7.0", which no later request for "7" would find.
        raise InputError(
            f"{file}: column {series.name!r} holds floating-point numbers; ids and subjects must be"
            " text or whole numbers (an integer column with gaps often turns into floats: save it"
            " as text)"
        )
    if not (series.dtype in (*_TEXT, pl.Null) or series.dtype.is_integer()):
        raise InputError(
            f"{file}: column {series.name!r} holds {series.dtype} values; ids and subjects must be"
            " text or whole numbers: save it as text"
        )
    return [text or None for text in series.cast(pl.String).to_list()]


def as_labels(series: pl.Series, file: str) -> list[str | None]:
    """A column as text that names rows in a result, whatever its type, if it can be text at all.

    Raises
    ------
    InputError
        If it cannot; names ``file`` and the column.
    """
    try:
        return [text or None for text in series.cast(pl.String).to_list()]
    except pl.exceptions.PolarsError:
        raise InputError(
            f"{file}: column {series.name!r} holds {series.dtype} values, which cannot name rows"
        ) from None


def fault(cell: object, number: float) -> str:
    """What is wrong with a cell that is no finite number, and what to do about it.

    Parameters
    ----------
    cell : object
        As it is in the table.
    number : float
        What :func:`as_numbers` made of it, NaN for null.
    """
    text = "" if cell is None else str(cell).strip()
    unsigned = text.lstrip("+-").lower()
    fill = "drop the row or fill it first"
    if not text:
        return f"empty; {fill}"
    if unsigned == "nan":
        return f"NaN; {fill}"
    if unsigned in ("inf", "infinity"):
        return f"infinite; {fill}"
    if math.isinf(number):
        return f"{text!r} is too large for a number; drop the row or correct it first"
    return f"not a number ({text!r}); {fill}"
