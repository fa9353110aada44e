"""Check a certificate without trusting who issued it, and without the engine.

The order is that of trust: form of the envelope, signature over its raw bytes by a key that the
reader brought, then the statement's own form, its key, time and chain, and at last the retained
rows: their digest, the conditions of the optimum, and an independent fresh solve. What fails early
keeps the rest from being looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import EvidenceError, InputError
from .agreement import SKEW, check_statement
from .checks import Check, Conclusion, conclusion
from .commitments import Opening
from .envelope import open_envelope
from .fields import parse_time, time_text
from .keys import PublicKey
from .log import CERTIFICATE_TYPE, Log
from .logcheck import verify_entry, verify_log
from .statement import PRUNE_TYPE
from .verify_state import Removed, read_state, verify_state


@dataclass(frozen=True)
class Evidence:
    """What a verifier is given, as the bytes of files.

    Attributes
    ----------
    certificate : bytes
    memory : bytes, optional
        The retained rows: a memory file.
    log : bytes, optional
        The log that the certificate is said to be in.
    checkpoints : sequence of bytes
        Checkpoints of that log from elsewhere.
    known : bytes, optional
        A checkpoint of that log that the reader kept from before.
    opening : bytes, optional
        Names the deleted rows.
    """

    certificate: bytes
    memory: bytes | None = None
    log: bytes | None = None
    checkpoints: Sequence[bytes] = ()
    known: bytes | None = None
    opening: bytes | None = None


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes
    ----------
    conclusion : {"verified", "pending", "unverified"}
    checks : list of Check
    statement : dict or None
        The certificate's statement, where its signature holds.
    """

    conclusion: Conclusion
    checks: list[Check]
    statement: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "verdict": self.conclusion,
            "checks": [check.as_dict() for check in self.checks],
            "statement": self.statement,
        }


def verify(
    evidence: Evidence, trusted: Sequence[PublicKey], now: datetime | None = None
) -> Verification:
    """Check a certificate and what came with it; never raises because of what is in a file.

    Parameters
    ----------
    evidence : Evidence
    trusted : sequence of PublicKey
        Keys that the reader trusts, from a source other than the evidence.
    now : datetime, optional
        The time to judge validity by, with a zone.

    Raises
    ------
    InputError
        If checkpoints are given without the log, or a time without a zone.
    """
    moment = datetime.now(UTC) if now is None else now
    if moment.tzinfo is None:
        raise InputError("a time needs a zone: use datetime.now(UTC)")
    if evidence.log is None and (evidence.checkpoints or evidence.known is not None):
        raise InputError("checkpoints are of a log: give it as well")
    try:
        opened = open_envelope(evidence.certificate, CERTIFICATE_TYPE, trusted)
    except EvidenceError as error:
        return _ended([], "signature" if error.layer == "signature" else "envelope", error)
    checks = [
        Check("envelope", "encoding", "pass", "strict JSON and base64, a known type"),
        Check("signature", "signature", "pass", f"by the trusted key {opened.key.fingerprint}"),
    ]
    statement = opened.document
    try:
        check_statement(statement)
    except EvidenceError as error:
        return _ended(checks, "statement", error)
    predicate = statement["predicate"]
    checks += [
        Check("statement", "encoding", "pass", "every field has its form, and they agree"),
        _key(predicate, opened.key),
        _times(predicate, moment),
        _validity(predicate, moment),
        _issuers_check(predicate),
        *_log(evidence, predicate, trusted),
    ]
    removed: list[Removed] = []
    if evidence.opening is not None:
        checks.append(_opening(evidence.opening, predicate, removed))
    if evidence.memory is None:
        reason = "give the memory file (--memory): no digest or weight has been recomputed"
        checks.append(Check("retained rows", "digest", "not run", reason))
    else:
        try:
            state = read_state(evidence.memory)
        except EvidenceError as error:
            checks.append(_failed("memory file", error))
        else:
            if statement["predicateType"] == PRUNE_TYPE:  # pruning means rows, not people
                removed = [(name, None) for name, _ in removed]
            checks += verify_state(state, predicate, removed)
    return Verification(conclusion(checks), checks, statement)


