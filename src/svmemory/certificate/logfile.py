"""Logs in files: one writer at a time, and after a crash the log before or the log after.

Every change writes a new file beside the old one and puts it in its place, so that no reader ever
sees half an entry or an entry without its checkpoint. A change costs time in proportion to the log:
a thousand certificates are some megabytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .. import file
from ..errors import EvidenceError
from .keys import PublicKey, SecretKey
from .log import Log
from .ownlog import WAY_OUT, require_own

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Location = str | os.PathLike[str]


def read_log(path: Location) -> Log:
    """The log in a file.

    Raises
    ------
    EvidenceError
        If it is no log (layer "encoding"); names ``path``.
    OSError
        If it cannot be read.
    """
    return _parsed(Path(path).read_bytes(), path)


@contextmanager
def open_log(path: Location, owner: PublicKey | None = None) -> Iterator[Log]:
    """Hold the log in a file; what was added to it is written at the end, all or nothing.

    Other processes that open it wait meanwhile, so that the next certificate's place in the chain
    is still its place when it is written. A file that does not exist begins an empty log, and is
    not there afterwards if nothing was added. If the block raises, the file is left as it was.

    Parameters
    ----------
    path : str or path
    owner : PublicKey, optional
        Refuse, before the block, a log that is broken or belongs to another key.

    Raises
    ------
    EvidenceError
        As :func:`read_log` and :func:`svmemory.certificate.ownlog.require_own`; names ``path``.
    """
    target = Path(os.path.realpath(path))
    with _held(target):
        before = target.read_bytes() if target.exists() else b""
        try:
            log = Log() if not before else _parsed(before, path, "" if owner is None else WAY_OUT)
            if owner is not None:
                _require_own(log, owner, path)
            known = len(log.lines)
            yield log
            if len(log.lines) > known:
                file.write(log.to_bytes(), target)
                _settle(target.parent)
        finally:
            if target.exists() and not target.stat().st_size:  # what _held created
                target.unlink(missing_ok=True)


def append_to_file(path: Location, entry: bytes, key: SecretKey, origin: str, time: str) -> int:
    """Add a certificate and a checkpoint to the log in a file; returns the certificate's place.

    Raises
    ------
    EvidenceError
        As :func:`open_log` for the key's own log, and as
        :meth:`svmemory.certificate.log.Log.append`; the file is unchanged.
    OSError
        If it cannot be written; the file is unchanged.
    """
    with open_log(path, key.public) as log:
        place = log.append(entry)
        log.checkpoint(key, origin, time)
    return place


def _parsed(data: bytes, path: Location, advice: str = "") -> Log:
    try:
        return Log.from_bytes(data)
    except EvidenceError as error:
        rest = f"; {advice}" if advice else ""
        raise EvidenceError(f"{os.fspath(path)}: {error}{rest}", error.layer) from None


def _require_own(log: Log, owner: PublicKey, path: Location) -> None:
    try:
        require_own(log, owner)
    except EvidenceError as error:
        raise EvidenceError(f"{os.fspath(path)}: {error}", error.layer) from None


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold the lock on the file that ``path`` names, created empty if need be."""
    if fcntl is None:
        yield
        return
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with suppress(OSError):  # a network folder without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is(handle, path):  # else it was replaced while we waited: wait for the new one
                yield
                return
        finally:
            os.close(handle)


def _is(handle: int, path: Path) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), named)


def _settle(folder: Path) -> None:
    """Make a new name in a folder last."""
    with suppress(OSError):  # not every system opens folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
