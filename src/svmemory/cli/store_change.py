"""Commands that change a memory in a store, and what they say about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InputError
from ..tables import read_table
from . import PENDING
from .certify import (
    AuthoriserText,
    CertificatePath,
    CheckChoice,
    GroundText,
    IssuerText,
    OpeningPath,
    RequestText,
    SignerPath,
)
from .files import check_free, check_not_input
from .options import ForceFlag, JsonFlag, PreviewFlag, QuietFlag, TokenText
from .output import note, print_facts, print_json
from .plan import plan_like, scaled_keys, values_of
from .show_preview import absent_line, several, show_preview
from .store_evidence import Evidence
from .summary import count, digest_line
from .target import as_opened, in_words, need_target, times_of

if TYPE_CHECKING:
    from ..store import Receipt, StoredMemory

TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COL",
        help="Column of times (ISO 8601), for expire (default: now).",
        show_default=False,
    ),
]


def add(
    context: typer.Context,
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv or .parquet file.")],
    time_column: TimeColumn = None,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Let ids in that were erased from this memory.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Add the rows of a table, by the columns and the scaling that the memory was built with."""
    records = read_table(table)
    with need_target(context).memory() as memory:
        plan = plan_like(as_opened(memory))
        columns = plan.columns
        timed = time_column or memory.header.get("time_column")
        added = memory.add(
            scaled_keys(records, columns.keys, columns.id, plan.scaler),
            values_of(records, columns.values, columns.id) if columns.values else None,
            ids=None if columns.id is None else records.ids(columns.id),
            subjects=None if columns.subject is None else records.subjects(columns.subject),
            times=None if timed is None else times_of(records, timed, columns.id),
            readmit=readmit,
        )
        rows = len(memory)
    if as_json:
        print_json({"memory": memory.name, "added": added, "rows": rows})
    else:
        print_facts({"added": count(len(added), "row"), "rows": rows, "memory": memory.name})


def forget(
    context: typer.Context,
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
    missing: Annotated[
        Literal["error", "ignore"],
        typer.Option(help="Whether a request that matches nothing ends with exit code 3 or 0."),
    ] = "error",
    preview: PreviewFlag = False,
    token: TokenText = None,
    request: RequestText = None,
    certificate: CertificatePath = None,
    signer: SignerPath = None,
    issuer: IssuerText = None,
    check: CheckChoice = "now",
    opening: OpeningPath = None,
    ground: GroundText = None,
    authoriser: AuthoriserText = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Forget rows: no file of the store has their bytes afterwards.

    A request that matches nothing says so and ends with exit code 3. Ids that were forgotten are
    refused from now on; `add --readmit` lets them in again.
    """
    if bool(subject) == bool(ids):
        raise InputError("give either --subject or --id")
    wanted = Evidence(certificate, signer, issuer, check, opening, request, ground, authoriser)
    wanted.check_options(force)
    with ExitStack() as stack:
        memory = stack.enter_context(need_target(context).memory())
        rows, people = (None, subject) if subject else (_ids(memory, ids or []), None)
        if preview:
            show_preview(memory.preview(ids=rows, subject=people), as_json)
            return
        publish = stack.enter_context(wanted.places())
        receipt = memory.forget(
            rows,
            people,
            token=token,
            request=request,
            digests=memory.contract.ridge > 0,
            certificate=wanted.signer(),
        )
        publish(receipt.certificate, receipt.opening)
        _finish(receipt, wanted.files(receipt), as_json, ignore=missing == "ignore")
        if receipt.certificate is not None and opening is None:
            note(
                "the certificate's salt is destroyed: it cannot be shown later which rows it means"
                " (--opening keeps it)",
                quiet or as_json,
            )


def prune(
    context: typer.Context,
    keep_slack_below: Annotated[
        float,
        typer.Option(
            metavar="SLACK", help="Keep reserve rows with less gate-score slack than this."
        ),
    ] = 0.0,
    preview: PreviewFlag = False,
    token: TokenText = None,
    request: RequestText = None,
    certificate: CertificatePath = None,
    signer: SignerPath = None,
    issuer: IssuerText = None,
    check: CheckChoice = "now",
    opening: OpeningPath = None,
    ground: GroundText = None,
    authoriser: AuthoriserText = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Drop reserve rows: no readout and no score changes now. Their ids are free to come back."""
    wanted = Evidence(certificate, signer, issuer, check, opening, request, ground, authoriser)
    wanted.check_options(force)
    with ExitStack() as stack:
        memory = stack.enter_context(need_target(context).memory())
        if preview:
            show_preview(memory.preview(keep_slack_below=keep_slack_below), as_json)
            return
        publish = stack.enter_context(wanted.places())
        receipt = memory.prune(
            keep_slack_below,
            token=token,
            request=request,
            digests=memory.contract.ridge > 0,
            certificate=wanted.signer(),
        )
        publish(receipt.certificate, receipt.opening)
        _finish(receipt, wanted.files(receipt), as_json)


def expire(
    context: typer.Context,
    before: Annotated[
        str, typer.Option(metavar="TIME", help="Delete rows from before this, ISO 8601.")
    ],
    preview: PreviewFlag = False,
    token: TokenText = None,
    request: RequestText = None,
    as_json: JsonFlag = False,
) -> None:
    """Delete the rows whose time has come. Their ids are refused from now on."""
    with need_target(context).memory() as memory:
        if preview:
            show_preview(memory.preview(before=before), as_json)
            return
        unique = memory.contract.ridge > 0
        receipt = memory.expire(before, token=token, request=request, digests=unique)
    _finish(receipt, {}, as_json)


def evict(
    context: typer.Context,
    budget: Annotated[int, typer.Option(metavar="ROWS", help="Rows to keep at most.")],
    preview: PreviewFlag = False,
    token: TokenText = None,
    request: RequestText = None,
    as_json: JsonFlag = False,
) -> None:
    """Drop rows until a budget is met: a heuristic without a certificate; readouts may change."""
    with need_target(context).memory() as memory:
        if preview:
            show_preview(memory.preview(budget=budget), as_json)
            return
        unique = memory.contract.ridge > 0
        receipt = memory.evict(budget, token=token, request=request, digests=unique)
    _finish(receipt, {}, as_json)


def save(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The memory file to write.")
    ],
    force: ForceFlag = False,
) -> None:
    """Write a memory of the store to a memory file; later deletions do not reach that file."""
    check_free(output, force)
    target = need_target(context)
    check_not_input(output, *[Path(url) for url in (target.url, target.vault) if url])
    with target.memory() as memory:
        memory.save(output)