def _failed(name: str, error: EvidenceError) -> Check:
    return Check(name, error.layer, "fail", str(error))  # type: ignore[arg-type]


def _ended(checks: list[Check], name: str, error: EvidenceError) -> Verification:
    """A certificate that says nothing."""
    rest = Check(
        "everything else", "digest", "not run", f"its {name} failed, so nothing it says counts"
    )
    checks = [*checks, _failed(name, error), rest]
    return Verification(conclusion(checks), checks, None)


def _key(predicate: dict[str, Any], key: PublicKey) -> Check:
    named = predicate["identity"]["key"]
    if named != key.fingerprint:
        reason = f"it names the key {named} and is signed by {key.fingerprint}"
        return Check("issuer's key", "key", "fail", reason)
    issuer = predicate["identity"]["issuer"]
    return Check("issuer's key", "key", "pass", f"the one it names, of {issuer!r}")


def _times(predicate: dict[str, Any], now: datetime) -> Check:
    """That nothing which it says has happened lies ahead; their order is part of its form."""
    said = {f"request {name}": predicate["request"][name] for name in ("received", "completed")}
    said["certified"] = predicate["identity"]["time"]
    if predicate["validation"] is not None:
        said["accepted"] = predicate["validation"]["time"]
    ahead = [f"{name} {text}" for name, text in said.items() if parse_time(text) - now > SKEW]
    if ahead:
        reason = f"{', '.join(ahead)}: that is in the future, it is {time_text(now)}"
        return Check("times", "time", "fail", reason)
    reason = ", ".join(f"{name} {text}" for name, text in said.items())
    return Check("times", "time", "pass", reason)


def _validity(predicate: dict[str, Any], now: datetime) -> Check:
    window = predicate["validity"]
    begins, ends = parse_time(window["notBefore"]), parse_time(window["notAfter"])
    name = "validity"
    if now + SKEW < begins:
        reason = f"valid from {window['notBefore']}, and it is {time_text(now)}"
        return Check(name, "time", "fail", reason)
    if now > ends:
        reason = f"valid until {window['notAfter']}, and it is {time_text(now)}"
        return Check(name, "time", "fail", reason)
    reason = f"{window['notBefore']} to {window['notAfter']}"
    return Check(name, "time", "pass", reason)


def _issuers_check(predicate: dict[str, Any]) -> Check:
    """What the issuer has compared himself."""
    equality, after = predicate["equality"], predicate["state"]["after"]
    name = "issuer's fresh solve"
    if equality["bitExact"] is None:
        reason = f"{equality['note']}; see the fresh solve here"
        return Check(name, "optimality", "warn", reason)
    moved = {equality["weightDeviation"], equality["scoreDeviation"]} - {None, (0.0).hex()}
    if not equality["bitExact"] or equality["digest"] != after["digest"] or moved:
        reason = "the issuer's own fresh solve is another state than the one certified"
        return Check(name, "optimality", "fail", reason)
    return Check(name, "optimality", "pass", "it had the digest of the state")


def _log(
    evidence: Evidence, predicate: dict[str, Any], trusted: Sequence[PublicKey]
) -> list[Check]:
    place = predicate["identity"]["sequence"]
    if evidence.log is None:
        reason = (
            f"it says that it is number {place} of its log; give --log to see that it is, and that"
            " nothing is missing there"
        )
        return [Check("log", "chain", "not run", reason, matters=False)]
    try:
        log = Log.from_bytes(evidence.log)
    except EvidenceError as error:
        return [_failed("log", error)]
    return [
        verify_entry(log, evidence.certificate),
        *verify_log(log, evidence.checkpoints, trusted, evidence.known),
    ]


def _opening(data: bytes, predicate: dict[str, Any], removed: list[Removed]) -> Check:
    """Check an opening; ``removed`` is filled with the rows that it names."""
    try:
        opening = Opening.from_bytes(data)
    except EvidenceError as error:
        return _failed("opening", error)
    mismatch = opening.mismatch(predicate)
    if mismatch is not None:
        return Check("opening", "digest", "fail", mismatch)
    removed.extend(opening.rows)
    names = [name for name, _ in removed]
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return Check("opening", "digest", "pass", f"it opens every commitment; removed: {shown}")
