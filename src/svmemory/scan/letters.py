"""Bytes written in base64, as JSON and mail carry them, decoded wherever they stand in a file.

Letters of both alphabets (``+/`` and ``-_``) are taken out of a file, over line breaks and over the
backslashes of JSON, and decoded from each of four letters on: one of the four is the right one.
So no bit of a byte string is lost, whatever comes before and after it, and needles need no form of
their own for base64.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .search import ANCHOR, Searcher

_BREAK, _ESCAPE, _END = 64, 65, 66
_LEAST = (ANCHOR * 8 + 5) // 6  # letters that the shortest needle takes


def _meanings() -> NDArray[np.uint8]:
    """Of each byte: the value of a letter, or what else it does to a run of letters."""
    table = np.full(256, _END, np.uint8)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    for alphabet in (letters + b"+/", letters + b"-_"):
        table[np.frombuffer(alphabet, np.uint8)] = np.arange(64)
    table[np.frombuffer(b" \t\n\v\f\r", np.uint8)] = _BREAK
    table[ord("\\")] = _ESCAPE
    return table


_MEANINGS = _meanings()


@njit(cache=True)
def _take(data, offset, meanings, letters, places, starts, filled, escaped):  # type: ignore[no-untyped-def]
    """Append the letters of ``data``; (letters, runs, where the last run begins, escaped).

    A run too short for any needle is overwritten by the next.
    """
    runs, begin, at = 1, 0, filled
    for i in range(len(data)):
        meaning = meanings[data[i]]
        if meaning < _BREAK:
            # Behind a backslash these three are a line break or a tab.
            if not (escaped and (data[i] == 110 or data[i] == 114 or data[i] == 116)):
                letters[at] = meaning
                places[at] = offset + i
                at += 1
        elif meaning == _END:
            if at - begin < _LEAST:
                at = begin
            else:
                starts[runs] = begin = at
                runs += 1
        escaped = meaning == _ESCAPE
    return at, runs, begin, escaped


@njit(cache=True)
def _decode(letters, first):  # type: ignore[no-untyped-def]
    """Bytes that letters from ``first`` on stand for; the last may be incomplete."""
    count = len(letters) - first
    result = np.empty(max(0, count - 1 - (count - 1) // 4), np.uint8)
    for j in range(len(result)):
        k = j % 3
        at = first + 4 * (j // 3) + k
        result[j] = (letters[at] << (2 * k + 2)) | (letters[at + 1] >> (4 - 2 * k))
    return result


class Letters:
    """Finds needles in the base64 of one file, of which it is given one block after the other.

    Parameters
    ----------
    searcher : Searcher
        Of the needles, as they are before they are written in base64.
    """

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        # Letters that a needle may take, and two of its first group of four that may come before.
        self._keep = (searcher.longest * 8 + 4) // 6 + 3
        self._letters: NDArray[np.uint8] = np.empty(0, np.uint8)  # end of a run that goes on
        self._places: NDArray[np.int64] = np.empty(0, np.int64)
        self._escaped = False

    def find(self, data: NDArray[np.uint8], offset: int) -> Iterator[tuple[int, int]]:
        """Number of each needle in the base64 of the next block, and where its letters begin.

        Parameters
        ----------
        data : (n,) array of uint8
            Content of the file that was not given before.
        offset : int
            Where it begins in the file.
        """
        filled = len(self._letters)
        letters = np.empty(filled + len(data), np.uint8)
        places = np.empty(filled + len(data), np.int64)
        letters[:filled], places[:filled] = self._letters, self._places
        starts = np.zeros(2 + (filled + len(data)) // _LEAST, np.int64)
        count, runs, begin, self._escaped = _take(
            data, offset, _MEANINGS, letters, places, starts, filled, self._escaped
        )
        letters, places = letters[:count], places[:count]
        tail = slice(max(begin, count - self._keep), count)
        self._letters, self._places = letters[tail].copy(), places[tail].copy()
        if count < _LEAST:
            return
        for first in range(4):
            for number, at in self._searcher.find(_decode(letters, first).tobytes()):
                end = at + len(self._searcher.needles[number]) - 1
                one = first + 4 * (at // 3) + at % 3
                last = first + 4 * (end // 3) + end % 3 + 1
                # What ends in the block before was found there; bytes of two runs are no needle.
                run = np.searchsorted(starts[:runs], (one, last), side="right")
                if last >= filled and run[0] == run[1]:
                    yield number, int(places[one])
