"""``svmemory reproduce``: the paper's results, each beside ours, in one report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import InputError
from .options import JsonFlag, QuietFlag
from .output import note, print_json, print_table

if TYPE_CHECKING:
    from ..studies.result import Study


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME|all", help="A study, or all; --list names them.")
    ] = "all",
    listed: Annotated[bool, typer.Option("--list", help="Name the studies and leave.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Minutes, or the sizes of the paper and beyond.")
    ] = True,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Repetitions (default: each study's own).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="First seed.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Data sets. Default: $SVMEMORY_DATA, else ../shared/data."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder of the report. Finished parts stay there and are reused."
        ),
    ] = Path("results"),
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE.md", help="Also a page, its figures in a folder beside it."),
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Run the paper's studies and set our numbers beside its own.

    Writes report.md, report.html and report.json (with NAME for "report" if it is one study).
    Stopped, the same command goes on where it was. Exit code 1: a study failed; the others are
    in the report.
    """
    from ..studies.registry import ENTRIES, entries

    if listed:
        if as_json:
            print_json({entry.name: entry.title for entry in ENTRIES})
        else:
            for entry in ENTRIES:
                typer.echo(f"{entry.name:12} {entry.title}")
        return
    chosen = entries(name)
    from ..studies import report
    from ..studies.result import Verdict
    from ..studies.settings import Settings

    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: name a folder with --out")
    if page is not None and page.suffix != ".md":
        raise InputError(f"{page}: the page is Markdown; use a name that ends in .md")
    out.mkdir(parents=True, exist_ok=True)
    place = data or Path(os.environ.get("SVMEMORY_DATA") or "../shared/data")
    note(f"data sets from {place}", quiet or as_json)  # here, so that no report holds a path
    studies: list[Study] = []
    seconds: dict[str, report.Spent] = {}
    for entry in chosen:
        note(f"{entry.name}: {entry.title}", quiet or as_json)
        with _bar(entry.name, quiet or as_json) as track:
            settings = Settings(out, place, quick, seeds, seed, track)
            start = time.perf_counter()
            try:
                studies.append(entry.run(settings))
            except KeyboardInterrupt:
                note(
                    f"stopped; what is done is in {out}, the same command goes on from there", quiet
                )
                raise
            now = time.perf_counter() - start
        seconds[entry.name] = report.Spent(now, sum(settings.before.values()))
    asked = {"name": name, "quick": quick, "seeds": seeds, "seed": seed}
    found = report.document(studies, asked, seconds)
    paths = report.write(found, out)
    if page is not None:
        report.write_page(found, out, page)
        paths.append(page)
    if as_json:
        print_json(found)
    else:
        for study in studies:
            _show(study)
        for path in paths:
            note(f"wrote {path}", quiet)
    missed = [f for study in studies for f in study.findings if f.verdict is Verdict.missed]
    if missed:
        note(f"{len(missed)} aims were missed; the report says which", quiet or as_json)
    if failed := [study for study in studies if study.failed]:
        for study in failed:
            note(f"{study.name} failed: {study.missing}")
        raise typer.Exit(1)


def _show(study: Study) -> None:
    from ..studies.report import cells, not_run

    typer.echo()
    if study.missing:
        typer.echo(f"{study.title}\n  {not_run(study)}")
        return
    columns = zip(*(cells(f) for f in study.findings), strict=True)
    names = ("what", "ours", "95 %", "paper", "verdict")
    print_table(dict(zip(names, map(list, columns), strict=True)), study.title)


@contextmanager
def _bar(label: str, silent: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for the part in work, when somebody looks."""
    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
