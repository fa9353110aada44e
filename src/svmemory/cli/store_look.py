"""Commands that look at a store: ``svmemory --store URL --name MEMORY info`` and others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .files import check_free
from .info import PlanNumber, RowsFlag, VerifyDigest, show_digest, show_info
from .options import ForceFlag, IdColumn, JsonFlag, KeyColumns, QuietFlag, TableOutput
from .output import note, print_json, print_records
from .plot import PictureOutput, PictureTitle, draw
from .read import Queries, show_readouts, show_scores
from .summary import count
from .target import StoreTarget, need_target

if TYPE_CHECKING:
    from ..store.records import Archive

DroppedFlag = Annotated[
    bool, typer.Option("--dropped", help="Of the memory of this name that was dropped last.")
]


def listing(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the memories of a store."""
    with need_target(context).store() as store:
        found = store.listing()
    columns: dict[str, list[Any]] = {
        "name": [listed.name for listed in found],
        "rows": [listed.rows for listed in found],
        "changes": [listed.changes for listed in found],
        "encrypted": [listed.encrypted for listed in found],
    }
    if as_json:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        print_json({"memories": rows})
    else:
        print_records(columns, "memories")


def info(
    context: typer.Context,
    rows: RowsFlag = False,
    plan: PlanNumber = None,
    as_json: JsonFlag = False,
) -> None:
    """Show contract, size, sets, digest, KKT residual and scaling of a memory."""
    with need_target(context).opened() as opened:
        show_info(opened, rows, plan, as_json)


def digest(context: typer.Context, verify: VerifyDigest = None, as_json: JsonFlag = False) -> None:
    """Print the digest of a memory: equal digests mean equal memories, to the byte."""
    with need_target(context).opened() as opened:
        show_digest(lambda: opened, verify, as_json)


def read(
    context: typer.Context,
    table: Queries,
    output: TableOutput = None,
    key: KeyColumns = None,
    id_column: IdColumn = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Read values at the keys of a table: means of the held values, weighted by gate and kernel."""
    with need_target(context).opened() as opened:
        show_readouts(opened, None, table, output, key, id_column, as_json, quiet)


def score(
    context: typer.Context,
    table: Queries,
    output: TableOutput = None,
    key: KeyColumns = None,
    id_column: IdColumn = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Score the keys of a table: gate score, and decision (above 0 inside, below 0 outside)."""
    with need_target(context).opened() as opened:
        show_scores(opened, None, table, output, key, id_column, as_json, quiet)


def plot(
    context: typer.Context,
    output: PictureOutput,
    title: PictureTitle = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Draw the rows in 2-D by set, their weights and their slack, as a PNG."""
    with need_target(context).opened() as opened:
        draw(opened, output, title, as_json, quiet)


def receipts(
    context: typer.Context, dropped: DroppedFlag = False, as_json: JsonFlag = False
) -> None:
    """List the receipts of a memory: what was deleted when, without ids."""
    target = need_target(context)
    if dropped:
        kept = _archive(target).receipts
    else:
        with target.memory() as memory:
            kept = memory.receipts()
    if as_json:
        print_json({"memory": target.name, "receipts": kept})
        return
    names = ("number", "time", "kind", "removed", "missing", "rows_left", "request")
    print_records({name: [line[name] for line in kept] for name in names}, "receipts")


def log(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="LOG", help="The log file to write.")
    ],
    dropped: DroppedFlag = False,
    force: ForceFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Write the log of a memory's certificates to a file, for `svmemory verify --log`."""
    check_free(output, force)
    target = need_target(context)
    if dropped:
        kept = _archive(target).log
    else:
        with target.memory() as memory:
            kept = memory.log()
    try:
        output.write_bytes(kept.to_bytes())
    except OSError as error:
        raise InputError(f"{output}: cannot be written ({error.strerror or error})") from None
    note(f"wrote {count(len(kept), 'certificate')} to {output}", quiet)


def _archive(target: StoreTarget) -> Archive:
    """What is left of the memory that was dropped last."""
    name = target.need_name()
    with target.store() as store:
        found = store.dropped(name)
    if not found:
        raise InputError(f"no memory {name!r} was dropped from this store")
    return found[-1]
