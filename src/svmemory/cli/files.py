"""Open memory files and write them back without ever leaving a half-written or a lost one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileFormatError, InputError
from ..memory import SupportVectorMemory
from ..scaling import Scaler
from ..tables import EXTENSIONS
from .lock import locked
from .output import note_first_run


@dataclass(frozen=True)
class OpenedMemory:
    """A memory, the file it came from and that file's identity when it was read."""

    path: Path
    memory: SupportVectorMemory
    stamp: tuple[int, int, int]

    @property
    def header(self) -> dict[str, Any]:
        """Columns and scaler, as :func:`svmemory.cli.build.build` stored them."""
        return self.memory.header

    @property
    def scaler(self) -> Scaler | None:
        """The scaling of its keys, None when they were not scaled."""
        return Scaler.from_header(self.header.get("scaler"), len(self.columns("key")))

    def columns(self, role: str) -> list[str]:
        """Names of the ``key`` or ``value`` columns; numbered when the file does not name them."""
        width = self.memory.dimension if role == "key" else self.memory.value_dimension
        stored = self.header.get(f"{role}_columns")
        if stored is None:
            return [f"{role}_{j + 1}" for j in range(width or 0)]
        if not isinstance(stored, list) or width not in (None, len(stored)):
            raise FileFormatError(f"{self.path.name}: its {role} columns do not fit its {role}s")
        return [str(name) for name in stored]

    def save(self, output: Path | None, force: bool) -> Path:
        """Replace the file, or write ``output`` and leave it alone; return where the memory is.

        Raises
        ------
        InputError
            If ``output`` exists (unless ``force``), or the file was changed by somebody else since
            it was read: writing now would bring back what they removed.
        """
        if output is not None:
            check_free(output, force)
        target = self.path if output is None else output
        write_memory(self.memory, target, self.stamp if _same(target, self.path) else None)
        return target


def open_memory(path: Path) -> OpenedMemory:
    """Load a memory file.

    Raises
    ------
    InputError
        If there is no such file.
    FileFormatError
        If it is damaged or something else.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    _check_kind(path)
    note_first_run()
    stamp = _stamp(path)  # before loading: what comes in between must not pass for what was read
    return OpenedMemory(path, SupportVectorMemory.load(path), stamp)


def write_memory(
    memory: SupportVectorMemory, path: Path, stamp: tuple[int, int, int] | None = None
) -> None:
    """Write a memory file in one step; of two processes, one waits for the other.

    Parameters
    ----------
    memory : SupportVectorMemory
    path : Path
        Where it is a link, the file behind it is replaced.
    stamp : tuple of int, optional
        Identity that the file at ``path`` must still have.

    Raises
    ------
    InputError
        If the file is another one now, or cannot be written; names ``path``.
    """
    file = Path(os.path.realpath(path))
    with locked(file):
        if stamp is not None and _stamp(file) != stamp:
            raise InputError(
                f"{path.name} was changed by another program in the meantime; run this again"
            )
        try:
            memory.save(file)
        except OSError as error:  # may name the file that was to replace it, which nobody knows
            raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


def check_free(output: Path, force: bool) -> None:
    """Raise ``InputError`` if ``output`` cannot be written, or exists without ``force``."""
    if output.is_dir() or not output.parent.is_dir():
        raise InputError(f"{output}: its folder does not exist, or it is a folder itself")
    if output.exists() and not force:
        raise InputError(f"{output} exists; give --force to overwrite it")


def check_not_input(output: Path | None, *inputs: Path) -> None:
    """Raise ``InputError`` if a result would overwrite one of the files it is made from."""
    for path in inputs:
        if output is not None and output.exists() and output.samefile(path):
            raise InputError(f"{output} is an input of this command; write to another file")


def _check_kind(path: Path) -> None:
    """Raise ``FileFormatError`` if a file does not even begin as a memory does."""
    with path.open("rb") as stream:
        start = stream.read(9)
    if start[8:] == b"{":
        return
    if path.suffix.lower() in EXTENSIONS:
        raise FileFormatError(
            f"{path} is a table, not a memory file; make one of it with svmemory build"
        )
    raise FileFormatError(f"{path} is not a memory file{'' if start else ': it is empty'}")


def _same(one: Path, other: Path) -> bool:
    return one == other or (one.exists() and other.exists() and one.samefile(other))


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
