"""``svmemory verify``: check a certificate without trusting who issued it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..certificate.plain import visible
from ..errors import InputError
from . import CHECK_FAILED, PENDING
from .options import JsonFlag
from .output import print_json

if TYPE_CHECKING:
    from ..certificate.verify import Verification

_EXIT = {"verified": 0, "unverified": CHECK_FAILED, "pending": PENDING}


def verify(
    certificate: Annotated[
        Path, typer.Argument(metavar="CERT", help="A certificate that forget or prune wrote.")
    ],
    trust: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="KEY",
            help="A public key (.pub) that you trust, from its owner and not from whoever sent the"
            " certificate; repeatable.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The memory file with the retained rows.", show_default=False
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="The log that it is in.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A checkpoint of the log that you kept, or got from somebody else; repeatable.",
            show_default=False,
        ),
    ] = None,
    opening: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The opening that names the removed rows.", show_default=False
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a certificate: signature, chain, digests, optimum.

    Works offline and without the engine. Exit code: 0 verified, 1 unverified (a check failed), 3
    pending (nothing failed, and something that matters could not be checked).
    """
    from ..certificate.keys import PublicKey
    from ..certificate.verify import Evidence
    from ..certificate.verify import verify as check

    if not trust:
        raise InputError("give at least one public key that you trust: --trust KEY.pub")
    if checkpoint and log is None:
        raise InputError("--checkpoint needs --log")
    kept = [_read(path) for path in checkpoint or []]
    evidence = Evidence(
        certificate=_read(certificate),
        memory=None if memory is None else _read(memory),
        log=None if log is None else _read(log),
        checkpoints=kept[1:],
        known=kept[0] if kept else None,
        opening=None if opening is None else _read(opening),
    )
    found = check(evidence, [PublicKey.load(path) for path in trust])
    if as_json:
        print_json({"certificate": str(certificate), **found.as_dict()})
    else:
        _print(found)
    raise typer.Exit(_EXIT[found.conclusion])


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    return path.read_bytes()


def _print(found: Verification) -> None:
    colours = {"pass": "green", "warn": "yellow", "fail": "red", "not run": "yellow"}
    for check in found.checks:
        verdict = typer.style(f"{check.verdict:<7}", fg=colours[check.verdict])
        typer.echo(f"{verdict}  {check.layer:<10}  {check.name}: {visible(check.reason)}")
    if found.statement is not None:
        _summarise(found.statement["predicate"])
    typer.echo(typer.style(found.conclusion, bold=True) + _why(found))


def _summarise(predicate: dict[str, Any]) -> None:
    """What the certificate says: who and why, what the deletion reached, and its limits."""
    identity, request = predicate["identity"], predicate["request"]
    typer.echo(
        f"{visible(identity['issuer'])} says: {len(predicate['removed'])} removed for"
        f" {visible(request['id'])} ({visible(request['ground'])}), {request['completed']}"
    )
    for state in ("reached", "not reached", "not ours"):
        sinks = [visible(one["sink"]) for one in predicate["scope"] if one["state"] == state]
        if sinks:
            typer.echo(f"  {state + ':':<13}{', '.join(sinks)}")
    for limit in predicate["limits"]:
        typer.echo(f"  {'limit:':<13}{visible(limit)}")


def _why(found: Verification) -> str:
    wanted = {"unverified": "fail", "pending": "not run"}.get(found.conclusion)
    names = [
        c.name for c in found.checks if c.verdict == wanted and (c.matters or wanted == "fail")
    ]
    return f": {', '.join(names)}" if wanted else ""
