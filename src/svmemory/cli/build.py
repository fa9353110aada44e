"""``svmemory build``: a memory from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..tables import read_table
from .files import check_free, check_not_input, open_memory, write_memory
from .options import ForceFlag, JsonFlag, QuietFlag
from .output import print_facts, print_json, progress_bar
from .plan import DEFAULT_RIDGE, Columns, choose_scaler, plan_like, plan_new
from .summary import facts, summary


def build(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv or .parquet file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The memory file to write.")
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="COLS", help="Key columns, comma-separated.", show_default=False
        ),
    ] = None,
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
            help="Column of unique ids (default: rows are numbered).",
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
            help="Share of the rows that may lie outside: C = 1 / (nu * rows), fixed from now on.",
            show_default=False,
        ),
    ] = None,
    cap: Annotated[
        float | None,
        typer.Option("--C", help="Largest weight of one row, instead of --nu.", show_default=False),
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option(
            help="Kernel parameter, or 'scale' (the default): 1 / (columns * variance of the scaled"
            " keys), computed once.",
            show_default=False,
        ),
    ] = None,
    ridge: Annotated[
        float | None,
        typer.Option(
            help="Added to the kernel's diagonal (default 1e-8; 0 gives up the digest).",
            show_default=False,
        ),
    ] = None,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Scale keys by the table's own mean and std.")
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
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="MEMORY",
            help="Take columns, scaling and contract from this memory, and nothing else.",
            show_default=False,
        ),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Build a memory from a table of records.

    Ids and subjects are read as text; keys and values must be numbers.
    """
    check_not_input(output, *(path for path in (table, scale_from, like) if path is not None))
    check_free(output, force)
    records = read_table(table)
    options = (
        key,
        value,
        id_column,
        subject,
        nu,
        cap,
        gamma,
        ridge,
        standardize,
        scale_from,
        ranges,
    )
    if like is not None:
        # "is": --ridge 0 is given, although 0 == False
        if any(not (option is None or option is False or option == []) for option in options):
            raise InputError("--like takes everything from its memory; give no other build option")
        plan = plan_like(open_memory(like))
    else:
        columns = Columns(
            records.resolve(key or []), records.resolve(value or []), id_column, subject
        )
        if not columns.keys:
            raise InputError("give the key columns with --key, or a memory with --like")
        scaler = choose_scaler(records, columns, standardize, scale_from, ranges or [])
        floor = DEFAULT_RIDGE if ridge is None else ridge
        plan = plan_new(records, columns, scaler, nu, cap, gamma or "scale", floor)
    with progress_bar("adding rows", quiet or as_json) as progress:
        memory = plan.build(records, progress)
    write_memory(memory, output)
    document = summary(open_memory(output))  # as read back from the file
    if as_json:
        print_json(document)
    else:
        print_facts(facts(document))
