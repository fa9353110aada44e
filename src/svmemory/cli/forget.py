"""``svmemory forget`` and ``svmemory prune``: take rows out of a memory file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InputError, UnknownIdError
from ..memory import SupportVectorMemory
from ..preview import preview, require
from ..results import ForgetResult, PruneResult
from .certify import (
    AuthoriserText,
    CertificatePath,
    CheckChoice,
    CheckpointPath,
    GroundText,
    IssuerText,
    LogPath,
    OpeningPath,
    ReceivedText,
    RequestText,
    SignerPath,
    Wanted,
)
from .files import OpenedMemory, check_free, open_memory
from .options import (
    ForceFlag,
    JsonFlag,
    MemoryOutput,
    MemoryPath,
    PreviewFlag,
    QuietFlag,
    TokenText,
)
from .output import note, print_facts, print_json, progress_bar
from .show_preview import absent_line, show_preview
from .summary import SETS, count, digest_line, digest_of

if TYPE_CHECKING:
    from ..certificate.signer import Signer

EVIDENCE = ("certificate", "opening", "log", "checkpoint")
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
    preview_only: PreviewFlag = False,
    token: TokenText = None,
    certificate: CertificatePath = None,
    signer: SignerPath = None,
    issuer: IssuerText = None,
    check: CheckChoice = "now",
    opening: OpeningPath = None,
    log: LogPath = None,
    checkpoint: CheckpointPath = None,
    request: RequestText = None,
    received: ReceivedText = None,
    ground: GroundText = None,
    authoriser: AuthoriserText = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Forget rows: the memory becomes, to the byte, one that never saw them."""
    if bool(subject) == bool(ids):
        raise InputError("give either --subject or --id")
    if output is not None:
        check_free(output, force)
    wanted = Wanted(
        certificate,
        signer,
        issuer,
        check,
        opening,
        log,
        checkpoint,
        request,
        received,
        ground,
        authoriser,
    )
    wanted.check_options(memory, output, force)
    opened = open_memory(memory)
    held = opened.memory
    strict = missing == "error"
    rows, absent = (
        _rows_of(held, subject, strict) if subject else _held_ids(held, ids or [], strict)
    )
    if preview_only:
        show_preview(preview("forget", held, rows, absent), as_json)
        return
    require(token, "forget", held, rows)

    def run(signer: Signer | None) -> ForgetResult:
        if not rows:  # all of them missing, which was to be ignored
            digest = digest_of(held)
            return ForgetResult([], {}, 0, 0, 0, 0, digest, digest)
        with progress_bar("forgetting rows", quiet or as_json) as progress:
            return held.forget(
                ids=rows,
                digests=held.contract.ridge > 0,
                progress=progress,
                certificate=signer,
            )

    result, path = wanted.delete(
        run, lambda: opened.save(output, force), output is None, quiet or as_json
    )
    former = {name: [row for row in result.removed if result.former[row] == name] for name in SETS}
    _report(
        {
            "memory": str(path),
            "removed": list(result.removed),
            "former_sets": dict(result.former),
            "missing": absent,
            "rows_left": len(held),
            "digest_before": result.digest_before,
            "digest_after": result.digest_after,
            "events": result.events,
            "refits": result.refits,
            **_evidence(wanted, result),
        },
        "removed",
        ", ".join(f"{len(rows)} {name}" for name, rows in former.items() if rows),
        as_json,
    )
    if result.removed:
        _warn_of_traces(opened, quiet or as_json)


