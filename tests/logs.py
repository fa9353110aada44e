"""Logs for tests: certificates that hold little more than their place in the chain."""

from __future__ import annotations

from collections.abc import Sequence

from svmemory.certificate.checks import Check
from svmemory.certificate.envelope import seal
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.log import CERTIFICATE_TYPE, Link, Log

ORIGIN = "hospital.example/forgotten"


def entry(key: SecretKey, link: Link, what: str = "row") -> bytes:
    """Envelope of a certificate at a place of the chain."""
    identity = {"previous": link.previous, "sequence": str(link.sequence)}
    return seal(CERTIFICATE_TYPE, {"predicate": {"identity": identity, "what": what}}, key)


def minute(number: int) -> str:
    return f"2026-01-31T{12 + number // 60:02d}:{number % 60:02d}:00Z"


def grown(key: SecretKey, size: int, what: str = "row", log: Log | None = None) -> Log:
    """A log of ``size`` certificates with a checkpoint after each, or ``log`` with more of them."""
    log = log or Log()
    while len(log) < size:
        log.append(entry(key, log.head(), f"{what} {len(log)}"))
        log.checkpoint(key, ORIGIN, minute(len(log)))
    return log


def of(entries: Sequence[bytes], checkpoints: Sequence[bytes] = ()) -> Log:
    """A log put together by somebody who does not care."""
    return Log([*entries, *checkpoints])


def verdicts(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


def failures(checks: Sequence[Check]) -> dict[str, tuple[str, str]]:
    """Layer and reason of every check that failed, by name."""
    return {c.name: (c.layer, c.reason) for c in checks if c.verdict == "fail"}
