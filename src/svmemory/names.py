"""A compact index from names to slots: flat arrays and the compiled code that works on them.

A name whose text is a whole number below 2**62 in plain decimal ("0", "17", not "007") is kept as
that number. Any other name is kept as its UTF-8 bytes, one after another in one array. A hash table
of slots (open addressing, linear probing) finds both. It holds no hashes, and no marks where names
have been.

A name that leaves is overwritten at once. What stays is the length of a text, until its gap is
closed (gaps take at most a third of the room), and the largest number there has been, so that no
number is given twice.

Python passes the arrays one by one: a call with a tuple of them takes twice as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .engine.compile import inner

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

LIMIT = 2**62
"""Names of whole numbers below this are kept as numbers."""

FREE, FIRST_TEXT = -1, -2  # codes of a slot: a number >= 0, FREE, or FIRST_TEXT - r for text r
COUNT, TEXTS, WASTE, LARGEST = range(4)  # entries of Names.tally
RECORD = 12  # bytes that a text takes besides its own
FULL = 0.6  # share of the table's places in use before it is doubled

_SHIFT = np.uint64(33)
_MIX = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)  # MurmurHash3's finaliser
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a


class Names(NamedTuple):
    """The index's arrays; N slots, T places, B bytes and R texts of room."""

    code: Ints  # (N,) what is in a slot, see above
    table: Slots  # (T,) slot or -1; T is a power of two
    text: Bytes  # (B,) the texts, end to end
    ends: Ints  # (R,) where text r ends in `text`
    owner: Slots  # (R,) slot of text r; -1 once it has been forgotten
    tally: Ints  # (4,) names held, texts, bytes taken by forgotten texts, largest number ever


@inner
def _home(h, table):  # type: ignore[no-untyped-def]
    """Place where the search for a hash begins."""
    h ^= h >> _SHIFT
    h *= _MIX[0]
    h ^= h >> _SHIFT
    h *= _MIX[1]
    h ^= h >> _SHIFT
    return np.int64(h & np.uint64(len(table) - 1))


@inner
def _home_of_text(table, data, start, end):  # type: ignore[no-untyped-def]
    h = _BASIS
    for i in range(start, end):
        h = (h ^ np.uint64(data[i])) * _PRIME
    return _home(h, table)


@inner
def _start(ends, r):  # type: ignore[no-untyped-def]
    return ends[r - 1] if r > 0 else 0


@inner
def _home_of_slot(s, slot):  # type: ignore[no-untyped-def]
    code = s.code[slot]
    if code >= 0:
        return _home(np.uint64(code), s.table)
    r = FIRST_TEXT - code
    return _home_of_text(s.table, s.text, _start(s.ends, r), s.ends[r])


@inner
def _number(data, start, end):  # type: ignore[no-untyped-def]
    """Number below LIMIT that the bytes write in plain decimal, or -1."""
    size = end - start
    if size == 0 or size > 19 or (size > 1 and data[start] == 48):
        return -1
    number = np.int64(0)
    for i in range(start, end):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        number = 10 * number + digit
    # 19 digits may pass 2**63, but then they wrap to less than 0 (10**19 - 2**64 is negative).
    return number if 0 <= number < LIMIT else -1


@inner
def _place(code, table, text, ends, number, data, start, end):  # type: ignore[no-untyped-def]
    """Place of a name in the table, or the empty one that would be its own."""
    last = len(table) - 1
    p = _home(np.uint64(number), table) if number >= 0 else _home_of_text(table, data, start, end)
    while table[p] >= 0:
        held = code[table[p]]
        if number >= 0:
            if held == number:
                break
        elif held < 0:
            r = FIRST_TEXT - held
            a = _start(ends, r)
            if ends[r] - a == end - start:
                i = end - start - 1  # from the end, where ids of one kind differ
                while i >= 0 and text[a + i] == data[start + i]:
                    i -= 1
                if i < 0:
                    break
        p = (p + 1) & last
    return p


@inner
def _fill(table, p, slot):  # type: ignore[no-untyped-def]
    """Put a slot in the first empty place from ``p`` on."""
    last = len(table) - 1
    while table[p] >= 0:
        p = (p + 1) & last
    table[p] = slot


@njit(cache=True)
def find(code, table, text, ends, data, sizes, slots):  # type: ignore[no-untyped-def]
    """Slots of names, -1 where one is not held; their bytes are end to end in ``data``."""
    start = 0
    for i in range(len(sizes)):
        end = start + sizes[i]
        number = _number(data, start, end)
        slots[i] = table[_place(code, table, text, ends, number, data, start, end)]
        start = end


@inner
def _room_for(data, sizes):  # type: ignore[no-untyped-def]
    """How many of these names are texts, and their bytes."""
    texts, total, start = 0, 0, 0
    for size in sizes:
        if _number(data, start, start + size) < 0:
            texts += 1
            total += size
        start += size
    return texts, total


