"""Checks that rows and requests must pass before anything is changed.

Everything here either returns data in the one form that the rest of the package works with, or
raises InputError naming the row at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Floats = NDArray[np.float64]
Label = str | int

LARGEST = 1e150
"""Largest magnitude of a key or query: its square must not overflow."""


def listed(values: Iterable[Any], what: str = "id") -> list[Any]:
    """A new list of ids or subjects, NumPy's scalars as Python's."""
    if isinstance(values, str | bytes | bytearray):
        raise InputError(f"{what}s must be a sequence, got one {type(values).__name__}: {values!r}")
    try:
        return list(values.tolist() if isinstance(values, np.ndarray) else values)
    except TypeError:  # a number, or an array without a dimension
        raise InputError(
            f"{what}s must be a sequence, got {type(values).__name__} {values!r}"
        ) from None


def as_label(value: object, what: str, row: int) -> str:
    """Id or subject as text; whole numbers are written in decimal."""
    if isinstance(value, bool | np.bool_):
        raise InputError(f"{what} of row {row} is a truth value; use a string or a whole number")
    if isinstance(value, int | np.integer):
        try:
            return str(int(value))
        except ValueError:
            raise InputError(f"{what} of row {row} has too many digits; give it as text") from None
    if not isinstance(value, str):
        none = " (None stands for no subject)" if what == "subject" else ""
        raise InputError(
            f"{what} of row {row} must be a string or a whole number, "
            f"got {type(value).__name__} {value!r}{none}"
        )
    if not value:
        raise InputError(f"{what} of row {row} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} of row {row} is not valid Unicode text: {value!r}") from None
    return str(value)


def as_labels(values: Iterable[Any], what: str, n: int) -> list[str]:
    """``n`` ids or subjects as text."""
    labels = listed(values, what)
    if len(labels) != n:
        raise InputError(f"{len(labels)} {what}s were given for {n} rows")
    kinds = set(map(type, labels))
    with suppress(ValueError):  # something is wrong: the loop below finds out what, and where
        if kinds == {int}:
            return list(map(str, labels))
        if kinds == {str} and all(labels):
            "".join(labels).encode()
            return labels
    return [as_label(value, what, row) for row, value in enumerate(labels)]


def as_subjects(subjects: Iterable[Label | None] | None, n: int) -> list[str | None]:
    """``n`` subjects as text or None."""
    if subjects is None:
        return [None] * n
    labels = listed(subjects, "subject")
    if len(labels) != n:
        raise InputError(f"{len(labels)} subjects were given for {n} rows")
    if set(map(type, labels)) <= {str, type(None)}:  # then equal subjects need one check only
        checked: set[str | None] = {None}
        for row, label in enumerate(labels):
            if label not in checked:
                checked.add(as_label(label, "subject", row))
        return labels
    return [None if x is None else as_label(x, "subject", row) for row, x in enumerate(labels)]


def _as_array(values: Any, what: str) -> NDArray[Any]:
    """Array of real numbers, the caller's own where it is one."""
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__array__"):
        import polars  # reads Arrow data from any library; slow to import

        values = polars.DataFrame(values)
    if np.ma.is_masked(values):
        raise InputError(f"{what} have masked entries; fill them or drop their rows first")
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(
            f"{what} must be a rectangular (n, d) array: rows differ in length"
        ) from None
    more = ""
    if array.dtype == object:
        more = "; columns of mixed types are no array of numbers"
        columns: Any = getattr(values, "dtypes", None)
        if {getattr(column, "kind", "O") for column in np.ravel(columns)} <= set("fiu"):
            # pandas: numbers that may be missing. Its array holds objects; it can do better.
            array = values.to_numpy(np.float64, na_value=np.nan)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} must be real numbers, got dtype {array.dtype}{more}")
    return array


def as_matrix(
    values: Any,
    what: str,
    width: int | None,
    names: Sequence[Label] | str | bytes | None = None,
) -> Floats:
    """Finite float64 array (n, width) without -0.0.

    Nothing is copied that need not be: float64 comes back as it is, in whatever order it lies in
    memory, and must not be written to.

    Parameters
    ----------
    values : array_like (n, d)
        Also a data frame of pandas or Polars, an Arrow table, or whatever offers ``__array__`` or
        an Arrow stream.
    what : str
        "keys", "queries", ...: for messages.
    width : int or None
        Expected d, or None if any will do.
    names : sequence of ids, optional
        For messages; used only where it fits.

    Raises
    ------
    InputError
        Names the row and the column at fault.
    """
    array = _as_array(values, what)
    if array.ndim != 2:
        raise InputError(
            f"{what} must have two dimensions (n, d), got shape {array.shape}; "
            "use reshape(-1, 1) for one column or reshape(1, -1) for one row"
        )
    if array.shape[0] == 0:
        raise InputError(f"no rows were given: {what} have shape {array.shape}")
    if array.shape[1] == 0:
        raise InputError(f"{what} have no columns: shape {array.shape}")
    if width is not None and array.shape[1] != width:
        raise InputError(f"{what} have {array.shape[1]} columns, this memory has {width}")
    with np.errstate(over="ignore"):
        result = np.asarray(array, np.float64)
    if not (result.min() >= -LARGEST and result.max() <= LARGEST):  # NaN fails too
        _refuse(result, what, names)
    # Equal keys must have equal bytes. As a whole number, -0.0 is the smallest there is.
    if result.view(np.int64).min() == np.iinfo(np.int64).min:
        result = result + 0.0
    return result


def _refuse(result: Floats, what: str, names: Sequence[Label] | str | bytes | None) -> None:
    """Raise InputError for the first number out of range."""
    row, column = (int(i) for i in np.argwhere(~(np.abs(result) <= LARGEST))[0])
    name = f" (id {names[row]!r})" if names and len(names) == len(result) else ""
    value = result[row, column]
    fix = (
        "remove or impute it first"
        if not np.isfinite(value)
        else f"magnitudes above {LARGEST:g} overflow when squared; rescale"
    )
    raise InputError(f"{what} row {row}{name}, column {column} is {value}: {fix}")


def as_points(values: Any, what: str, width: int | None) -> Floats:
    """As :func:`as_matrix`, in the one layout that the reading code is compiled for: C order."""
    return np.require(as_matrix(values, what, width), requirements=["C", "A", "W"])


def as_values(values: Any, n: int, width: int | None, names: Sequence[str]) -> Floats:
    """Values (n, dv) of ``n`` rows; dv is 0 without values, and ``width`` where that is set."""
    if values is None:
        if width:
            raise InputError(f"this memory's rows have values of width {width}; give values")
        return np.zeros((n, 0))
    if width == 0:
        raise InputError("this memory's rows have no values; add these without values")
    array = _as_array(values, "values")
    columns = as_matrix(array.reshape(-1, 1) if array.ndim == 1 else array, "values", width, names)
    if len(columns) != n:
        raise InputError(f"{len(columns)} values were given for {n} keys")
    return columns
