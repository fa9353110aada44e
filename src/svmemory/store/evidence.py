"""Certificates of deletions in a store: issued, and entered in the log, in the same transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, select

from ..errors import InputError, StoreError
from . import schema

if TYPE_CHECKING:
    from ..certificate.log import Log
    from ..certificate.signer import Signer, Sink
    from .change import Change

_FILES = {
    "sqlite": (
        "the file is rewritten and its WAL emptied right after the transaction that holds this"
        " certificate; the receipt says whether that is done"
    ),
    "postgresql": (
        "table files are rewritten right after the transaction that holds this certificate; the"
        " receipt says whether that is done"
    ),
}


def log_of(connection: Connection, memory: int) -> Log:
    """The log of a memory: certificates and checkpoints."""
    from ..certificate.log import Log

    table = schema.log
    query = select(table.c.entry).where(table.c.memory == memory).order_by(table.c.position)
    try:
        lines = [bytes(line) for line in connection.scalars(query)]
    except TypeError as error:
        raise StoreError(f"the log of a memory is damaged ({error})") from None
    return Log(lines)


def bound(change: Change, signer: Signer) -> tuple[Signer, Log]:
    """The signer for one deletion in a store, and the log that it will add to."""
    from ..certificate.signer import Signer

    if not isinstance(signer, Signer):
        raise InputError(
            f"certificate takes a Signer (svmemory.certificate.signer), got {type(signer).__name__}"
        )
    if signer.log is not None:
        raise InputError("a store keeps the log of a memory itself: give a signer without log")
    record = change.record
    log = log_of(change.connection, record.memory)
    # Every memory has a log of its own, and logs of one origin must not contradict each other.
    origin = signer.origin or f"{signer.issuer}: {record.name} {record.token.hex()[:8]}"
    sinks = _sinks(change.connection.dialect.name, record.sealed)
    return replace(signer, log=log, origin=origin).with_sinks(*sinks), log


def keep(change: Change, log: Log, known: int) -> None:
    """Write to the tables the lines that ``log`` has beyond the first ``known``."""
    lines = lines_of(log)[known:]
    change.connection.execute(
        insert(schema.log),
        [
            {"memory": change.record.memory, "position": known + i, "entry": line}
            for i, line in enumerate(lines)
        ],
    )


def lines_of(log: Log) -> list[bytes]:
    """Envelopes in a log, certificates and checkpoints, in order."""
    return log.to_bytes().split(b"\n")[1:-1]


def _sinks(kind: str, sealed: bool) -> list[Sink]:
    from ..certificate.signer import Sink
    from ..certificate.statement import NOT_OURS, NOT_REACHED, REACHED

    sinks = [
        Sink("store tables", REACHED, "deleted in the transaction that holds this certificate"),
        Sink("store files", NOT_REACHED, f"at the time of issue: {_FILES[kind]}"),
    ]
    if kind == "postgresql":
        sinks.append(
            Sink(
                "server",
                NOT_REACHED,
                "write-ahead log until it is recycled and overwritten, archives, replicas, logs",
            )
        )
    if sealed:
        note = "hold the row encrypted; its key is destroyed right after this transaction"
        sinks.append(Sink("backups", NOT_OURS, note))
    return sinks
