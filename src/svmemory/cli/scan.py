"""``svmemory scan``: look for the bytes of rows in any folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..errors import InputError
from ..scan import Found, Omitted, ScanReport, ScanRow, scan
from ..scan.rowfile import rows_of, rows_of_json
from ..tables import EXTENSIONS, read_table
from . import CHECK_FAILED
from .files import OpenedMemory, open_memory
from .options import JsonFlag, QuietFlag
from .output import print_facts, print_json, progress_bar
from .plan import plan_like, scaled_keys, values_of
from .summary import count

NOT_SHOWN = 3
_LISTED = 5


def scan_command(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A file or a folder, of whatever kind.")
    ],
    row: Annotated[
        list[Path],
        typer.Option(
            "--row",
            metavar="FILE",
            help="Rows that should be gone: an old memory (.svm), a table (.csv, .parquet; needs"
            " --live) or JSON; repeatable.",
        ),
    ],
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="MEMORY",
            help="A memory whose rows may be there: what they share with the others is not looked"
            " for, and some of them are looked for as a control. Without it nothing is called"
            " absent.",
            show_default=False,
        ),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(
            "--id", help="Of the rows in FILE only this one; repeatable.", show_default=False
        ),
    ] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option(
            help="Of the rows in FILE only those of this subject; repeatable.", show_default=False
        ),
    ] = None,
    keep_row_file: Annotated[
        bool,
        typer.Option("--keep-row-file", help="FILE may lie below PATH; else that is a doubt."),
    ] = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Look for the bytes of rows in every file below PATH.

    Exit codes: 0 absent, 1 found, 2 bad input, 3 nothing found but that shows nothing.
    """
    opened = None if live is None else open_memory(live)
    held = [] if opened is None else rows_of(opened.memory)
    rows = [one for file in row for one in _rows_in(file, opened)]
    wanted = _asked(rows, ids, subject) if ids or subject else _gone(rows, held, _numbered(opened))
    with progress_bar("reading files", quiet or as_json) as progress:
        report = scan(path, wanted, held, row, progress, may_stay=keep_row_file)
    if as_json:
        print_json(report.as_dict())
    else:
        _show(report)
    code = {"found": CHECK_FAILED, "absent": 0, "not shown": NOT_SHOWN}[report.verdict]
    if code:
        raise typer.Exit(code)


def _rows_in(file: Path, live: OpenedMemory | None) -> list[ScanRow]:
    suffix = file.suffix.lower()
    if suffix in (".json", ".jsonl"):
        return rows_of_json(file)
    if suffix not in EXTENSIONS:
        return rows_of(open_memory(file).memory)
    if live is None:
        raise InputError(
            f"{file.name}: a table says nothing of scaling; give the memory with --live as well"
        )
    table, columns = read_table(file), plan_like(live).columns
    keys = scaled_keys(table, columns.keys, columns.id, live.scaler)
    values = values_of(table, columns.values, columns.id) if columns.values else None
    # Without ids a memory numbers its rows from 0 on, in the order of the table.
    names = list(map(str, range(len(table)))) if columns.id is None else table.ids(columns.id)
    people = [None] * len(names) if columns.subject is None else table.subjects(columns.subject)
    unscaled = None if live.scaler is None else table.numbers(columns.keys, columns.id)
    held = {key.tobytes() for key in live.memory.keys} if len(live.memory) else set()
    return [
        ScanRow(
            names[i],
            keys[i],
            None if values is None else values[i],
            people[i],
            # A live row with this scaled key may leave the same unscaled one.
            None if unscaled is None or keys[i].tobytes() in held else unscaled[i],
        )
        for i in range(len(names))
    ]


def _asked(
    rows: Sequence[ScanRow], ids: Sequence[str] | None, subjects: Sequence[str] | None
) -> list[ScanRow]:
    """Rows that were asked for."""
    chosen = [one for one in rows if one.id in (ids or ()) or one.subject in (subjects or ())]
    if not chosen:
        raise InputError("the row files hold no row with that --id or --subject")
    return chosen


def _gone(rows: Sequence[ScanRow], held: Sequence[ScanRow], numbered: bool) -> list[ScanRow]:
    """Rows that the live memory does not hold.

    Not an id but the content decides: an id may be held again with another row. Where ids are no
    more than numbers, the same row may have another one.
    """
    live = {one.id: one for one in held}
    contents = {_content(one) for one in held} if numbered else set()
    chosen = [
        one
        for one in rows
        if not (one.id in live and _same(one, live[one.id])) and _content(one) not in contents
    ]
    if not chosen:
        raise InputError("the live memory holds every row of the row files: none should be gone")
    return chosen


def _numbered(live: OpenedMemory | None) -> bool:
    """Whether a memory was built from a table without a column of ids."""
    return live is not None and live.header.get("id_column", "") is None


def _content(row: ScanRow) -> tuple[bytes, bytes | None, str | None]:
    return row.key.tobytes(), None if row.value is None else row.value.tobytes(), row.subject


def _same(row: ScanRow, live: ScanRow) -> bool:
    """Whether a live row holds everything that is known of a row."""
    if row.subject not in (None, live.subject):
        return False
    pairs = [(row.key, live.key)]
    if row.value is not None:
        pairs.append((row.value, np.empty(0) if live.value is None else live.value))
    return all(np.array_equal(one, other) for one, other in pairs)


def _show(report: ScanReport) -> None:
    facts: dict[str, object] = {
        "rows": f"{_names(report.rows)}; {count(report.needles, 'needle')}",
        "read": f"{count(report.files, 'file')}, {report.bytes:,} bytes below {report.path}",
    }
    if report.control is not None:
        seen = "; ".join(_line(one) for one in report.control.seen[:_LISTED]) or "not found"
        where = f"numbers in {report.control.files} of {count(report.files, 'file')}"
        facts["control"] = f"live {_names(report.control.rows)}, {where}: {seen}"
    print_facts(facts)
    for found in report.found:
        typer.echo(f"FOUND {_names(found.rows)}: {_line(found)}")
    for note in _omissions(report.omitted):
        typer.echo(note)
    if report.shared:
        typer.echo(
            f"note: {count(report.shared, 'needle')} not looked for: live rows hold them too"
        )
    for skipped in report.skipped:
        typer.echo(f"note: {skipped.path} not read: {skipped.why}")
    for doubt in report.doubts:
        typer.echo(f"doubt: {doubt}")
    typer.echo(
        {"found": "found", "absent": "absent: no occurrence in any file"}.get(
            report.verdict, "not shown: nothing found, but read the doubts"
        )
    )


def _line(found: Found) -> str:
    where = ", ".join(
        place.file + (" (its name)" if place.offset is None else f" at {place.offset:,}")
        for place in found.places[:_LISTED]
    )
    more = ", ..." if found.occurrences > len(found.places) else ""
    pieces = "" if found.of == 1 else f", {found.pieces} of {found.of} pieces"
    return f"{found.part} as {found.encoding}{pieces}: {where}{more}"


def _omissions(omitted: Sequence[Omitted]) -> list[str]:
    """One note for all encodings of a part that were left out for one reason."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for one in omitted:
        groups.setdefault((one.part, one.why, one.rows), []).append(one.encoding)
    return [
        f"note: {part} as {', '.join(encodings)} not looked for, {_names(rows)}: {why}"
        for (part, why, rows), encodings in groups.items()
    ]


def _names(ids: Sequence[str]) -> str:
    listed = ", ".join(ids[:_LISTED]) + (", ..." if len(ids) > _LISTED else "")
    return f"{count(len(ids), 'row')} ({listed})"
