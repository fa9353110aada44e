"""Names by slot and slots by name, in about 20 bytes a number and 30 and its text a text.

:class:`IdIndex` keeps the arrays of :mod:`svmemory.names` and turns them into strings and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from . import names as compiled
from .arrays import grown
from .names import COUNT, FREE, FULL, LARGEST, Bytes, Ints, Names


def packed(names: Sequence[str]) -> tuple[Bytes, Ints]:
    """UTF-8 bytes of names end to end, and how many each has."""
    text = "".join(names)
    parts: Any = names if text.isascii() else (name.encode() for name in names)
    sizes = np.fromiter(map(len, parts), np.int64, len(names))
    return np.frombuffer(text.encode(), np.uint8), sizes


class IdIndex:
    """Distinct names of slots.

    A name is any text that UTF-8 can write and that is not empty. Whoever uses the index says
    which slots the names are in, and does not enter a name or a slot twice.
    """

    def __init__(self) -> None:
        self._names = Names(
            code=np.full(16, FREE, np.int64),
            table=np.full(32, -1, np.int32),
            text=np.zeros(0, np.uint8),
            ends=np.zeros(0, np.int64),
            owner=np.zeros(0, np.int32),
            tally=np.array([0, 0, 0, -1], np.int64),
        )

    def __len__(self) -> int:
        return int(self._names.tally[COUNT])

    @property
    def largest(self) -> int:
        """Largest number among all names so far that are numbers; -1 before the first."""
        return int(self._names.tally[LARGEST])

    @property
    def arrays(self) -> Names:
        """All that the index keeps."""
        return self._names

    def find(self, names: Sequence[str]) -> Ints:
        """Slots of names; -1 where a name is not held."""
        code, table, text, ends, _, _ = self._names
        slots = np.empty(len(names), np.int64)
        compiled.find(code, table, text, ends, *packed(names), slots)
        return slots

    def names(self, slots: Ints) -> list[str]:
        """Names in slots, all of which hold one."""
        code, _, text, ends, _, _ = self._names
        data, stops = compiled.spell(code, text, ends, slots)
        raw = data.tobytes()
        cuts = pairwise([0, *stops.tolist()])
        if raw.isascii():
            joined = raw.decode()
            return [joined[a:b] for a, b in cuts]
        return [raw[a:b].decode() for a, b in cuts]

    def enter(self, slots: Ints, names: Sequence[str]) -> None:
        """Put names that are not held into slots that hold none."""
        if not len(names):
            return
        data, sizes = packed(names)
        while True:
            done, *room = compiled.enter(*self._names, slots, data, sizes)
            if done:
                return
            self._make_room(len(self) + len(names), *room)

    def leave(self, slots: Ints) -> None:
        """Forget the names in slots, all of which hold one; the bytes are overwritten."""
        if len(slots):
            compiled.leave(*self._names, slots)

    def copy(self) -> IdIndex:
        """An independent index."""
        twin = IdIndex()
        twin._names = Names._make(array.copy() for array in self._names)
        return twin

    def _make_room(self, names: int, slots: int, texts: int, size: int) -> None:
        s = self._names
        s = s._replace(
            code=grown(s.code, slots, FREE),
            text=grown(s.text, size, 0),
            ends=grown(s.ends, texts, 0),
            owner=grown(s.owner, texts, -1),
        )
        places = len(s.table)
        while names > FULL * places:
            places *= 2
        if places > len(s.table):
            s = s._replace(table=np.full(places, -1, np.int32))
            compiled.refill(*s)
        self._names = s