def prune(
    memory: MemoryPath,
    keep_slack_below: Annotated[
        float,
        typer.Option(
            metavar="SLACK", help="Keep reserve rows with less gate-score slack than this."
        ),
    ] = 0.0,
    admissions: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Drop only rows that no K further admissions, whatever they are, can make matter.",
            show_default=False,
        ),
    ] = None,
    output: MemoryOutput = None,
    force: ForceFlag = False,
    certificate: CertificatePath = None,
    signer: SignerPath = None,
    issuer: IssuerText = None,
    check: CheckChoice = "now",
    opening: OpeningPath = None,
    log: LogPath = None,
    checkpoint: CheckpointPath = None,
    request: RequestText = None,
    received: ReceivedText = None,
    ground: GroundText = None,
    authoriser: AuthoriserText = None,
    as_json: JsonFlag = False,
) -> None:
    """Drop reserve rows: no readout and no score changes now.

    Rows that are added or forgotten later might have given a pruned row weight again. The file does
    not know what was pruned from it; --admissions looks ahead instead.
    """
    if output is not None:
        check_free(output, force)
    if admissions is not None and keep_slack_below:
        raise InputError("give either --keep-slack-below or --admissions")
    wanted = Wanted(
        certificate,
        signer,
        issuer,
        check,
        opening,
        log,
        checkpoint,
        request,
        received,
        ground,
        authoriser,
    )
    wanted.check_options(memory, output, force)
    opened = open_memory(memory)
    held = opened.memory
    least = keep_slack_below if admissions is None else held.plan(admissions).threshold

    def run(signer: Signer | None) -> PruneResult:
        return held.prune(least, digests=held.contract.ridge > 0, certificate=signer)

    result, path = wanted.delete(run, lambda: opened.save(output, force), output is None, as_json)
    _report(
        {
            "memory": str(path),
            "removed": list(result.removed),
            "admissions": admissions,
            "slack": result.slack if result.removed else None,
            "rows_left": len(held),
            "digest_before": result.digest_before,
            "digest_after": result.digest_after,
            **_evidence(wanted, result),
        },
        "pruned",
        f"all reserve, slack at least {result.slack:.3g}" if result.removed else "",
        as_json,
    )


def _rows_of(
    memory: SupportVectorMemory, subjects: Sequence[str], strict: bool
) -> tuple[list[str], list[str]]:
    """Ids of all rows of some subjects, and subjects without rows, which ``strict`` refuses."""
    wanted = set(subjects)
    unknown = wanted.difference(s for s in memory.subjects if s is not None)
    if unknown and strict:
        raise UnknownIdError(f"the memory holds no row of subject {_several(sorted(unknown))}")
    owned = zip(memory.ids, memory.subjects, strict=True)
    return [row for row, owner in owned if owner in wanted], sorted(unknown)


def _held_ids(
    memory: SupportVectorMemory, specs: Sequence[str], strict: bool
) -> tuple[list[str], list[str]]:
    """Held ids from comma-separated lists, and those not held, which ``strict`` refuses.

    What is a held id as it stands is that id; else blanks around it go.
    """
    rows: list[str] = []
    for spec in specs:
        parts = [spec] if spec in memory else spec.split(",")
        rows += [part if part in memory else part.strip() for part in parts if part.strip()]
    if not rows:
        raise InputError("--id names no ids")
    unknown = [row for row in dict.fromkeys(rows) if row not in memory]
    if unknown and strict:
        raise UnknownIdError(f"the memory holds no row with id {_several(unknown)}")
    return [row for row in dict.fromkeys(rows) if row in memory], unknown


def _evidence(wanted: Wanted, result: ForgetResult | PruneResult) -> dict[str, str]:
    """Files of evidence that were written."""
    if result.certificate is None:
        return {}
    files = zip(EVIDENCE, (wanted.path, wanted.opening, wanted.log, wanted.checkpoint), strict=True)
    return {name: str(path) for name, path in files if path is not None}


def _several(unknown: Sequence[str]) -> str:
    more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
    return f"{unknown[0]!r}{more}; --missing ignore skips it"


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
            **({"not held": absent_line(absent)} if (absent := document.get("missing")) else {}),
            "rows left": document["rows_left"],
            "digest before": digest_line(document["digest_before"]),
            "digest after": digest_line(document["digest_after"]),
            "memory": document["memory"],
            **{name: document[name] for name in EVIDENCE if name in document},
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
