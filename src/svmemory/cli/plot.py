"""``svmemory plot``: a picture of a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .files import OpenedMemory, check_not_input, open_memory
from .options import JsonFlag, MemoryPath, QuietFlag
from .output import note, print_json

PictureOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="PNG", help="The picture to write.")
]
PictureTitle = Annotated[
    str | None,
    typer.Option(help="Put above the panels (default: the memory's name).", show_default=False),
]


def plot(
    memory: MemoryPath,
    output: PictureOutput,
    title: PictureTitle = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Draw the rows in 2-D by set, their weights and their slack, as a PNG."""
    check_not_input(output, memory)
    draw(open_memory(memory), output, title, as_json, quiet)


def draw(opened: OpenedMemory, output: Path, title: str | None, as_json: bool, quiet: bool) -> None:
    """Draw an opened memory and say so."""
    from ..plot import plot_memory  # matplotlib takes a second to load

    plot_memory(opened.memory, output, title=opened.path.name if title is None else title)
    if as_json:
        print_json({"memory": str(opened.path), "picture": str(output), "rows": len(opened.memory)})
    else:
        note(f"wrote {output}", quiet)
