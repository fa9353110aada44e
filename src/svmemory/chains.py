"""Orders of slots as doubly linked lists in flat arrays: 12 bytes a slot and 12 a list.

The table of rows keeps its order of arrival in one chain, and the rows of every subject in another.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .arrays import grown

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]


@njit(cache=True)
def _append(of, after, before, ends, sizes, slots, lists):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        slot, k = slots[i], lists[i]
        if k < 0:
            continue
        of[slot] = k
        last = ends[k, 1]
        before[slot] = last
        if last >= 0:
            after[last] = slot
        else:
            ends[k, 0] = slot
        ends[k, 1] = slot
        sizes[k] += 1


@njit(cache=True)
def _cut(of, after, before, ends, sizes, slots):  # type: ignore[no-untyped-def]
    emptied = np.empty(len(slots), np.int64)
    count = 0
    for slot in slots:
        k = of[slot]
        if k < 0:
            continue
        a, b = before[slot], after[slot]
        if a >= 0:
            after[a] = b
        else:
            ends[k, 0] = b
        if b >= 0:
            before[b] = a
        else:
            ends[k, 1] = a
        of[slot] = before[slot] = after[slot] = -1
        sizes[k] -= 1
        if sizes[k] == 0:
            emptied[count] = k
            count += 1
    return emptied[:count]


@njit(cache=True)
def _listed(after, first, size):  # type: ignore[no-untyped-def]
    slots = np.empty(size, np.int64)
    slot = first
    for i in range(size):
        slots[i] = slot
        slot = after[slot]
    return slots


class Chains:
    """Lists of slots; a slot is in one list or none, and is appended at the list's end."""

    def __init__(self) -> None:
        self._of: Slots = np.zeros(0, np.int32)  # number of the slot's list, or -1
        self._after: Slots = np.zeros(0, np.int32)  # the next slot in it, or -1
        self._before: Slots = np.zeros(0, np.int32)  # the one before, or -1
        self._ends: Slots = np.zeros((0, 2), np.int32)  # first and last slot of every list, or -1
        self._sizes: Slots = np.zeros(0, np.int32)

    @property
    def arrays(self) -> tuple[Slots, Slots, Slots, Slots, Slots]:
        """All that is kept."""
        return self._of, self._after, self._before, self._ends, self._sizes

    @property
    def room(self) -> int:
        """Slots below this number can be used."""
        return len(self._of)

    def make_room(self, slots: int, lists: int) -> None:
        """See that slots and lists below these numbers can be used.

        Without lists there is nothing to keep about slots, and no room is taken for them.
        """
        if not lists and not len(self._ends):
            return
        self._of = grown(self._of, slots, -1)
        self._after = grown(self._after, slots, -1)
        self._before = grown(self._before, slots, -1)
        self._ends = grown(self._ends, lists, -1)
        self._sizes = grown(self._sizes, lists, 0)

    def append(self, slots: Ints, lists: Ints) -> None:
        """Put each slot, so far in no list, at the end of its list; -1 is none."""
        if len(self._ends):
            _append(*self.arrays, slots, lists)

    def cut(self, slots: Ints) -> Ints:
        """Take slots out of their lists; numbers of the lists that are empty now."""
        if not len(self._ends):
            return np.zeros(0, np.int64)
        emptied: Ints = _cut(*self.arrays, slots)
        return emptied

    def of(self, slots: Ints) -> Slots:
        """Number of each slot's list, or -1."""
        return self._of[slots] if len(self._ends) else np.full(len(slots), -1, np.int32)

    def listed(self, number: int) -> Ints:
        """Slots of a list in order."""
        slots: Ints = _listed(self._after, self._ends[number, 0], self._sizes[number])
        return slots

    def copy(self) -> Chains:
        """An independent copy."""
        twin = Chains()
        twin._of, twin._after, twin._before, twin._ends, twin._sizes = (
            array.copy() for array in self.arrays
        )
        return twin
