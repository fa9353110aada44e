"""One pass over names and files, in which needles are found and what cannot be seen is noted."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .files import File, Name, Skipped, blocks, shown, walk
from .letters import Letters
from .opaque import by_start, looks_random
from .report import Place
from .search import Searcher

PLACES = 5
"""Places listed of each needle."""

Hit = tuple[bytes, bool]
"""A needle, and whether it was written in base64."""


@dataclass
class Sought:
    """What is looked for, and what was found of it so far.

    ``control`` are needles that show that numbers of live rows can be seen, ``seen`` the files in
    which they were.
    """

    needles: list[bytes]
    control: set[bytes]
    seen: set[str] = field(default_factory=set)
    counts: dict[Hit, int] = field(default_factory=lambda: defaultdict(int))
    places: dict[Hit, list[Place]] = field(default_factory=lambda: defaultdict(list))

    def hit(self, needle: bytes, place: Place, base64: bool = False) -> None:
        """Count an occurrence."""
        self.counts[needle, base64] += 1
        if len(self.places[needle, base64]) < PLACES:
            self.places[needle, base64].append(place)
        if needle in self.control and place.offset is not None:
            self.seen.add(place.file)


class Reader:
    """Reads what is below a folder.

    Attributes
    ----------
    files, bytes : int
        What was read.
    skipped : list of Skipped
    compressed : list of (str, str)
        Files, with their format, in which bytes are not seen as they were.
    """

    def __init__(self, sought: Sought) -> None:
        self._sought = sought
        self._searcher = Searcher(sought.needles)
        self.files = 0
        self.bytes = 0
        self.skipped: list[Skipped] = []
        self.compressed: list[tuple[str, str]] = []

    def name(self, name: Name) -> None:
        """Look for needles in a name."""
        before = len(os.fsencode(name.text[: name.own]))
        for number, at in self._searcher.find(os.fsencode(name.text)):
            needle = self._searcher.needles[number]
            if at + len(needle) > before:
                self._sought.hit(needle, Place(shown(name.place), None))

    def read(
        self,
        root: str,
        skip: set[tuple[int, int]],
        may_stay: bool,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Look for needles in everything at or below ``root``, but not in files of ``skip``."""
        files: list[File] = []
        total = 0
        for one in walk(root):
            if isinstance(one, Name):
                self.name(one)
            elif isinstance(one, Skipped):
                self.skipped.append(Skipped(shown(one.path), one.why, one.matters))
            elif skip and identity(one.path) in skip:
                name = shown(one.name)
                self.skipped.append(Skipped(name, "given as input", not may_stay, given=True))
            else:
                files.append(one)
                total += _size(one.path)
        for one in files:
            try:
                self._file(one, total, progress)
            except OSError as error:
                reason = f"cannot be read ({error.strerror or error})"
                self.skipped.append(Skipped(shown(one.name), reason, True))
            else:
                self.files += 1

    def _file(self, file: File, total: int, progress: Callable[[int, int], None] | None) -> None:
        name, searcher, sought = shown(file.name), self._searcher, self._sought
        letters, kind = Letters(searcher), None
        for offset, repeated, data in blocks(file.path, max(0, searcher.longest - 1)):
            for number, at in searcher.find(data):
                needle = searcher.needles[number]
                if at + len(needle) > repeated:  # else it was found in the block before
                    sought.hit(needle, Place(name, offset + at))
            fresh = np.frombuffer(data, np.uint8)[repeated:]
            for number, place in letters.find(fresh, offset + repeated):
                sought.hit(searcher.needles[number], Place(name, place), base64=True)
            if kind is None:
                kind = by_start(file.path, data) if offset == repeated == 0 else None
                if kind is None and looks_random(fresh):
                    kind = "looks random"
                if kind is not None:
                    self.compressed.append((name, kind))
            self.bytes += len(fresh)
            if progress is not None:
                progress(min(self.bytes, total), total)


def identity(path: str | os.PathLike[str]) -> tuple[int, int]:
    """What hard links to one file have in common."""
    try:
        status = os.stat(path)
    except OSError:
        return (-1, -1)
    return status.st_dev, status.st_ino


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0
