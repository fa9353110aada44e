"""One process at a time: a lock on a file, for programs that ask for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds this lock on the file at ``path``, then hold it.

    The lock is on the file, not on its name: who waited while the file was replaced then holds the
    old one, and has to check that the name still means that file. Where there is no file, or the
    system or the folder has no locks, there is no waiting.
    """
    descriptor = None if fcntl is None else _open(path)
    if descriptor is None:
        yield
        return
    try:
        with suppress(OSError):  # a network folder without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int | None:
    for mode in (os.O_RDWR, os.O_RDONLY):  # NFS locks only what is open for writing
        with suppress(OSError):
            return os.open(path, mode)
    return None
