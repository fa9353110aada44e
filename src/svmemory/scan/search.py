"""Look for thousands of byte strings in one pass over the data.

Every needle has an anchor, its eight bytes with the most different values. The pass keeps the last
eight bytes in one integer, and asks a small bit table and then a sorted list whether they are an
anchor; only there are needles compared. So the time depends on the size of the data, hardly on the
number of needles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

ANCHOR = 8
_BATCH = 1 << 16  # anchors found before needles are compared
_MOST_BITS = 22  # of the table: 4 MB


@njit(cache=True)
def _anchors(data, start, table, shift, anchors, places, which):  # type: ignore[no-untyped-def]
    """Fill ``places`` and ``which`` with anchors from ``start`` on; (count, where to go on)."""
    count = 0
    word = np.uint64(0)
    eight = np.uint64(8)
    high = np.uint64(56)
    mix = np.uint64(0x9E3779B97F4A7C15)
    filled = min(start + 7, len(data))
    for i in range(start, filled):
        word = (word >> eight) | (np.uint64(data[i]) << high)
    for i in range(filled, len(data)):
        word = (word >> eight) | (np.uint64(data[i]) << high)
        if table[(word * mix) >> shift]:
            k = np.searchsorted(anchors, word)
            if k < len(anchors) and anchors[k] == word:
                places[count] = i - 7
                which[count] = k
                count += 1
                if count == len(places):
                    return count, i - 6
    return count, len(data)


class Searcher:
    """Finds occurrences of some needles.

    Parameters
    ----------
    needles : sequence of bytes
        Each of at least 8 bytes, each different from the others.
    """

    def __init__(self, needles: Sequence[bytes]) -> None:
        if any(len(needle) < ANCHOR for needle in needles):
            raise ValueError(f"a needle has at least {ANCHOR} bytes")
        self.needles = list(needles)
        self.longest = max((len(needle) for needle in needles), default=0)
        by_anchor: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, needle in enumerate(self.needles):
            offset = _best_anchor(needle)
            word = int.from_bytes(needle[offset : offset + ANCHOR], "little")
            by_anchor[word].append((number, offset))
        words = sorted(by_anchor)
        self._owners = [by_anchor[word] for word in words]
        self._anchors = np.array(words, dtype=np.uint64)
        bits = min(_MOST_BITS, max(10, len(words).bit_length() + 6))
        self._shift = np.uint64(64 - bits)
        self._table: NDArray[np.bool_] = np.zeros(1 << bits, dtype=bool)
        with np.errstate(over="ignore"):
            mixed = self._anchors * np.uint64(0x9E3779B97F4A7C15)
        self._table[mixed >> self._shift] = True
        self._places = np.empty(_BATCH, dtype=np.int64)
        self._which = np.empty(_BATCH, dtype=np.int64)

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Number and offset of every occurrence of every needle, overlapping ones included."""
        if not self.needles:
            return
        array = np.frombuffer(data, np.uint8)
        start = 0
        while start < len(array):
            count, start = _anchors(
                array, start, self._table, self._shift, self._anchors, self._places, self._which
            )
            for place, k in zip(
                self._places[:count].tolist(), self._which[:count].tolist(), strict=True
            ):
                for number, offset in self._owners[k]:
                    at = place - offset
                    # A negative index would count from the end.
                    if at >= 0 and data.startswith(self.needles[number], at):
                        yield number, at


def _best_anchor(needle: bytes) -> int:
    """Offset of eight bytes that seldom occur by chance: the first ones with the most values."""
    best, most = 0, 0
    for start in range(len(needle) - ANCHOR + 1):
        values = len(set(needle[start : start + ANCHOR]))
        if values > most:
            best, most = start, values
            if most == ANCHOR:
                break
    return best
