"""Identity of rows: ids, subjects and values by engine slot.

Rows keep their order of arrival; the engine's slots are an implementation detail that never leaves
this package. Everything is in flat arrays, so that a row with a numbered id costs 30 to 40 bytes
beside its value, and 12 more where rows have subjects. What belongs to a row that leaves is
overwritten at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .chains import Chains
from .errors import DuplicateIdError, InputError, UnknownIdError
from .idindex import IdIndex
from .inputs import Floats, Label, as_label, as_labels, listed
from .names import LIMIT
from .space import RowSpace

Ints = NDArray[np.int64]

MOST = 2**31 - 1
"""Rows that a table can hold: slots are stored in 32 bits."""


class RowTable:
    """Ids, subjects and values of the rows in an engine's slots.

    Parameters
    ----------
    cold : path, optional
        Folder for a file that holds the values instead of memory.
    """

    def __init__(self, cold: str | os.PathLike[str] | None = None) -> None:
        self._cold = cold
        self.value_width: int | None = None
        self._ids = IdIndex()
        self._arrival = Chains()  # one list: all rows in order of arrival
        self._arrival.make_room(0, 1)
        self._subjects = IdIndex()  # a subject's name is in the slot of its number
        self._spare: list[int] = []  # numbers of subjects that are gone
        self._groups = Chains()  # a list for every subject: its rows in order of arrival
        self._values: RowSpace | None = None  # None where rows have no values
        self._numbered = 0  # ids below this number are not given again

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, name: object) -> bool:
        try:
            return bool(self._ids.find([as_label(name, "id", 0)])[0] >= 0)
        except InputError:
            return False

    # -- reading ----------------------------------------------------------------------------------

    def in_order(self, names: Sequence[str] | None = None) -> Ints:
        """Slots of the named rows, or of all in order of arrival."""
        if names is None:
            return self._arrival.listed(0)
        slots = self._ids.find(names)
        if len(slots) and slots.min() < 0:
            raise UnknownIdError(f"id {names[int(slots.argmin())]!r} is not held")
        return slots

    def names(self, slots: Ints | None = None) -> list[str]:
        """Ids of slots, or of all rows in order of arrival."""
        return self._ids.names(self.in_order() if slots is None else slots)

    def subjects(self, slots: Ints) -> list[str | None]:
        """Subjects of slots."""
        numbers, back = np.unique(self._groups.of(slots), return_inverse=True)
        texts: list[str | None] = [None] if len(numbers) and numbers[0] < 0 else []
        texts.extend(self._subjects.names(numbers[len(texts) :].astype(np.int64)))
        return [texts[i] for i in back.tolist()]

    def values(self, slots: Ints) -> Floats:
        """Values of slots, (n, dv)."""
        if self._values is None:
            return np.zeros((len(slots), 0))
        return self._values.array[slots]

    def select(
        self, ids: Iterable[Label] | Label | None, subject: Label | None, strict: bool
    ) -> tuple[list[str], Ints]:
        """Ids and slots of the held rows that a request names, by id or by subject.

        ``strict`` refuses ids and subjects that are not held.
        """
        if (ids is None) == (subject is None):
            raise InputError("give either ids or subject")
        hint = 'missing="ignore" passes over it'
        if subject is not None:
            label = as_label(subject, "subject", 0)
            number = int(self._subjects.find([label])[0])
            if number >= 0:
                slots = self._groups.listed(number)
                return self.names(slots), slots
            if strict:
                raise UnknownIdError(f"no row of subject {label!r} is held; {hint}")
            return [], np.zeros(0, np.int64)
        single = isinstance(ids, str | int | np.integer)
        wanted = [ids] if single else listed(ids, "id")  # type: ignore[arg-type]
        names = list(dict.fromkeys(as_labels(wanted, "id", len(wanted))))
        if not names:
            if strict:
                raise InputError("no ids were given")
            return [], np.zeros(0, np.int64)
        slots = self._ids.find(names)
        if slots.min() >= 0:
            return names, slots
        absent = np.flatnonzero(slots < 0).tolist()
        if strict:
            more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
            raise UnknownIdError(f"id {names[absent[0]]!r}{more} is not held; {hint}")
        present = np.flatnonzero(slots >= 0)
        return [names[i] for i in present.tolist()], slots[present]

    def new_ids(self, ids: Iterable[Any] | None, n: int) -> list[str]:
        """Ids for ``n`` arriving rows; numbers in order of arrival where none are given."""
        if len(self) + n > MOST:
            raise InputError(f"a memory holds at most {MOST:,} rows")
        if ids is None:
            first = max(self._numbered, self._ids.largest + 1)
            if first + n > LIMIT:
                raise InputError(f"rows are numbered below 2**62, and {first - 1} is taken")
            return list(map(str, range(first, first + n)))
        labels = as_labels(ids, "id", n)
        if len(set(labels)) < n or self._ids.find(labels).max(initial=-1) >= 0:
            self._refuse(labels)
        return labels

    def _refuse(self, labels: list[str]) -> None:
        """Raise DuplicateIdError for the first id that is given twice or already held."""
        seen: dict[str, int] = {}
        for row, label in enumerate(labels):
            if label in seen:
                raise DuplicateIdError(
                    f"id {label!r} is given twice, in rows {seen[label]} and {row}"
                )
            if label in self:
                raise DuplicateIdError(
                    f"id {label!r} (row {row}) is already held; forget it first to replace it"
                )
            seen[label] = row

    # -- changing ---------------------------------------------------------------------------------

    def put_many(
        self,
        slots: Ints | Sequence[int],
        names: Sequence[str],
        subjects: Sequence[str | None],
        values: Floats,
    ) -> None:
        """Enter checked rows in free slots, all or none.

        ``values`` (n, dv) has width 0 where rows have none. Raises MemoryError, or OSError where
        values are on a disk, when there is no room.
        """
        places = np.asarray(slots, np.int64)
        if not len(places):
            return
        size = int(places.max()) + 1
        numbers, new = self._numbers(subjects)
        try:
            if not len(self):
                self._values = RowSpace(values.shape[1], self._cold) if values.shape[1] else None
            if self._values is not None:
                self._values.ensure(size)
            self._arrival.make_room(size, 0)
            # Rows without subjects may have come before the first subject: room for all slots.
            self._groups.make_room(self._arrival.room, len(self._subjects) + len(self._spare))
            self._ids.enter(places, names)
        except BaseException:
            self._drop_subjects(new)
            raise
        # There is room for everything, so nothing below fails.
        self._arrival.append(places, np.zeros(len(places), np.int64))
        self._groups.append(places, numbers)
        if self._values is not None:
            self._values.array[places] = values
            self._values.let_go()

    def drop_many(self, slots: Ints | Sequence[int]) -> None:
        """Forget the ids, subjects and values of rows."""
        places = np.asarray(slots, np.int64)
        self._ids.leave(places)
        self._arrival.cut(places)
        if self._values is not None:
            self._values.array[places] = 0.0
            self._values.let_go()
        emptied = self._groups.cut(places)
        if len(emptied):
            self._drop_subjects(emptied)

    def reassign(self, names: Sequence[str], slots: Ints | Sequence[int]) -> None:
        """Give held rows other slots; they keep their places in the order of arrival."""
        new = dict(zip(names, np.asarray(slots).tolist(), strict=True))
        old = self.in_order()
        held = self.names(old)
        places = [new.get(name, slot) for name, slot in zip(held, old.tolist(), strict=True)]
        table = RowTable(self._cold)
        table.put_many(places, held, self.subjects(old), self.values(old))
        table.value_width = self.value_width
        table._numbered = max(self._numbered, self._ids.largest + 1)
        self.__dict__.update(table.__dict__)

    def clear(self) -> None:
        """Forget widths and storage once the last row is gone; numbering goes on."""
        table = RowTable(self._cold)
        table._numbered = max(self._numbered, self._ids.largest + 1)
        self.__dict__.update(table.__dict__)

    def copy(self) -> RowTable:
        """An independent table."""
        twin = RowTable(self._cold)
        twin.value_width = self.value_width
        twin._ids, twin._subjects = self._ids.copy(), self._subjects.copy()
        twin._arrival, twin._groups = self._arrival.copy(), self._groups.copy()
        twin._spare = list(self._spare)
        twin._values = None if self._values is None else self._values.copy()
        twin._numbered = self._numbered
        return twin

    def _numbers(self, subjects: Sequence[str | None]) -> tuple[Ints, Ints]:
        """Numbers of subjects, -1 for none, and which of them are new."""
        distinct = [subject for subject in dict.fromkeys(subjects) if subject is not None]
        if not distinct:
            return np.full(len(subjects), -1, np.int64), np.zeros(0, np.int64)
        number: dict[str | None, int] = {None: -1}
        number.update(zip(distinct, self._subjects.find(distinct).tolist(), strict=True))
        new = [subject for subject in distinct if number[subject] < 0]
        used = len(self._subjects) + len(self._spare)
        again = self._spare[-len(new) :] if new else []
        fresh = np.array([*again, *range(used, used + len(new) - len(again))], np.int64)
        self._subjects.enter(fresh, new)
        del self._spare[len(self._spare) - len(again) :]
        number.update(zip(new, fresh.tolist(), strict=True))
        return np.fromiter(map(number.__getitem__, subjects), np.int64, len(subjects)), fresh

    def _drop_subjects(self, numbers: Ints) -> None:
        """Forget subjects without rows."""
        self._subjects.leave(numbers)
        self._spare.extend(numbers.tolist())
