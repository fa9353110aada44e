"""Open memory files and write them back without ever leaving a half-written or a lost one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileFormatError, InputError
from ..memory import SupportVectorMemory
from ..scaling import Scaler


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
            self.memory.save(output)
            return output
        if _stamp(self.path) != self.stamp:
            raise InputError(
                f"{self.path.name} was changed by another program in the meantime; run this again"
            )
        self.memory.save(self.path)
        return self.path


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
    stamp = _stamp(path)
    return OpenedMemory(path, SupportVectorMemory.load(path), stamp)


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


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
