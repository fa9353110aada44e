"""``svmemory forget`` and ``svmemory prune``: take rows out of a memory file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from ..errors import InputError, UnknownIdError
from ..memory import SupportVectorMemory
from .files import OpenedMemory, check_free, open_memory
from .options import ForceFlag, JsonFlag, MemoryOutput, MemoryPath, QuietFlag
from .output import note, print_facts, print_json, progress_bar
from .summary import SETS, count, digest_line

_LISTED = 10  # removed ids named on the terminal; --json has them all


def forget(
    memory: MemoryPath,
    subject: Annotated[
        list[str] | None,
        typer.Option(help="Forget every row of this subject; repeatable.", show_default=False),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="IDS",
            help="Forget these rows, comma-separated; repeatable.",
            show_default=False,
        ),
    ] = None,
    output: MemoryOutput = None,
    missing: Annotated[
        Literal["error", "ignore"],
        typer.Option(help="What to do about a subject or an id that the memory does not hold."),
    ] = "error",
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Forget rows: the memory becomes, to the byte, one that never saw them."""
    if bool(subject) == bool(ids):
        raise InputError("give either --subject or --id")
    if output is not None:
        check_free(output, force)
    opened = open_memory(memory)
    held = opened.memory
    rows = _rows_of(held, subject, missing) if subject else _split(held, ids or [])
    with progress_bar("forgetting rows", quiet or as_json) as progress:
        result = held.forget(
            ids=rows, missing=missing, digests=held.contract.ridge > 0, progress=progress
        )
    path = opened.save(output, force)
    former = {name: [row for row in result.removed if result.former[row] == name] for name in SETS}
    _report(
        {
            "memory": str(path),
            "removed": list(result.removed),
            "former_sets": dict(result.former),
            "rows_left": len(held),
            "digest_before": result.digest_before,
            "digest_after": result.digest_after,
            "events": result.events,
            "refits": result.refits,
        },
        "removed",
        ", ".join(f"{len(rows)} {name}" for name, rows in former.items() if rows),
        as_json,
    )
    _warn_of_traces(opened, quiet or as_json)


def prune(
    memory: MemoryPath,
    output: MemoryOutput = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Drop the reserve rows: no readout and no score changes now.

    Rows that are added later might have given a pruned row weight again; the memory cannot know.
    """
    if output is not None:
        check_free(output, force)
    opened = open_memory(memory)
    result = opened.memory.prune(digests=opened.memory.contract.ridge > 0)
    path = opened.save(output, force)
    _report(
        {
            "memory": str(path),
            "removed": list(result.removed),
            "rows_left": len(opened.memory),
            "digest_before": result.digest_before,
            "digest_after": result.digest_after,
        },
        "pruned",
        "all reserve" if result.removed else "",
        as_json,
    )


def _rows_of(memory: SupportVectorMemory, subjects: Sequence[str], missing: str) -> list[str]:
    """Ids of all rows of some subjects."""
    wanted = set(subjects)
    unknown = wanted.difference(s for s in memory.subjects if s is not None)
    if unknown and missing == "error":
        raise UnknownIdError(f"the memory holds no row of subject {min(unknown)!r}")
    return [row for row, owner in zip(memory.ids, memory.subjects, strict=True) if owner in wanted]


def _split(memory: SupportVectorMemory, specs: Sequence[str]) -> list[str]:
    """Ids from comma-separated lists; a whole string that is a held id is taken as it stands."""
    rows: list[str] = []
    for spec in specs:
        rows += [spec] if spec in memory else [part for part in spec.split(",") if part]
    return list(dict.fromkeys(rows))


def _report(document: dict[str, Any], verb: str, sets: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    removed = document["removed"]
    listed = ", ".join(removed[:_LISTED]) + (", ..." if len(removed) > _LISTED else "")
    print_facts(
        {
            verb: count(len(removed), "row") + (f": {listed}" if removed else ""),
            "former sets": sets or "none",
            "rows left": document["rows_left"],
            "digest before": digest_line(document["digest_before"]),
            "digest after": digest_line(document["digest_after"]),
            "memory": document["memory"],
        }
    )


def _warn_of_traces(opened: OpenedMemory, quiet: bool) -> None:
    """Say what was computed from the forgotten rows and stays in the file."""
    header = opened.header
    scaling = (header.get("scaler") or {}).get("kind") == "standard"
    gamma = header.get("gamma_from") == "scale"
    what = " and ".join(["scaling"] * scaling + ["gamma"] * gamma)
    if what:
        note(
            f"warning: {what} came from all rows at build, the forgotten ones included, and will"
            " not change; build with --range or --scale-from and a number for --gamma to avoid it",
            quiet,
        )
