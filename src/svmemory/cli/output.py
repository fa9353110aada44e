"""What commands print: one JSON document, or text and tables for people; progress on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .. import stale
from ..tables import csv_text

ProgressCallback = Callable[[int, int], None]

_SHOWN = 40  # rows of a table shown on a terminal


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_facts(facts: Mapping[str, object]) -> None:
    """Print aligned ``name  value`` lines."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        label = typer.style(name.ljust(width), bold=True)
        typer.echo(f"{label}  {value}")  # echo drops the style when stdout is not a terminal


def print_table(records: Mapping[str, Sequence[Any]], title: str) -> None:
    """Print columns as a table for people."""
    typer.echo(title)  # Rich would wrap a title to the width of its table
    table = Table()
    for name, column in records.items():
        numeric = bool(column) and isinstance(column[0], float)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in zip(*records.values(), strict=True):
        table.add_row(*(Text(_cell(value)) for value in row))  # Text: brackets are not markup
    Console(highlight=False).print(table)


def print_records(records: Mapping[str, Sequence[Any]], title: str) -> None:
    """Print columns: a table of the first rows on a terminal, complete CSV into a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():  # None: closed by the caller
        typer.echo(csv_text(records), nl=False)
        return
    print_table({name: column[:_SHOWN] for name, column in records.items()}, title)
    left_off = len(next(iter(records.values()))) - _SHOWN
    if left_off > 0:
        typer.echo(f"{left_off} more rows: write them all with -o FILE, --json or a pipe")


def note(message: str, quiet: bool = False) -> None:
    """Print one line on stderr, unless ``quiet``."""
    if not quiet:
        typer.echo(message, err=True)


def note_first_run() -> None:
    """Tell whoever watches the terminal why the first command takes its time."""
    package = Path(stale.__file__).parent
    elsewhere = "NUMBA_CACHE_DIR" in os.environ
    if sys.stderr.isatty() and not elsewhere and not stale.anything_compiled(package):
        note("the first run compiles the engine once, which can take most of a minute")


@contextmanager
def progress_bar(label: str, quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield a callback ``(done, total)`` that draws a bar on stderr, or None when nobody looks.

    Nobody looks when ``quiet`` (also set for ``--json``) or when stderr is not a terminal.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    note_first_run()
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield show


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
