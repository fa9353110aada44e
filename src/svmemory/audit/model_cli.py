"""Command ``svmemory audit model``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError


def model(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Of svmemory train.")],
    text: Annotated[Path, typer.Option(metavar="FILE", help="Text; its last tenth is used.")],
    windows: Annotated[int, typer.Option(min=1, help="Sequences to freeze all heads on.")] = 4,
    trials: Annotated[int, typer.Option(min=1, help="Deletions of two learned keys.")] = 300,
    rows: Annotated[
        int | None, typer.Option(min=3, help="Rows of a memory (default: the whole prefix).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the deletions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Solve a trained model's gates again, exactly, and delete learned keys."""
    if find_spec("torch") is None:
        raise InputError("this needs PyTorch: install svmemory[torch]")
    from ..cli.output import print_facts, print_json, progress_bar
    from .model import run_model, summary_lines

    with progress_bar("audit, model", quiet=as_json) as progress:
        report = run_model(checkpoint, text, windows, trials, rows, seed, progress)
    if as_json:
        print_json(report.as_dict())
    else:
        print_facts(dict(summary_lines(report)))
        for problem in report.problems[:5]:
            typer.echo(f"  {problem}")
        if len(report.problems) > 5:
            typer.echo(f"  and {len(report.problems) - 5} more")
        typer.echo("passed" if report.passed else "failed: " + "; ".join(report.failures))
    if not report.passed:
        raise typer.Exit(1)