@njit(cache=True)
def enter(code, table, text, ends, owner, tally, slots, data, sizes):  # type: ignore[no-untyped-def]
    """Enter names that are not held, if there is room.

    Returns whether there was; if not, nothing has changed, and the slots, texts and bytes to make
    room for follow.
    """
    s = Names(code, table, text, ends, owner, tally)
    texts, total = _room_for(data, sizes)
    top = slots.max() + 1
    held = s.tally[TEXTS]
    if (
        top > len(s.code)
        or held + texts > len(s.ends)
        or _start(s.ends, held) + total > len(s.text)
        or s.tally[COUNT] + len(sizes) > FULL * len(s.table)
    ):
        return False, top, held + texts, _start(s.ends, held) + total
    start = 0
    for i in range(len(sizes)):
        end, slot = start + sizes[i], slots[i]
        number = _number(data, start, end)
        if number >= 0:
            s.code[slot] = number
            s.tally[LARGEST] = max(s.tally[LARGEST], number)
        else:
            r = s.tally[TEXTS]
            s.tally[TEXTS] += 1
            a = _start(s.ends, r)
            for j in range(end - start):
                s.text[a + j] = data[start + j]
            s.ends[r] = a + end - start
            s.owner[r] = slot
            s.code[slot] = FIRST_TEXT - r
        _fill(s.table, _home_of_slot(s, slot), slot)
        s.tally[COUNT] += 1
        start = end
    return True, top, held + texts, _start(s.ends, held + texts)


@njit(cache=True)
def leave(code, table, text, ends, owner, tally, slots):  # type: ignore[no-untyped-def]
    """Forget the names of slots."""
    s = Names(code, table, text, ends, owner, tally)
    last = len(s.table) - 1
    for slot in slots:
        p = _home_of_slot(s, slot)
        while s.table[p] != slot:
            p = (p + 1) & last
        _empty(s, p)
        if s.code[slot] < 0:
            r = FIRST_TEXT - s.code[slot]
            a = _start(s.ends, r)
            s.text[a : s.ends[r]] = 0
            s.owner[r] = -1
            s.tally[WASTE] += s.ends[r] - a + RECORD
        s.code[slot] = FREE
        s.tally[COUNT] -= 1
    texts = s.tally[TEXTS]
    if 3 * s.tally[WASTE] > _start(s.ends, texts) + RECORD * texts:
        _compact(s)


@inner
def _empty(s, hole):  # type: ignore[no-untyped-def]
    """Empty a place, and move names back whose search would otherwise end there."""
    last = len(s.table) - 1
    p = hole
    while True:
        p = (p + 1) & last
        if s.table[p] < 0:
            break
        if (p - _home_of_slot(s, s.table[p])) & last >= (p - hole) & last:
            s.table[hole] = s.table[p]
            hole = p
    s.table[hole] = -1


@inner
def _compact(s):  # type: ignore[no-untyped-def]
    """Close the gaps that forgotten texts have left."""
    kept, write, start = 0, 0, 0
    texts = s.tally[TEXTS]
    for r in range(texts):
        end, slot = s.ends[r], s.owner[r]
        if slot >= 0:
            for i in range(start, end):
                s.text[write] = s.text[i]
                write += 1
            s.ends[kept], s.owner[kept] = write, slot
            s.code[slot] = FIRST_TEXT - kept
            kept += 1
        start = end
    s.text[write:start] = 0
    s.ends[kept:texts] = 0
    s.owner[kept:texts] = -1
    s.tally[TEXTS], s.tally[WASTE] = kept, 0


@njit(cache=True)
def refill(code, table, text, ends, owner, tally):  # type: ignore[no-untyped-def]
    """Enter all held names into an empty table."""
    s = Names(code, table, text, ends, owner, tally)
    for slot in range(len(s.code)):
        if s.code[slot] != FREE:
            _fill(s.table, _home_of_slot(s, slot), slot)


@njit(cache=True)
def spell(code, text, ends, slots):  # type: ignore[no-untyped-def]
    """Names of slots as UTF-8 bytes end to end, and where each stops."""
    stops = np.empty(len(slots), np.int64)
    total = 0
    for i in range(len(slots)):
        number = code[slots[i]]
        if number < 0:
            r = FIRST_TEXT - number
            total += ends[r] - _start(ends, r)
        else:
            total += 1
            while number >= 10:
                number //= 10
                total += 1
        stops[i] = total
    data = np.empty(total, np.uint8)
    start = 0
    for i in range(len(slots)):
        number = code[slots[i]]
        if number < 0:
            a = _start(ends, FIRST_TEXT - number)
            for j in range(stops[i] - start):
                data[start + j] = text[a + j]
        else:
            for j in range(stops[i] - 1, start - 1, -1):
                data[j] = 48 + number % 10
                number //= 10
        start = stops[i]
    return data, stops
