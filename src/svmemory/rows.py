"""Identity of rows: ids, subjects and values by engine slot, and the checks that input must pass.

Rows keep their order of arrival (a dict keeps insertion order); the engine's slots are an
implementation detail that never leaves this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import DuplicateIdError, InputError, UnknownIdError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Label = str | int

LARGEST = 1e150
"""Largest magnitude of a key or query: its square must not overflow."""


def as_label(value: object, what: str, row: int) -> str:
    """Id or subject as text; whole numbers are written in decimal."""
    if isinstance(value, bool | np.bool_):
        raise InputError(f"{what} of row {row} is a truth value; use a string or a whole number")
    if isinstance(value, int | np.integer):
        return str(int(value))
    if not isinstance(value, str):
        raise InputError(
            f"{what} of row {row} must be a string or a whole number, "
            f"got {type(value).__name__} {value!r}"
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
    if isinstance(values, str | bytes):
        raise InputError(f"{what}s must be a sequence of {n}, got one string")
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if len(listed) != n:
        raise InputError(f"{len(listed)} {what}s were given for {n} rows")
    return [as_label(value, what, row) for row, value in enumerate(listed)]


def as_matrix(
    values: ArrayLike,
    what: str,
    width: int | None,
    names: Sequence[Label] | str | bytes | None = None,
) -> Floats:
    """Finite float64 array (n, width), C order, not sharing memory with the input's caller.

    Parameters
    ----------
    values : array_like (n, d)
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
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(
            f"{what} must be a rectangular (n, d) array: rows differ in length"
        ) from None
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} must be real numbers, got dtype {array.dtype}")
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
        result = np.array(array, dtype=np.float64, order="C")
    good = np.abs(result) <= LARGEST
    if not good.all():
        row, column = (int(i) for i in np.argwhere(~good)[0])
        name = f" (id {names[row]!r})" if names and len(names) == len(result) else ""
        value = result[row, column]
        fix = (
            "remove or impute it first"
            if not np.isfinite(value)
            else f"magnitudes above {LARGEST:g} overflow when squared; rescale"
        )
        raise InputError(f"{what} row {row}{name}, column {column} is {value}: {fix}")
    result += 0.0  # -0.0 becomes 0.0, so that equal keys have equal bytes
    return result


def as_subjects(subjects: Iterable[Label | None] | None, n: int) -> list[str | None]:
    """``n`` subjects as text or None."""
    if subjects is None:
        return [None] * n
    if isinstance(subjects, str | bytes):
        raise InputError(f"subjects must be a sequence of {n}, got one string")
    listed = subjects.tolist() if isinstance(subjects, np.ndarray) else list(subjects)
    if len(listed) != n:
        raise InputError(f"{len(listed)} subjects were given for {n} rows")
    return [None if x is None else as_label(x, "subject", row) for row, x in enumerate(listed)]


def as_values(values: ArrayLike | None, n: int, width: int | None, names: Sequence[str]) -> Floats:
    """Values (n, dv) of ``n`` rows; dv is 0 without values, and ``width`` where that is set."""
    if values is None:
        if width:
            raise InputError(f"this memory's rows have values of width {width}; give values")
        return np.zeros((n, 0))
    if width == 0:
        raise InputError("this memory's rows have no values; add these without values")
    array = values if np.ndim(values) != 1 else np.reshape(values, (-1, 1))
    columns = as_matrix(array, "values", width, names)
    if len(columns) != n:
        raise InputError(f"{len(columns)} values were given for {n} keys")
    return columns