def _finish(
    receipt: Receipt, files: dict[str, str | None], as_json: bool, ignore: bool = False
) -> None:
    """Print a receipt; exit code 3 for a purge that is pending, and where nothing was deleted.

    ``ignore`` makes the latter 0.
    """
    shredded = None if receipt.shredded is None else receipt.shredded.message
    purged = in_words(receipt.purged)
    document: dict[str, Any] = {
        "memory": receipt.memory,
        **receipt.kept(),
        "removed": receipt.removed,
        "former_sets": receipt.former,
        "missing": receipt.missing,
        "message": receipt.message,
        "purged": purged,
        "shredded": shredded,
        **files,
    }
    if as_json:
        print_json(document)
    else:
        print_facts(_lines(receipt, purged, shredded, files))
    if receipt.pending or not (receipt.success or ignore):
        raise typer.Exit(PENDING)


def _lines(
    receipt: Receipt, purged: str, shredded: str | None, files: dict[str, str | None]
) -> dict[str, object]:
    """A receipt for people."""
    evidence = {
        name: path or "none was written: nothing was deleted" for name, path in files.items()
    }
    said = f"{receipt.number}, {receipt.kind}: {receipt.message}"
    if not receipt.success:  # digests and purging would be beside the point
        return {
            "receipt": said,
            "rows left": receipt.rows_left,
            "memory": receipt.memory,
            **evidence,
        }
    return {
        "receipt": said,
        "removed": several(receipt.removed),
        **({"not held": absent_line(receipt.missing)} if receipt.missing else {}),
        "rows left": receipt.rows_left,
        "digest before": digest_line(receipt.digest_before),
        "digest after": digest_line(receipt.digest_after),
        "bytes purged": purged,
        **({} if shredded is None else {"keys": shredded}),
        "memory": receipt.memory,
        **evidence,
    }


def _ids(memory: StoredMemory, specs: Sequence[str]) -> list[str]:
    """Ids from comma-separated lists; what is held as it stands is one id."""
    rows: list[str] = []
    with memory.current() as held:
        for spec in specs:
            parts = [spec] if spec in held else spec.split(",")
            rows += [part if part in held else part.strip() for part in parts if part.strip()]
    if not rows:
        raise InputError("--id names no ids")
    return rows
