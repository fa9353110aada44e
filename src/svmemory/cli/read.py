"""``svmemory read`` and ``svmemory score``: ask a memory about the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import EmptyMemoryError, InputError
from ..scaling import Floats
from ..tables import Table, read_table, write_table
from .files import OpenedMemory, check_not_input, open_memory
from .options import IdColumn, JsonFlag, KeyColumns, MemoryPath, QuietFlag, TableOutput
from .output import note, print_json, print_records
from .plan import scaled_keys
from .summary import count

Queries = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A .csv or .parquet file with the key columns.")
]


def read(
    memory: MemoryPath,
    table: Queries,
    output: TableOutput = None,
    key: KeyColumns = None,
    id_column: IdColumn = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Read values at the keys of a table: means of the held values, weighted by gate and kernel."""
    opened = open_memory(memory)
    show_readouts(opened, memory, table, output, key, id_column, as_json, quiet)


def show_readouts(
    opened: OpenedMemory,
    memory: Path | None,
    table: Path,
    output: Path | None,
    key: Sequence[str] | None,
    id_column: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """What ``read`` does with an opened memory; ``memory`` is its file, if it has one."""
    records = _queries(table, output, memory)
    if len(opened.memory) and not opened.memory.value_dimension:
        raise EmptyMemoryError(f"{opened.path.name} holds no values to read: build it with --value")
    names, points = _points(opened, records, key, id_column)
    values = opened.memory.read(points)
    columns = opened.columns("value")
    result = {names[0]: names[1]}
    for j, column in enumerate(columns):
        result[_free_name(column, result)] = [float(x) for x in values[:, j]]
    _deliver(result, "readouts", opened, table, output, as_json, quiet)


def score(
    memory: MemoryPath,
    table: Queries,
    output: TableOutput = None,
    key: KeyColumns = None,
    id_column: IdColumn = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Score the keys of a table: gate score, and decision (above 0 inside, below 0 outside)."""
    opened = open_memory(memory)
    show_scores(opened, memory, table, output, key, id_column, as_json, quiet)


def show_scores(
    opened: OpenedMemory,
    memory: Path | None,
    table: Path,
    output: Path | None,
    key: Sequence[str] | None,
    id_column: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """What ``score`` does with an opened memory; ``memory`` is its file, if it has one."""
    records = _queries(table, output, memory)
    names, points = _points(opened, records, key, id_column)
    gate = opened.memory.score(points)
    # The boundary lies at gate score 1 + ridge - 2 rho, not at 0.
    boundary = 1.0 + opened.memory.contract.ridge - 2.0 * opened.memory.offset
    result = {names[0]: names[1]}
    result[_free_name("gate_score", result)] = [float(x) for x in gate]
    result[_free_name("decision", result)] = [float(x - boundary) for x in gate]
    _deliver(result, "scores", opened, table, output, as_json, quiet)


def _queries(table: Path, output: Path | None, memory: Path | None) -> Table:
    check_not_input(output, table, *([] if memory is None else [memory]))
    if output is not None and output.suffix.lower() not in (".csv", ".json", ".parquet"):
        raise InputError(f"{output.name}: write the result to .csv, .json or .parquet")
    return read_table(table)


def _points(
    opened: OpenedMemory, table: Table, key: Sequence[str] | None, id_column: str | None
) -> tuple[tuple[str, list[Any]], Floats]:
    """Name and cells of the column that names the rows, and the scaled keys (q, d)."""
    columns = table.resolve(key) if key else opened.columns("key")
    if opened.memory.dimension not in (None, len(columns)):
        raise InputError(
            f"the memory has {opened.memory.dimension} key columns, got {len(columns)}"
        )
    stored = opened.header.get("id_column")
    named = id_column or (stored if stored in table.columns else None)
    keys = scaled_keys(table, columns, named, opened.scaler)
    if named is None:
        return ("row", list(table.rows)), keys
    return (named, table.labels(named)), keys


def _free_name(name: str, taken: dict[str, list[Any]]) -> str:
    while name in taken:
        name += "_"
    return name


def _deliver(
    result: dict[str, list[Any]],
    what: str,
    opened: OpenedMemory,
    table: Path,
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    rows = [dict(zip(result, row, strict=True)) for row in zip(*result.values(), strict=True)]
    if output is not None:
        write_table(result, output)
    if as_json:
        print_json({"memory": str(opened.path), "table": str(table), what: rows})
    elif output is not None:
        note(f"wrote {count(len(rows), 'row')} to {output}", quiet)
    else:
        print_records(result, f"{what} of {opened.path.name} at {table.name}")