class RowTable:
    """Ids, subjects and values of the rows in an engine's slots."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.value_width: int | None = None
        self._ids: list[str | None] = []
        self._subjects: list[str | None] = []
        self._by_subject: dict[str, dict[str, None]] = {}
        self._values: Floats = np.zeros((0, 0))
        self._next = 0

    def __len__(self) -> int:
        return len(self.slots)

    def new_ids(self, ids: Iterable[Any] | None, n: int) -> list[str]:
        """Ids for ``n`` arriving rows; numbers in order of arrival where none are given."""
        if ids is None:
            made: list[str] = []
            number = self._next
            while len(made) < n:
                if str(number) not in self.slots:
                    made.append(str(number))
                number += 1
            return made
        labels = as_labels(ids, "id", n)
        seen: dict[str, int] = {}
        for row, label in enumerate(labels):
            if label in seen:
                raise DuplicateIdError(
                    f"id {label!r} is given twice, in rows {seen[label]} and {row}"
                )
            if label in self.slots:
                raise DuplicateIdError(
                    f"id {label!r} (row {row}) is already held; forget it first to replace it"
                )
            seen[label] = row
        return labels

    def put(self, slot: int, name: str, subject: str | None, value: Floats) -> None:
        """Enter a row; ``value`` has width 0 where rows have none."""
        while len(self._ids) <= slot:
            grow = max(64, len(self._ids))
            self._ids.extend([None] * grow)
            self._subjects.extend([None] * grow)
        self.slots[name] = slot
        self._ids[slot] = name
        self._subjects[slot] = subject
        if subject is not None:
            self._by_subject.setdefault(subject, {})[name] = None
        if len(self._values) < len(self._ids):
            longer = np.zeros((len(self._ids), len(value)))
            if len(self._values):
                longer[: len(self._values)] = self._values
            self._values = longer
        self._values[slot] = value
        if name.isdecimal() and name.isascii() and str(int(name)) == name:
            self._next = max(self._next, int(name) + 1)

    def drop(self, name: str) -> None:
        """Forget a row's id, subject and value."""
        slot = self.slots.pop(name)
        self._ids[slot] = None
        subject = self._subjects[slot]
        self._subjects[slot] = None
        if subject is not None:
            group = self._by_subject[subject]
            del group[name]
            if not group:
                del self._by_subject[subject]
        self._values[slot] = 0.0

    def reassign(self, names: list[str], slots: list[int]) -> None:
        """Give held rows other slots; they keep their places in the order of arrival."""
        old = self.in_order(names)
        subjects = [self._subjects[slot] for slot in old.tolist()]
        values = self._values[old]
        for slot in old.tolist():
            self._ids[slot], self._subjects[slot] = None, None
        self._values[old] = 0.0
        for row, (name, slot) in enumerate(zip(names, slots, strict=True)):
            self.put(slot, name, subjects[row], values[row])

    def clear(self) -> None:
        """Forget widths and storage once the last row is gone; numbering goes on."""
        number = self._next
        self.__dict__.update(RowTable().__dict__)
        self._next = number

    def select(
        self, ids: Iterable[Label] | Label | None, subject: Label | None, strict: bool
    ) -> list[str]:
        """Held ids that a request names, by id or by subject; ``strict`` refuses absent ones."""
        if (ids is None) == (subject is None):
            raise InputError("give either ids or subject")
        hint = 'missing="ignore" passes over it'
        if subject is not None:
            label = as_label(subject, "subject", 0)
            names = list(self._by_subject.get(label, ()))
            if strict and not names:
                raise UnknownIdError(f"no row of subject {label!r} is held; {hint}")
            return names
        listed = [ids] if isinstance(ids, str | int | np.integer) else list(ids)  # type: ignore[arg-type]
        names = list(dict.fromkeys(as_labels(listed, "id", len(listed))))
        if not names:
            raise InputError("no ids were given")
        absent = [name for name in names if name not in self.slots]
        if strict and absent:
            more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
            raise UnknownIdError(f"id {absent[0]!r}{more} is not held; {hint}")
        return [name for name in names if name in self.slots]

    def subject(self, name: str) -> str | None:
        """Subject of a row."""
        return self._subjects[self.slots[name]]

    def in_order(self, names: Iterable[str] | None = None) -> Ints:
        """Slots of the named rows, or of all in order of arrival."""
        if names is None:
            return np.fromiter(self.slots.values(), np.int64, len(self.slots))
        return np.array([self.slots[name] for name in names], np.int64)

    def names(self, slots: Ints) -> list[str]:
        """Ids of slots."""
        return [str(self._ids[slot]) for slot in slots.tolist()]

    def values(self, slots: Ints) -> Floats:
        """Values of slots, (n, dv)."""
        return self._values[slots]

    def copy(self) -> RowTable:
        """An independent table."""
        twin = RowTable()
        twin.slots = dict(self.slots)
        twin.value_width = self.value_width
        twin._ids = list(self._ids)
        twin._subjects = list(self._subjects)
        twin._by_subject = {k: dict(v) for k, v in self._by_subject.items()}
        twin._values = self._values.copy()
        twin._next = self._next
        return twin
