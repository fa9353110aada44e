"""What comes back for a group."""

from __future__ import annotations

import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .. import file
from ..errors import InputError
from ..memory import SupportVectorMemory
from .group import Task

_FRAMES = 8  # of a traceback: the end of it, where the error is


@dataclass(frozen=True)
class CohortResult:
    """What became of one group.

    Attributes
    ----------
    name : str
        The group's name.
    index : int
        Its place in the input, from 0.
    status : str
        "done"; "failed" if building or ``apply`` raised; "lost" if the worker died or what it sent
        could not be moved, and trying again did not help.
    rows : int
        Rows of the memory; 0 unless done.
    digest : str or None
        The memory's digest; None at ridge 0 or unless done.
    data : bytes or None
        The memory file, if no ``apply`` was given.
    output : object
        What ``apply`` returned.
    error : str or None
        Type and message of the error, unless done.
    trace : str or None
        End of the traceback of a failed group.
    """

    name: str
    index: int
    status: Literal["done", "failed", "lost"]
    rows: int = 0
    digest: str | None = None
    data: bytes | None = None
    output: Any = None
    error: str | None = None
    trace: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the group is done."""
        return self.status == "done"

    def save(self, path: str | Path) -> None:
        """Write the memory file.

        Raises
        ------
        InputError
            If there is no memory here: the group is not done, or ``apply`` took it.
        OSError
            If the file cannot be written.
        """
        file.write(self._bytes(), path)

    def memory(self) -> SupportVectorMemory:
        """The memory, checked as :meth:`svmemory.SupportVectorMemory.load` checks a file.

        Raises
        ------
        InputError
            As for :meth:`save`.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "memory.svm"
            path.write_bytes(self._bytes())
            return SupportVectorMemory.load(path)

    def _bytes(self) -> bytes:
        if not self.ok:
            raise InputError(f"group {self.name!r} is {self.status}: {self.error}")
        if self.data is None:
            raise InputError(
                f"group {self.name!r} has no memory to return: apply was given, and its output is "
                "in .output"
            )
        return self.data


def failed(task: Task, error: BaseException) -> CohortResult:
    """Result of a task that raised."""
    trace = "".join(traceback.format_exception(error, limit=-_FRAMES))
    return CohortResult(task.name, task.index, "failed", error=describe(error), trace=trace)


def lost(task: Task, error: BaseException) -> CohortResult:
    """Result of a task whose worker did not come back."""
    return CohortResult(task.name, task.index, "lost", error=describe(error))


def describe(error: BaseException) -> str:
    """Type and message in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
