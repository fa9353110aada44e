"""Commands ``svmemory audit deletion``, ``sequence``, ``drain`` and ``membership``.

Results go to standard output (tables, or one JSON document), everything else to standard error.
Exit codes: 0 all checks held, 1 a check failed, 2 bad input. Where the data of the icu regime are
not there, ``--regime all`` runs the others, says so, and the exit code is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from ..errors import InputError, SVMemoryError
from .deletion import run_deletion
from .drain import run_drain
from .membership import LEAST_DRAWS, run_membership
from .model_cli import model
from .outcome import Report
from .regimes import REGIMES, Regime
from .report import document, render, render_not_run
from .sequence import run_sequence
from .trials import Progress as ProgressCall
from .vitals import read_vitals

app = typer.Typer(
    help="Check that forgetting leaves the memory that never saw the rows.", no_args_is_help=True
)


class RegimeChoice(StrEnum):
    """Regimes on the command line."""

    gaussian = "gaussian"
    redundant = "redundant"
    duplicate = "duplicate"
    icu = "icu"
    all = "all"


RegimeOption = Annotated[
    RegimeChoice, typer.Option(help="Kind of keys; icu needs data, and all does without it.")
]
RidgeOption = Annotated[float, typer.Option(min=0.0, help="Ridge; at 0 there are no digests.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
DataOption = Annotated[
    str | None,
    typer.Option(
        help="Hourly vitals for icu: a CSV (stay, hour, HR, SBP, DBP, Resp, O2Sat, Temp) or the "
        "PhysioNet 2019 file or folder. Default: physionet2019 in $SVMEMORY_DATA or ../shared/data."
    ),
]
JobsOption = Annotated[int, typer.Option(min=1, help="Processes.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def deletion(
    regime: RegimeOption = RegimeChoice.gaussian,
    trials: Annotated[int, typer.Option(min=1, help="Trials a regime.")] = 300,
    rows: Annotated[
        int | None, typer.Option(min=3, help="Rows of each memory. Default: 24, icu 40.")
    ] = None,
    ridge: RidgeOption = 1e-8,
    rational: Annotated[
        int, typer.Option(min=0, help="Trials also solved in fractions (up to 64 rows).")
    ] = 20,
    seed: SeedOption = 0,
    data: DataOption = None,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Forget two of n rows; compare with a memory that never saw them."""

    def run(one: Regime, progress: ProgressCall) -> Report:
        return run_deletion(one, trials, rows, ridge, seed, rational, data, jobs, progress)

    _audit("deletion", regime, run, ridge, seed, data, as_json)


@app.command()
def sequence(
    regime: RegimeOption = RegimeChoice.gaussian,
    trajectories: Annotated[int, typer.Option(min=1, help="Histories a regime.")] = 80,
    operations: Annotated[int, typer.Option(min=1, help="Operations in each.")] = 64,
    rows: Annotated[int, typer.Option(min=1, help="Rows at the start.")] = 64,
    ridge: RidgeOption = 1e-8,
    seed: SeedOption = 0,
    data: DataOption = None,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Add and forget rows at random; compare after every operation."""

    def run(one: Regime, progress: ProgressCall) -> Report:
        return run_sequence(one, trajectories, operations, rows, ridge, seed, data, jobs, progress)

    _audit("sequence", regime, run, ridge, seed, data, as_json)


@app.command()
def drain(
    regime: RegimeOption = RegimeChoice.gaussian,
    sequences: Annotated[int, typer.Option(min=1, help="Sequences a regime.")] = 20,
    rows: Annotated[int, typer.Option(min=1, help="Rows at the start.")] = 64,
    ridge: RidgeOption = 1e-8,
    seed: SeedOption = 0,
    data: DataOption = None,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Forget all rows one by one, down to none; compare after every one."""

    def run(one: Regime, progress: ProgressCall) -> Report:
        return run_drain(one, sequences, rows, ridge, seed, data, jobs, progress)

    _audit("drain", regime, run, ridge, seed, data, as_json)


@app.command()
def membership(
    regime: RegimeOption = RegimeChoice.gaussian,
    draws: Annotated[
        int, typer.Option(min=LEAST_DRAWS, help="Pairs of memories; half of them are the test.")
    ] = 64,
    rows: Annotated[int, typer.Option(min=4, help="Rows of each memory.")] = 32,
    ridge: Annotated[float, typer.Option(min=0.0, help="Ridge; not 0.")] = 1e-8,
    seed: SeedOption = 0,
    data: DataOption = None,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Try to tell forgotten records from records never seen, by scores and readouts."""

    def run(one: Regime, progress: ProgressCall) -> Report:
        return run_membership(one, draws, rows, ridge, seed, data, jobs, progress)

    _audit("membership", regime, run, ridge, seed, data, as_json)


app.command()(model)


def _audit(
    audit: str,
    choice: RegimeChoice,
    run: Callable[[Regime, ProgressCall], Report],
    ridge: float,
    seed: int,
    data: str | None,
    as_json: bool,
) -> None:
    regimes = [one for one in REGIMES if choice in (RegimeChoice.all, one)]
    try:
        not_run = _left_out(data) if choice == RegimeChoice.all else {}
        for regime, reason in not_run.items():
            typer.echo(f"note: {regime} is not run: {reason}", err=True)
        reports = _with_progress(audit, [one for one in regimes if one not in not_run], run)
    except SVMemoryError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps(document(audit, seed, ridge, reports, not_run), allow_nan=False))
    else:
        console = Console()
        for report in reports:
            console.print(render(report))
        for regime, reason in not_run.items():
            console.print(render_not_run(audit, regime, reason))
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def _left_out(data: str | None) -> dict[str, str]:
    """Regimes that ``all`` has to do without, each with the reason.

    Those whose data are not there; but data that were asked for by name must be.
    """
    try:
        read_vitals(data)
    except InputError as error:
        if data is not None:
            raise
        return {"icu": str(error)}
    return {}


def _with_progress(
    audit: str, regimes: Sequence[Regime], run: Callable[[Regime, ProgressCall], Report]
) -> list[Report]:
    """Run the regimes in turn, with a bar on standard error when that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    reports = []
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as bars:
        for regime in regimes:
            bar = bars.add_task(f"{audit}, {regime}", total=None)

            def advance(done: int, total: int, bar: TaskID = bar) -> None:
                bars.update(bar, completed=done, total=total)

            reports.append(run(regime, advance))
    return reports
