"""Certificates from the command line: options of ``forget`` and ``prune``, and files in step.

The deletion comes first and its evidence second, because a certificate of a deletion that did not
last would be worse than a deletion without a certificate. So certificate and opening are written
under other names, the memory file is replaced, the evidence gets its names, and the log its entry.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InputError
from ..results import ForgetResult, PruneResult
from .files import check_free
from .output import note

if TYPE_CHECKING:
    from ..certificate.signer import Signer

UNFINISHED = ".svmemory-evidence."
"""How names of evidence begin until the deletion has lasted; a kill leaves them so."""

_PANEL = "Certificate"

CertificatePath = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT",
        help="Write a signed certificate of the deletion; needs --signer.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
SignerPath = Annotated[
    Path | None,
    typer.Option(
        metavar="KEY",
        help="Secret key that signs it (`svmemory keys new`).",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
IssuerText = Annotated[
    str | None,
    typer.Option(
        help="Who answers for it (default: the holder of the key).",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
CheckChoice = Annotated[
    Literal["now", "later"],
    typer.Option(
        help="Solve the retained rows afresh and compare now, or leave it to the verifier.",
        rich_help_panel=_PANEL,
    ),
]
OpeningPath = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT",
        help="Write the salt and the ids that the certificate hides, for the person concerned"
        " (default: they are destroyed).",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
LogPath = Annotated[
    Path | None,
    typer.Option(
        metavar="LOG",
        help="Chain it to this log and append it.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
CheckpointPath = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT",
        help="Write the log's new checkpoint, for whoever receives the certificate.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
RequestText = Annotated[
    str | None,
    typer.Option(
        "--request",
        metavar="ID",
        help="Your number of the request.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
ReceivedText = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="When the request came in: 2026-01-31 or 2026-01-31T12:00:00Z (default: now).",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
GroundText = Annotated[
    str | None,
    typer.Option(help="Why it is deleted.", rich_help_panel=_PANEL, show_default=False),
]
AuthoriserText = Annotated[
    str | None,
    typer.Option(help="Person or role who decided.", rich_help_panel=_PANEL, show_default=False),
]


@dataclass(frozen=True)
class Wanted:
    """The certificate that the options ask for; ``path`` is None where they ask for none."""

    path: Path | None
    signer: Path | None
    issuer: str | None
    check: Literal["now", "later"]
    opening: Path | None
    log: Path | None
    checkpoint: Path | None
    request: str | None
    received: str | None
    ground: str | None
    authoriser: str | None

    def check_options(self, memory: Path, output: Path | None, force: bool) -> None:
        """Raise ``InputError`` for options that do not fit together, before anything is done."""
        if self.path is None:
            rest = (
                self.signer, self.issuer, self.opening, self.log, self.checkpoint, self.request,
                self.received, self.ground, self.authoriser,
            )  # fmt: skip
            if any(option is not None for option in rest) or self.check != "now":
                raise InputError("options about a certificate need --certificate OUT")
            return
        if self.signer is None:
            raise InputError("--certificate needs --signer KEY; `svmemory keys new` makes one")
        if self.checkpoint is not None and self.log is None:
            raise InputError("--checkpoint needs --log: it is a checkpoint of the log")
        new = [path for path in (self.path, self.opening, self.checkpoint) if path is not None]
        used = [path for path in (memory, output, self.signer, self.log) if path is not None]
        places = [os.path.realpath(path) for path in new]
        if len(set(places)) < len(new) or set(places) & {os.path.realpath(path) for path in used}:
            raise InputError("memory, key, log and every file of evidence must be different files")
        for path in new:
            check_free(path, force)
        when(self.received)
        self._signer(output is None)  # every reason not to sign, before any work

    def delete(
        self,
        run: Callable[[Signer | None], ForgetResult | PruneResult],
        save: Callable[[], Path],
        replaces: bool,
        quiet: bool,
    ) -> tuple[Any, Path]:
        """Run a deletion, save the memory, write the evidence; the result and the memory's path.

        Parameters
        ----------
        run : callable
            Deletes in memory, with a certificate if it gets a signer.
        save : callable
            Writes the memory file and returns its path.
        replaces : bool
            Whether that is the file which the memory came from.
        quiet : bool
            No notes.
        """
        if self.path is None:
            return run(None), save()
        published: list[Path] = []
        signer = self._signer(replaces)
        with ExitStack() as stack:
            log = None
            if self.log is not None:
                from ..certificate.logfile import open_log

                stack.enter_context(_told(self.log, published))
                log = stack.enter_context(open_log(self.log, signer.key.public))
            result = run(replace(signer, log=log))
            if result.certificate is None or result.opening is None:
                note("nothing was removed, so there is nothing to certify", quiet)
                return result, save()
            staged = [stack.enter_context(_staged(self.path, result.certificate, 0o644))]
            if self.opening is not None:
                staged.append(stack.enter_context(_staged(self.opening, result.opening, 0o600)))
            if self.checkpoint is not None and log is not None:
                kept = log.checkpoints[-1]
                staged.append(stack.enter_context(_staged(self.checkpoint, kept, 0o644)))
            path = save()
            for publish in staged:
                publish()
            published.append(self.path)
        if self.opening is None:
            note(
                "the certificate's salt is destroyed: it cannot be shown later which rows it means"
                " (--opening keeps it)",
                quiet,
            )
        return result, path

    def _signer(self, replaces: bool) -> Signer:
        """Who signs, as yet without the log."""
        from ..certificate.keys import SecretKey
        from ..certificate.signer import Request, Signer, Sink
        from ..certificate.statement import NOT_REACHED, REACHED

        if self.signer is None:
            raise InputError("--certificate needs --signer KEY")
        key = SecretKey.load(self.signer)
        # An empty text is given, and is refused: it is no way of leaving the option out.
        told = {"ground": self.ground, "authoriser": self.authoriser}
        given = {name: text for name, text in told.items() if text is not None}
        signer = Signer(
            key,
            f"the holder of {key.public.fingerprint}" if self.issuer is None else self.issuer,
            check=self.check,
            request=Request(self.request, when(self.received), **given),
        )
        if replaces:
            says = "the file is replaced by the state after; copies of it are not reached"
            return signer.with_sinks(Sink("memory files", REACHED, says))
        says = "the state after is a new file; the file it was made from still holds the rows"
        return signer.with_sinks(Sink("memory files", NOT_REACHED, says))


def when(text: str | None) -> datetime | None:
    """The moment that an option names; a day alone is its beginning, UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is None and "T" not in text and len(text) == 10:
        moment = moment.replace(tzinfo=UTC)
    if moment is None or moment.tzinfo is None:
        raise InputError(
            f"{text!r} is no time with a zone; write 2026-01-31 or 2026-01-31T12:00:00Z"
        )
    if moment > datetime.now(UTC):
        raise InputError(f"the request cannot have come in later than now: {text}")
    return moment


@contextmanager
def _told(log: Path, published: Sequence[Path]) -> Iterator[None]:
    """Say what has happened where the log cannot be written at the end."""
    try:
        yield
    except OSError as error:
        if not published:
            raise
        raise InputError(
            f"the rows are deleted and {published[0]} is written, but {log} could not be written"
            f" ({error.strerror or error}): append the certificate to it before any other"
        ) from error


@contextmanager
def _staged(path: Path, data: bytes, mode: int) -> Iterator[Callable[[], None]]:
    """Write a file under a name that begins as ``UNFINISHED``; what is yielded gives it its own."""
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(
            prefix=f"{UNFINISHED}{target.name}.", suffix=".tmp", dir=target.parent
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode)
        yield lambda: os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)
