"""Who issues certificates, and on what terms: what ``forget(..., certificate=signer)`` takes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from ..errors import EvidenceError, InputError
from .canonical import decode
from .envelope import parse
from .fields import time_text
from .keys import SecretKey
from .log import Link, Log
from .logfile import open_log
from .plain import strange
from .scope import sink_fault
from .statement import NOT_OURS, NOT_REACHED, REACHED

Check = Literal["now", "later"]


@dataclass(frozen=True)
class Request:
    """What asked for a deletion.

    Attributes
    ----------
    id : str, optional
        The controller's own number of the request; by default a new random one.
    received : datetime, optional
        With a time zone; by default the moment of issue.
    ground : str
        Why it is deleted, as "erasure request of the subject" or "retention period over".
    authoriser : str
        Person or role who decided.
    """

    id: str | None = None
    received: datetime | None = None
    ground: str = "not stated"
    authoriser: str = "not stated"


@dataclass(frozen=True)
class Acceptance:
    """A person or role who accepts a certificate, apart from who issues it."""

    by: str
    role: str
    time: datetime
    note: str = "accepted"


@dataclass(frozen=True)
class Sink:
    """A place where a row may be, and whether the deletion reached it.

    Attributes
    ----------
    sink : str
    state : {"reached", "not reached", "not ours"}
    note : str
    """

    sink: str
    state: str
    note: str


DEFAULT_SINKS = (
    Sink(
        "live state",
        REACHED,
        "rows, weights, offset and cold tier: the state is the one that never saw the rows",
    ),
    Sink("memory files", NOT_REACHED, "files that were saved before hold the rows until replaced"),
    Sink(
        "log",
        REACHED,
        "certificates name rows by salted commitments only; the salt is in the opening",
    ),
    Sink("backups", NOT_OURS, "copies of files or volumes that somebody else makes"),
    Sink("upstream", NOT_OURS, "the source of the rows, its encoder, and models trained on them"),
)


@dataclass(frozen=True)
class Signer:
    """Issues certificates under one key.

    Parameters
    ----------
    key : SecretKey
    issuer : str
        Who answers for them: an organisation, perhaps with a system's name.
    log : Log or path, optional
        Certificates are chained and appended, each with a checkpoint. Without one, each stands
        alone as number 0. A file that is broken, or that another key has signed, is refused.
    check : {"now", "later"}
        "now" solves the retained rows afresh, independently of the engine, and compares; "later"
        leaves that to the verifier, and the certificate says so.
    request : Request
        See :meth:`for_request`.
    valid_days : int
        Days during which the certificate may be relied on.
    sinks : sequence of Sink
        In place of, or besides, those of the same name in ``DEFAULT_SINKS``.
    validation : Acceptance, optional
    origin : str, optional
        Name of a log that begins, in its checkpoints; by default it is named after the key. A log
        that has checkpoints keeps its name.
    clock : callable
        The time, with a zone.
    """

    key: SecretKey
    issuer: str
    log: Log | str | os.PathLike[str] | None = None
    check: Check = "now"
    request: Request = Request()
    valid_days: int = 365
    sinks: tuple[Sink, ...] = ()
    validation: Acceptance | None = None
    origin: str | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __post_init__(self) -> None:
        if not isinstance(self.key, SecretKey):
            raise InputError("a signer needs a SecretKey")
        if not isinstance(self.issuer, str):
            raise InputError("a signer needs the name of its issuer")
        if self.check not in ("now", "later"):
            raise InputError(f"check must be 'now' or 'later', got {self.check!r}")
        if not 1 <= self.valid_days <= 36_500:
            raise InputError(f"valid_days must be from 1 to 36500, got {self.valid_days}")
        for sink in self.sinks:
            if sink.state not in (REACHED, NOT_REACHED, NOT_OURS):
                raise InputError(f"sink {sink.sink!r} has the unknown state {sink.state!r}")
            fault = sink_fault(sink.sink, sink.state)
            if fault is not None:
                raise InputError(f"the signer {fault}")
        require_plain("issuer", self.issuer)
        require_plain("request", self.request.id)
        require_plain("ground", self.request.ground)
        require_plain("authoriser", self.request.authoriser)

    def for_request(self, request: Request) -> Signer:
        """The same signer, for one request."""
        return replace(self, request=request)

    def with_sinks(self, *sinks: Sink) -> Signer:
        """The same signer, with these sinks in place of those of the same name."""
        names = {sink.sink for sink in sinks}
        return replace(self, sinks=(*(s for s in self.sinks if s.sink not in names), *sinks))

    def all_sinks(self) -> list[Sink]:
        """The sinks of a certificate."""
        own = {sink.sink: sink for sink in self.sinks}
        listed = [own.pop(sink.sink, sink) for sink in DEFAULT_SINKS]
        return [*listed, *own.values()]

    @contextmanager
    def hold(self) -> Iterator[Place]:
        """Hold the log, if there is one, from reading its end to writing the certificate to it."""
        if self.log is None:
            yield Place(Link(0, None), None, self)
        elif isinstance(self.log, Log):
            yield Place(self.log.head(), self.log, self)
        else:
            with open_log(self.log, self.key.public) as log:
                yield Place(log.head(), log, self)


@dataclass(frozen=True)
class Place:
    """A certificate's place in the chain, and the log that it goes to."""

    link: Link
    log: Log | None
    signer: Signer

    def take(self, certificate: bytes) -> None:
        """Append a certificate and a checkpoint to the log; nothing without one."""
        if self.log is None:
            return
        signer = self.signer
        default = signer.origin or f"log of {signer.key.public.fingerprint}"
        origin = _origin(self.log.checkpoints) or default
        self.log.append(certificate)
        self.log.checkpoint(signer.key, origin, time_text(signer.clock()))


def _origin(checkpoints: Sequence[bytes]) -> str | None:
    """The name that a log has already."""
    if not checkpoints:
        return None
    name = decode(parse(checkpoints[-1]).payload, "the log's checkpoint").get("origin")
    return name if isinstance(name, str) else None


def require_plain(name: str, text: str | None) -> None:
    """Raise InputError for a text that is empty, or that a screen could show as another one."""
    if text is None:
        return
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"the {name} is empty: leave it out, or say what it is")
    found = strange(text)
    if found is not None:
        raise InputError(f"the {name} holds the control character {found}: write plain text")


def new_id() -> str:
    """A random name: ``urn:uuid:...``."""
    return uuid.uuid4().urn


def moment(value: datetime | None, default: datetime) -> str:
    """A time as a certificate writes it; EvidenceError without a zone."""
    if value is not None and value.tzinfo is None:
        raise EvidenceError("a time needs a zone: use datetime.now(UTC)", "encoding")
    return time_text(default if value is None else value)
