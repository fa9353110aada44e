"""Compiled code that outlived its source is deleted before it can run.

Numba keeps compiled functions beside the source and checks each against its own file only; a
function that was compiled together with another file's old version would run on. A result that
depends on which files were touched last is no result, so anything older than the newest source
file goes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def drop_stale(package: Path) -> int:
    """Delete compiled functions older than the kernel or any file of the engine or the layer.

    Those are the files whose functions are compiled into each other. Returns how many files went.
    """
    folders = (package / "engine", package / "torch" / "solve")
    sources = [package / "kernel.py", *(path for folder in folders for path in folder.glob("*.py"))]
    newest = max(path.stat().st_mtime for path in sources)
    dropped = 0
    for compiled in package.rglob("__pycache__/*.nb[ic]"):
        with suppress(OSError):  # another process was faster, or the folder is read-only
            if compiled.stat().st_mtime < newest:
                compiled.unlink()
                dropped += 1
    return dropped


def anything_compiled(package: Path) -> bool:
    """Whether the engine's functions are compiled already, so that the first call takes no time."""
    return any((package / "engine").glob("__pycache__/operate.*.nbc"))


drop_stale(Path(__file__).parent)
