"""``svmemory info`` and ``svmemory digest``: what a memory is, and its fingerprint."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..memory import SupportVectorMemory
from . import CHECK_FAILED
from .files import OpenedMemory, open_memory
from .options import JsonFlag, MemoryPath
from .output import note, print_facts, print_json, print_records
from .summary import SETS, count, facts, summary

RowsFlag = Annotated[
    bool, typer.Option("--rows", help="List the rows instead: id, subject, set and weight.")
]
PlanNumber = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="Also count the rows that no K further admissions can make matter.",
        show_default=False,
    ),
]
VerifyDigest = Annotated[
    str | None,
    typer.Option(
        metavar="HEX",
        help="Compare with this digest; exit 1 when they differ.",
        show_default=False,
    ),
]


def info(
    memory: MemoryPath,
    rows: RowsFlag = False,
    plan: PlanNumber = None,
    as_json: JsonFlag = False,
) -> None:
    """Show contract, size, sets, digest, KKT residual and scaling of a memory."""
    show_info(open_memory(memory), rows, plan, as_json)


def show_info(opened: OpenedMemory, rows: bool, plan: int | None, as_json: bool) -> None:
    """Print what ``info`` prints of an opened memory."""
    document = summary(opened)
    if plan is not None:
        document["plan"] = _plan(opened.memory, plan)
    if rows and as_json:
        print_json({**document, "row_list": _records(_row_columns(opened.memory))})
    elif rows:
        print_records(_row_columns(opened.memory), f"rows of {opened.path.name}")
    elif as_json:
        print_json(document)
    else:
        lines = facts(document)
        if plan is not None:
            lines["plan"] = _plan_line(document["plan"])
        print_facts(lines)


def digest(
    memory: MemoryPath,
    verify: VerifyDigest = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the digest of a memory: equal digests mean equal memories, to the byte."""
    show_digest(lambda: open_memory(memory), verify, as_json)


def show_digest(opening: Callable[[], OpenedMemory], verify: str | None, as_json: bool) -> None:
    """Print what ``digest`` prints, once ``verify`` is known to be a digest."""
    expected = None if verify is None else verify.strip().lower()
    if expected is not None and not re.fullmatch("[0-9a-f]{64}", expected):
        raise InputError(f"--verify takes 64 hexadecimal digits, got {verify!r}")
    opened = opening()
    found = opened.memory.digest()
    matches = None if expected is None else found == expected
    if as_json:
        document = {"memory": str(opened.path), "digest": found}
        print_json({**document, "expected": expected, "match": matches})
    else:
        typer.echo(found)
    if matches is False:
        note(f"digest differs: expected {expected}")
        raise typer.Exit(CHECK_FAILED)


def _plan(memory: SupportVectorMemory, k: int) -> dict[str, Any]:
    found = memory.plan(k)
    threshold = found.threshold if math.isfinite(found.threshold) else None
    return {"k": k, "threshold": threshold, "droppable": found.droppable, "kept": found.kept}


def _plan_line(plan: dict[str, Any]) -> str:
    if plan["threshold"] is None:
        return "none: with fewer rows than 1/C every row has weight"
    rows = count(len(plan["droppable"]), "row")
    return f"{rows} with slack {plan['threshold']:.3g} or more: no {plan['k']} admissions need them"


def _row_columns(memory: SupportVectorMemory) -> dict[str, list[Any]]:
    partition = memory.partition
    set_of = {row: name for name in SETS for row in getattr(partition, name)}
    return {
        "id": list(memory.ids),
        "subject": list(memory.subjects),
        "set": [set_of[row] for row in memory.ids],
        "weight": [float(weight) for weight in memory.weights],
    }


def _records(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
