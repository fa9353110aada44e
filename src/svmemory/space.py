"""Room for the rows themselves: in memory, or in a file on disk (the cold tier).

The file is mapped into memory: the operating system keeps the pages that are in use and writes the
others back. It loses its name as soon as it is open, so that nothing is left behind after a crash,
whenever it comes: not a row, not a stale state. What must outlive the process is what
:meth:`svmemory.memory.SupportVectorMemory.save` writes.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .arrays import with_room

Floats = NDArray[np.float64]


class RowSpace:
    """A float64 array (rows, width) that grows by rows.

    Parameters
    ----------
    width : int
        At least 1.
    folder : path, optional
        Keep the rows in a nameless file in this folder, which is created if need be.

    Raises
    ------
    OSError
        If the folder cannot be used or, here and in :meth:`ensure`, the disk has no room: space is
        claimed before it is used, so a full disk is an error and never a crash later.
    """

    def __init__(self, width: int, folder: str | os.PathLike[str] | None = None) -> None:
        self.width = width
        self.folder = None if folder is None else Path(folder)
        self.array: Floats = np.zeros((0, width))
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder) as nameless:
                self._file = os.dup(nameless.fileno())
            weakref.finalize(self, os.close, self._file)
        self.ensure(64)

    def ensure(self, rows: int) -> Floats:
        """The array with at least ``rows`` rows, and some more where it must grow."""
        have = len(self.array)
        if rows <= have:
            return self.array
        rows = with_room(rows, have)
        if self.folder is None:
            longer = np.zeros((rows, self.width))
            longer[:have] = self.array
            self.array = longer
        else:
            size = 8 * rows * self.width
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file, 0, size)
            else:
                os.truncate(self._file, size)
            # The old mapping goes when its last view does.
            self._pages = mmap.mmap(self._file, size)
            self.array = np.frombuffer(self._pages, np.float64).reshape(rows, self.width)
        return self.array

    def let_go(self) -> None:
        """Tell the system that pages on disk need not stay in memory; contents do not change."""
        if self.folder is not None and hasattr(self._pages, "madvise"):
            self._pages.madvise(mmap.MADV_DONTNEED)

    def copy(self) -> RowSpace:
        """Another space of the same kind with the same contents."""
        twin = RowSpace(self.width, self.folder)
        twin.ensure(len(self.array))[: len(self.array)] = self.array
        twin.let_go()
        return twin
