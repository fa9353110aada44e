"""``svmemory cohort``: one memory file for each group of a table's rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from ..tables import read_table, write_table
from . import CHECK_FAILED
from .grouping import file_names, read_groups
from .options import ForceFlag, JsonFlag, QuietFlag
from .output import note, print_facts, print_json, progress_bar
from .plan import DEFAULT_RIDGE, Columns, choose_scaler, plan_new
from .summary import count

if TYPE_CHECKING:
    from ..cohort import CohortResult

INDEX = "cohort.csv"
_LISTED = 10  # groups without a memory named on the terminal; the index has them all


@dataclass(frozen=True)
class Entry:
    """What the index says about a group."""

    group: str
    file: str | None
    rows: int
    status: str
    digest: str | None
    error: str | None


def cohort(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv or .parquet file.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help=f"Where the memory files go, and {INDEX}, which lists them.",
        ),
    ],
    group: Annotated[
        str, typer.Option(metavar="COL", help="Column of the group a row belongs to.")
    ],
    key: Annotated[
        list[str], typer.Option("--key", metavar="COLS", help="Key columns, comma-separated.")
    ],
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value", metavar="COLS", help="Value columns (numbers).", show_default=False
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COL",
            help="Column of ids, unique within a group (default: rows are numbered).",
            show_default=False,
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            metavar="COL",
            help="Column of the person or source a row belongs to.",
            show_default=False,
        ),
    ] = None,
    nu: Annotated[
        float | None,
        typer.Option(
            help="Share of a group's rows that may lie outside: C = 1 / (nu * rows of the group).",
            show_default=False,
        ),
    ] = None,
    cap: Annotated[
        float | None,
        typer.Option("--C", help="Largest weight of one row, instead of --nu.", show_default=False),
    ] = None,
    gamma: Annotated[
        str,
        typer.Option(
            help="Kernel parameter, or 'scale': 1 / (columns * variance of all scaled keys)."
        ),
    ] = "scale",
    ridge: Annotated[
        float, typer.Option(help="Added to the kernel's diagonal (0 gives up the digests).")
    ] = DEFAULT_RIDGE,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Scale keys by the whole table's mean and std.")
    ] = False,
    scale_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Scale keys by the mean and std of this other table.",
            show_default=False,
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="COL=LOW:HIGH,...",
            help="Scale each key from its declared range to 0..1.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Processes to use; -1 for one a core.", show_default=True)
    ] = -1,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Build one memory for each group: each stay, patient or user.

    A group that cannot be built is reported, and the rest go on; then the exit code is 1.
    """
    from ..cohort import build_cohort  # brings in joblib: only for those who use it

    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not force)):
        raise InputError(f"{output} is not an empty folder; give --force to write into a full one")
    records = read_table(table)
    columns = Columns(records.resolve(key), records.resolve(value or []), id_column, subject)
    scaler = choose_scaler(records, columns, standardize, scale_from, ranges or [])
    plan = plan_new(records, columns, scaler, nu, cap, gamma, ridge)
    groups, refused = read_groups(records, group, columns, scaler)
    if not groups:
        raise InputError(next(iter(refused.values())))
    output.mkdir(parents=True, exist_ok=True)
    files = file_names([str(part.name) for part in groups])
    entries = []
    with progress_bar("building memories", quiet or as_json) as progress:
        for result in build_cohort(
            groups,
            gamma=plan.contract.gamma,
            C=cap,
            nu=nu,
            ridge=ridge,
            header={**plan.header(), "group_column": group},
            n_jobs=jobs,
            progress=progress,
        ):
            entries.append(_saved(result, output, files[result.name]))
    entries += [Entry(name, None, 0, "failed", None, reason) for name, reason in refused.items()]
    entries.sort(key=lambda entry: entry.group)
    names = [field.name for field in fields(Entry)]
    write_table({name: [getattr(e, name) for e in entries] for name in names}, output / INDEX)
    _report(entries, output, as_json, quiet)


def _saved(result: CohortResult, folder: Path, file: str) -> Entry:
    error, status = result.error, result.status
    if result.ok:
        try:
            result.save(folder / file)
        except OSError as failure:  # such as a name that is too long
            error, status = f"cannot be written: {failure.strerror}", "failed"
    if error is not None:
        return Entry(result.name, None, 0, status, None, error)
    return Entry(result.name, file, result.rows, status, result.digest, None)


def _report(entries: list[Entry], folder: Path, as_json: bool, quiet: bool) -> None:
    bad = [entry for entry in entries if entry.status != "done"]
    done, rows = len(entries) - len(bad), sum(entry.rows for entry in entries)
    if as_json:
        failed = [{"group": e.group, "status": e.status, "error": e.error} for e in bad]
        facts = {"folder": str(folder), "groups": len(entries), "done": done, "rows": rows}
        print_json({**facts, "failed": failed})
    else:
        made = f"{done} of {count(len(entries), 'group')}"
        print_facts({"folder": folder, "memories": made, "rows": rows})
        for entry in bad[:_LISTED]:
            note(f"group {entry.group!r} {entry.status}: {entry.error}", quiet)
        if len(bad) > _LISTED:
            note(f"{len(bad) - _LISTED} more are in {folder / INDEX}", quiet)
    if bad:
        raise typer.Exit(CHECK_FAILED)
