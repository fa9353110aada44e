"""How a study runs: size, seeds, data, where it writes, and what of it is done already."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from .environment import NUMERICAL, versions

T = TypeVar("T")

Track = Callable[[int, int], None]
"""``track(done, total)``, called as a study goes on."""


class MissingError(Exception):
    """What a study needs is not there; the message says how to get it."""


def _untracked(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Settings:
    """What ``svmemory reproduce`` was asked for.

    Attributes
    ----------
    out : Path
        Folder of the report. Finished parts are kept in ``out/parts``.
    data : Path
        Folder of the data sets (docs/how-to/data.md).
    quick : bool
        Sizes of minutes instead of hours.
    seeds : int or None
        Repetitions; None: what the study thinks right.
    seed : int
        First seed.
    track : Track
        Told about progress.
    before : dict of str to float
        For each part that was asked for, the seconds that it took in an earlier run; 0 for those
        that were made in this one.
    """

    out: Path
    data: Path
    quick: bool = False
    seeds: int | None = None
    seed: int = 0
    track: Track = _untracked
    before: dict[str, float] = field(default_factory=dict)

    def count(self, quick: int, full: int) -> int:
        """Repetitions: ``seeds`` if given, else by size."""
        return self.seeds or (quick if self.quick else full)

    def size(self, quick: T, full: T) -> T:
        """The value for this size."""
        return quick if self.quick else full

    def tracked(self, items: Iterable[T], total: int) -> Iterator[T]:
        """The items, telling about progress after each."""
        self.track(0, total)
        for done, item in enumerate(items, start=1):
            yield item
            self.track(done, total)

    def file(self, *parts: str) -> Path:
        """A file or folder of the data sets.

        Raises
        ------
        MissingError
            If it is not there.
        """
        path = self.data.joinpath(*parts)
        if not path.exists():
            raise MissingError(
                f"needs {'/'.join(parts)} in the data folder: docs/how-to/data.md says where to "
                "get it; name its folder with --data or SVMEMORY_DATA"
            )
        return path

    def kept(self, key: str, made_of: dict[str, Any], make: Callable[[], T]) -> T:
        """A part that was computed before with the same ``made_of``, or ``make()``, then kept.

        Parameters
        ----------
        key : str
            Name of the part, unique in its study: "copying/sv-128-0".
        made_of : dict
            Everything that the part depends on, as JSON can hold it. The seed and the size belong
            into it; the versions of the libraries are added.
        make : callable
            Returns what JSON can hold: numbers, text, lists and dicts with text keys.
        """
        mark = _hash(json.dumps([versions(NUMERICAL), key, made_of], sort_keys=True))
        path = self.out / "parts" / f"{key}-{mark}.json"
        part = _read_part(path)
        if part is not None:
            self.before.setdefault(mark, part["seconds"])
            found: T = part["found"]
            return found
        start = time.perf_counter()
        made = make()
        self.before[mark] = 0.0
        seconds = time.perf_counter() - start
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        check = _hash(json.dumps(made))
        unfinished.write_text(json.dumps({"seconds": seconds, "found": made, "check": check}))
        os.replace(unfinished, path)
        return made


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_part(path: Path) -> dict[str, Any] | None:
    """What a part holds; None if it is not there or damaged, so that it is made anew."""
    try:
        part: dict[str, Any] = json.loads(path.read_text())
        whole = part["check"] == _hash(json.dumps(part["found"])) and part["seconds"] >= 0.0
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):  # cut off, or changed by hand
        return None
    return part if whole else None


def seal(*paths: Path) -> str:
    """Hash of the bytes of files: what a part that is computed from them depends on.

    A folder stands for all files in it, by name.
    """
    found = hashlib.sha256()
    for path in paths:
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        for file in sorted(files):
            found.update(f"{file.name} {file.stat().st_size}\n".encode())
            with file.open("rb") as source:
                while block := source.read(1 << 20):
                    found.update(block)
    return found.hexdigest()[:16]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around the code that reads a data file: whatever is wrong with it is one error.

    Raises
    ------
    InputError
        Names the file and what is wrong with it.
    """
    try:
        yield
    except (MissingError, InputError, MemoryError):
        raise
    except Exception as error:  # zip, gzip, JSON, Polars, NumPy: each has errors of its own
        what = " ".join(str(error).split()) or "it ends too early"
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {what}): get it anew, "
            "docs/how-to/data.md says where"
        ) from error


def need(package: str, extra: str) -> None:
    """Raise :class:`MissingError` unless a package can be imported."""
    if find_spec(package) is None:
        raise MissingError(f"needs {package}: pip install 'svmemory[{extra}]'")
