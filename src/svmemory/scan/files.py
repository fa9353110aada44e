"""What is below a folder: names, files, read in blocks, and what is no file and is left alone.

Links are not followed, pipes and devices are not opened, other file systems are not entered: a scan
must not hang, and must not report what lies elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = 1 << 22


@dataclass(frozen=True)
class Skipped:
    """Something below the folder that was not read.

    Attributes
    ----------
    path : str
    why : str
    matters : bool
        Whether it might have held bytes of this folder's.
    given : bool
        Whether it is an input of the scan: the file that the rows came from.
    """

    path: str
    why: str
    matters: bool
    given: bool = False


@dataclass(frozen=True)
class File:
    """A regular file: where it is, and its name relative to the folder."""

    path: str
    name: str


@dataclass(frozen=True)
class Name:
    """A name below the folder, of whatever kind of thing, or the text that a link holds.

    Attributes
    ----------
    text : str
        Relative to the folder.
    own : int
        Where its last part begins; the parts before are names of their own.
    place : str
        What it is a name of.
    """

    text: str
    own: int
    place: str


def walk(root: str) -> Iterator[Name | File | Skipped]:
    """Everything below ``root``, or ``root`` itself if it is a file, in the order of names."""
    top = os.stat(root)
    if not stat.S_ISDIR(top.st_mode):
        yield File(root, os.path.basename(root))
        return
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield Skipped(os.path.relpath(folder, root), _reason(error), True)
            continue
        below = []
        for entry in listed:
            name = os.path.relpath(entry.path, root)
            yield Name(name, len(name) - len(entry.name), name)
            try:
                mode, device = entry.stat(follow_symlinks=False)[0:3:2]
            except OSError as error:
                yield Skipped(name, _reason(error), True)
                continue
            if stat.S_ISDIR(mode):
                if device != top.st_dev:
                    yield Skipped(name, "on another file system", True)
                else:
                    below.append(entry.path)
            elif stat.S_ISREG(mode):
                yield File(entry.path, name)
            else:
                if stat.S_ISLNK(mode) and (target := _target(entry.path)):
                    yield Name(target, 0, name)
                yield Skipped(name, _kind(mode), False)
        folders += reversed(below)


def blocks(path: str, overlap: int) -> Iterator[tuple[int, int, bytes]]:
    """Content of a file as (offset, repeated, data): the first ``repeated`` bytes came before.

    The inside of holes, which sparse files have, is left out.

    Raises
    ------
    OSError
        If it cannot be read, or is no regular file any more.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(0, "is no regular file any more", path)
        offset, tail = 0, b""
        while True:
            hole = _hole(stream.fileno(), offset)
            # Of a hole only its edges are read: a needle may begin or end with zeros.
            block = bytes(min(hole, overlap)) if hole else stream.read(BLOCK)
            if not block and not hole:
                return
            yield offset - len(tail), len(tail), tail + block
            if hole:
                offset += hole
                stream.seek(offset)
            else:
                offset += len(block)
            tail = (tail + block)[-overlap:] if overlap else b""


def _hole(handle: int, offset: int) -> int:
    """Bytes from ``offset`` on that were never written, of a file with holes; 0 at its end."""
    if not hasattr(os, "SEEK_DATA"):
        return 0
    try:
        return os.lseek(handle, offset, os.SEEK_DATA) - offset
    except OSError as error:
        if error.errno != errno.ENXIO:  # the system cannot tell
            return 0
        return max(0, os.fstat(handle).st_size - offset)  # nothing but a hole is left
    finally:
        os.lseek(handle, offset, os.SEEK_SET)


def shown(name: str) -> str:
    """A file name that can be printed, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _target(path: str) -> str:
    """Where a link leads, as it is written in the link."""
    try:
        return os.readlink(path)
    except OSError:  # it is no link any more
        return ""


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link, not followed"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _reason(error: OSError) -> str:
    return f"cannot be read ({error.strerror or error})"
