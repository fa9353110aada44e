"""``svmemory build``: a memory from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..memory import SupportVectorMemory
from ..tables import read_table
from .files import OpenedMemory, check_free, check_not_input, open_memory, write_memory
from .options import ForceFlag, JsonFlag, QuietFlag
from .output import print_facts, print_json, progress_bar
from .plan import DEFAULT_RIDGE, Columns, choose_scaler, plan_like, plan_new
from .summary import facts, summary
from .target import StoreTarget, as_opened, target_of, times_of

EncryptFlag = Annotated[
    bool,
    typer.Option("--encrypt", help="In a store: encrypt rows, with a key per subject in --vault."),
]


def build(
    context: typer.Context,
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv or .parquet file.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The memory file to write (not with --store).",
            show_default=False,
        ),
    ] = None,
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
    time_column: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="COL",
            help="In a store: column of times (ISO 8601), for expire.",
            show_default=False,
        ),
    ] = None,
    encrypt: EncryptFlag = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Build a memory from a table of records.

    Ids and subjects are read as text; keys and values must be numbers.
    """
    target = target_of(context)
    _check_output(target, output, time_column is not None or encrypt)
    if output is not None:
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
    if target is None:
        document = summary(_written(memory, output))
    else:
        times = None
        if time_column is not None:
            times = times_of(records, time_column, plan.columns.id)
        document = summary(_stored(memory, target, time_column, times, encrypt))
    if as_json:
        print_json(document)
    else:
        print_facts(facts(document))


def _check_output(target: StoreTarget | None, output: Path | None, store_only: bool) -> None:
    """Raise ``InputError`` unless it is clear where the memory goes."""
    if target is not None:
        if output is not None:
            raise InputError("give either --output or --store, not both")
        target.need_name()
    elif output is None:
        raise InputError("give the file to write with --output, or a store")
    elif store_only:
        raise InputError("--time and --encrypt are for a memory in a store")


def _written(memory: SupportVectorMemory, output: Path | None) -> OpenedMemory:
    """The memory as read back from the file it was written to."""
    if output is None:
        raise InputError("give the file to write with --output")
    write_memory(memory, output)
    return open_memory(output)


def _stored(
    memory: SupportVectorMemory,
    target: StoreTarget,
    time_column: str | None,
    times: list[str] | None,
    encrypt: bool,
) -> OpenedMemory:
    """The memory as read back from the store it was put into."""
    if time_column is not None:
        memory.header["time_column"] = time_column
    with target.store(create=True) as store:
        return as_opened(store.put(target.need_name(), memory, times=times, encrypted=encrypt))
