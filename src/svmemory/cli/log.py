"""``svmemory log``: check a log of certificates, and take out of it what others need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..certificate.plain import visible
from ..errors import EvidenceError, InputError
from . import CHECK_FAILED, PENDING
from .files import check_free
from .options import ForceFlag, JsonFlag
from .output import print_json

if TYPE_CHECKING:
    from ..certificate.checkpoint import Checkpoint
    from ..certificate.keys import PublicKey

app = typer.Typer(
    help="The log of certificates: check it, and keep checkpoints of it.", no_args_is_help=True
)

LogPath = Annotated[Path, typer.Argument(metavar="LOG", help="A log file.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")]
Trust = Annotated[
    list[Path], typer.Option(metavar="KEY", help="A public key that you trust; repeatable.")
]
Certificate = Annotated[
    Path | None, typer.Option(metavar="CERT", help="A certificate.", show_default=False)
]
Since = Annotated[
    Path | None, typer.Option(metavar="CHECKPOINT", help="An older checkpoint.", show_default=False)
]


@app.command()
def check(
    log: LogPath,
    trust: Trust,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A checkpoint that you kept; further ones from other readers.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that nothing was dropped, moved, cut off or written anew.

    Exit code: 0 verified, 1 a check failed, 3 the log is empty.
    """
    from ..certificate.checks import Check, conclusion
    from ..certificate.log import Log
    from ..certificate.logcheck import verify_log

    keys, data = _keys(trust), _read(log)
    kept = [_read(path) for path in checkpoint or []]
    try:
        checks = verify_log(Log.from_bytes(data), kept[1:], keys, kept[0] if kept else None)
    except EvidenceError as error:
        checks = [Check("log file", "encoding", "fail", str(error))]
    verdict = conclusion(checks)
    if as_json:
        listed = [one.as_dict() for one in checks]
        print_json({"log": str(log), "verdict": verdict, "checks": listed})
    else:
        for one in checks:
            typer.echo(visible(f"{one.verdict:<7}  {one.layer:<10}  {one.name}: {one.reason}"))
        typer.echo(verdict)
    raise typer.Exit({"verified": 0, "unverified": CHECK_FAILED, "pending": PENDING}[verdict])


@app.command()
def checkpoint(log: LogPath, output: Output, force: ForceFlag = False) -> None:
    """Write the newest checkpoint to a file of its own: keep it, away from the log."""
    from ..certificate.logfile import read_log

    check_free(output, force)
    found = read_log(log).checkpoints
    if not found:
        raise InputError(f"{log} has no checkpoint")
    output.write_bytes(found[-1])


@app.command()
def prove(
    log: LogPath,
    output: Output,
    certificate: Certificate = None,
    since: Since = None,
    force: ForceFlag = False,
) -> None:
    """Write a proof that a certificate is in the log, or that the log has only grown since then.

    It is about the log of the newest checkpoint; whoever gets it needs no log.
    """
    from ..certificate.canonical import decode
    from ..certificate.checkpoint import size_of
    from ..certificate.envelope import parse
    from ..certificate.logfile import read_log

    _one_of(certificate, since)
    check_free(output, force)
    held = read_log(log)
    if not held.checkpoints:
        raise InputError(f"{log} has no checkpoint")
    newest = size_of(decode(parse(held.checkpoints[-1]).payload, "the log's checkpoint"))
    try:
        if certificate is not None:
            entries = held.entries
            entry = _read(certificate)
            if entry not in entries[:newest]:
                raise InputError(f"{certificate} is not in the log of its newest checkpoint")
            data = held.inclusion(entries.index(entry), newest).to_bytes()
        else:
            old = size_of(decode(parse(_read(since)).payload, "the older checkpoint"))
            data = held.consistency(old, newest).to_bytes()
    except IndexError as error:
        raise InputError(f"{log}: {error}") from None
    output.write_bytes(data)


@app.command()
def proven(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A file that prove wrote.")],
    checkpoint: Annotated[
        Path, typer.Option(metavar="FILE", help="The checkpoint that it is about.")
    ],
    trust: Trust,
    certificate: Certificate = None,
    since: Since = None,
) -> None:
    """Check a proof without the log: 0 it holds, 1 it does not."""
    from ..certificate.proof import ConsistencyProof, InclusionProof

    _one_of(certificate, since)
    keys = _keys(trust)
    after = _checkpoint(checkpoint, keys)
    if certificate is not None:
        holds = InclusionProof.from_bytes(_read(proof)).holds(_read(certificate), after)
        what = f"{certificate} is in the log {after.origin!r} of {after.time}"
    else:
        before = _checkpoint(since, keys)
        holds = ConsistencyProof.from_bytes(_read(proof)).holds(before, after)
        what = f"the log {after.origin!r} of {after.time} continues that of {before.time}"
    typer.echo(visible(f"{'proved' if holds else 'NOT proved'}: {what}"))
    if not holds:
        raise typer.Exit(CHECK_FAILED)


def _one_of(certificate: Path | None, since: Path | None) -> None:
    if (certificate is None) == (since is None):
        raise InputError("give either --certificate or --since")


def _keys(paths: list[Path]) -> list[PublicKey]:
    from ..certificate.keys import PublicKey

    return [PublicKey.load(path) for path in paths]


def _checkpoint(path: Path | None, keys: list[PublicKey]) -> Checkpoint:
    from ..certificate.checkpoint import open_checkpoint

    return open_checkpoint(_read(path), keys)


def _read(path: Any) -> bytes:
    if not path.is_file():
        raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    return bytes(path.read_bytes())
