"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MemoryPath = Annotated[Path, typer.Argument(metavar="MEMORY", help="A memory file (.svm).")]
JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
QuietFlag = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress bars and no notes on stderr.")
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")]
MemoryOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the new memory here and leave MEMORY as it is (default: replace MEMORY).",
        show_default=False,
    ),
]
TableOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the result to a .csv, .json or .parquet file.",
        show_default=False,
    ),
]
KeyColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="COLS",
        help="Key columns, comma-separated (default: those the memory was built from).",
        show_default=False,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COL",
        help="Column that names the rows in the result (default: the memory's id column, if the"
        " table has it, else the row number).",
        show_default=False,
    ),
]
PreviewFlag = Annotated[
    bool,
    typer.Option("--preview", help="Show what would go, and a token for it; delete nothing."),
]
TokenText = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        help="Delete exactly what a preview showed, or nothing.",
        show_default=False,
    ),
]
