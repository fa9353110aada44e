"""``svmemory plot``: a picture of a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .files import check_not_input, open_memory
from .options import JsonFlag, MemoryPath, QuietFlag
from .output import note, print_json


def plot(
    memory: MemoryPath,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PNG", help="The picture to write.")
    ],
    title: Annotated[
        str | None,
        typer.Option(help="Put above the panels (default: the file's name).", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Draw the rows in 2-D by set, their weights and their slack, as a PNG."""
    from ..plot import plot_memory  # matplotlib takes a second to load

    check_not_input(output, memory)
    opened = open_memory(memory)
    plot_memory(opened.memory, output, title=memory.name if title is None else title)
    if as_json:
        print_json({"memory": str(memory), "picture": str(output), "rows": len(opened.memory)})
    else:
        note(f"wrote {output}", quiet)
