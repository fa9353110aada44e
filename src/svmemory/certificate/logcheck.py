"""Checks of a log: that nothing was dropped, reordered, cut off, rebuilt, replayed or shown twice.

A log alone can prove that it is in order. That it is *the* log, and whole, only a checkpoint can
show that its receiver has kept from before, or has got from somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..errors import EvidenceError
from .canonical import decode
from .checkpoint import Checkpoint, open_checkpoint
from .checks import Check
from .envelope import parse, verify_signature
from .keys import PublicKey
from .log import CERTIFICATE_TYPE, Link, Log, entry_digest, link_of
from .merkle import leaf_hash, prefix_roots


def verify_log(
    log: Log,
    checkpoints: Sequence[bytes] = (),
    trusted: Sequence[PublicKey] = (),
    known: bytes | None = None,
) -> list[Check]:
    """Check a log against the keys that the reader trusts and the checkpoints that he has.

    Parameters
    ----------
    log : Log
    checkpoints : sequence of bytes
        Checkpoints of this log from elsewhere, as from other readers, besides those in the log.
    trusted : sequence of PublicKey
    known : bytes, optional
        A checkpoint that the reader kept from before.

    Returns
    -------
    list of Check
    """
    roots = prefix_roots([leaf_hash(entry) for entry in log.entries])  # of every length
    signed = _entries(log.entries, trusted)
    checks = [signed, _chain(log.entries, signed)]
    opened: list[Checkpoint] = []
    for i, data in enumerate([*log.checkpoints, *checkpoints]):
        try:
            opened.append(open_checkpoint(data, trusted))
        except EvidenceError as error:
            checks.append(_failed("log checkpoints", error.layer, f"checkpoint {i}: {error}"))
            break
    else:
        reason = f"{len(opened)} signed by trusted keys"
        checks.append(Check("log checkpoints", "signature", "pass", reason))
        checks.append(_coverage(len(log), opened))
        checks.append(_history(roots, opened))
    checks.append(_known(roots, opened, known, trusted))
    return checks


def verify_entry(log: Log, entry: bytes) -> Check:
    """Check that a certificate's envelope is an entry of a log."""
    if entry in log.entries:
        place = log.entries.index(entry)
        return Check("certificate in the log", "chain", "pass", f"entry {place} of {len(log)}")
    return _failed(
        "certificate in the log",
        "chain",
        f"none of the log's {len(log)} entries is this certificate: it was dropped or cut off, or"
        " this is another log",
    )


def _entries(entries: Sequence[bytes], trusted: Sequence[PublicKey]) -> Check:
    for i, entry in enumerate(entries):
        try:
            verify_signature(parse(entry), CERTIFICATE_TYPE, trusted)
        except EvidenceError as error:
            return _failed("log entries", error.layer, f"entry {i}: {error}")
    return Check("log entries", "signature", "pass", f"{len(entries)} signed by trusted keys")


def _chain(entries: Sequence[bytes], signed: Check) -> Check:
    name = "log chain"
    if signed.verdict != "pass":  # nothing is read that nobody vouches for
        return Check(name, "chain", "not run", "an entry is not signed by a trusted key")
    links: list[Link] = []
    for i, entry in enumerate(entries):
        try:
            links.append(link_of(decode(parse(entry).payload, "its statement")))
        except EvidenceError as error:
            return _failed(name, error.layer, f"entry {i}: {error}")
    for i, link in enumerate(links):
        if link.sequence != i:
            return _failed(name, "chain", _misplaced(i, [one.sequence for one in links]))
        before = entry_digest(entries[i - 1]) if i else None
        if link.previous != before:
            return _failed(
                name,
                "chain",
                f"entry {i} follows {link.previous}, and the entry before it is {before}: one of"
                " them was replaced",
            )
    reason = f"{len(entries)} entries, each after the one it names"
    return Check(name, "chain", "pass", reason)


def _misplaced(i: int, numbers: Sequence[int]) -> str:
    """What is wrong at place ``i``, where an entry has another number for the first time."""
    number = numbers[i]
    if number < i:
        return f"entry {i} has number {number}, which comes before: entries are repeated"
    if i in numbers:
        return (
            f"entry {i} has number {number}, and number {i} comes later: entries are out of order"
        )
    missing = f"number {i} is" if number == i + 1 else f"numbers {i} to {number - 1} are"
    return f"entry {i} has number {number}: {missing} missing, entries were dropped"


def _coverage(entries: int, checkpoints: Sequence[Checkpoint]) -> Check:
    name = "log complete"
    if not checkpoints:
        if entries:
            return _failed(name, "chain", "no checkpoint says how many entries there are")
        return Check(name, "chain", "not run", "the log is empty and has no checkpoint")
    newest = _newest(checkpoints)
    if newest.size > entries:
        return _failed(
            name,
            "chain",
            f"the checkpoint of {newest.time} signs {newest.size} entries and the log has"
            f" {entries}: it was cut off at its end",
        )
    if newest.size < entries:
        reason = (
            f"the last {entries - newest.size} entries are in no checkpoint: if they were cut"
            " off, nothing would show it"
        )
        return Check(name, "chain", "warn", reason)
    return Check(name, "chain", "pass", f"{newest.size} entries, signed for at {newest.time}")


def _history(roots: Sequence[bytes], checkpoints: Sequence[Checkpoint]) -> Check:
    name = "log history"
    origins = sorted({one.origin for one in checkpoints})
    if len(origins) > 1:
        return _failed(name, "chain", f"checkpoints of different logs: {', '.join(origins)}")
    for one in checkpoints:
        if one.size < len(roots) and roots[one.size] != one.root:
            return _failed(name, "chain", _two_histories(one, "the log"))
    # Beyond the log's end only checkpoints of one size can be compared.
    by_size: dict[int, Checkpoint] = {}
    for one in checkpoints:
        other = by_size.setdefault(one.size, one)
        if other.root != one.root:
            return _failed(name, "chain", _two_histories(one, "another checkpoint"))
    grown = sorted(checkpoints, key=lambda one: (one.size, one.time))
    for before, after in pairwise(grown):
        if after.time < before.time:
            reason = (
                f"{after.size} entries at {after.time} and fewer, {before.size}, later, at"
                f" {before.time}: the log shrank"
            )
            return _failed(name, "chain", reason)
    reason = f"{len(checkpoints)} checkpoints, each the beginning of the next"
    return Check(name, "chain", "pass", reason)


def _known(
    roots: Sequence[bytes],
    checkpoints: Sequence[Checkpoint],
    known: bytes | None,
    trusted: Sequence[PublicKey],
) -> Check:
    name = "known checkpoint"
    if known is None:
        reason = (
            "give a checkpoint that you kept from before: without one, a log that its owner wrote"
            " anew or that ends too early cannot be told from the true one"
        )
        return Check(name, "chain", "not run", reason, matters=False)
    try:
        kept = open_checkpoint(known, trusted)
    except EvidenceError as error:
        return _failed(name, error.layer, str(error))
    strangers = sorted({one.origin for one in checkpoints} - {kept.origin})
    if strangers:
        reason = f"it is of the log {kept.origin!r}, and this one is {strangers[0]!r}"
        return _failed(name, "chain", reason)
    newest = _newest(checkpoints) if checkpoints else None
    if newest is not None and newest.size < kept.size:
        reason = (
            f"the log's checkpoint signs {newest.size} entries at {newest.time}, and the one you"
            f" kept signs {kept.size} at {kept.time}: an old checkpoint is replayed"
        )
        return _failed(name, "chain", reason)
    if len(roots) <= kept.size:
        reason = (
            f"you know of {kept.size} entries (at {kept.time}) and the log has {len(roots) - 1}: it"
            " was cut off at its end"
        )
        return _failed(name, "chain", reason)
    if roots[kept.size] != kept.root:
        return _failed(name, "chain", _two_histories(kept, "the log"))
    reason = f"the log continues the {kept.size} entries that you know of, at {kept.time}"
    return Check(name, "chain", "pass", reason)


def _newest(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    return max(checkpoints, key=lambda one: (one.size, one.time))


def _two_histories(one: Checkpoint, other: str) -> str:
    return (
        f"the checkpoint of {one.time} signs other {one.size} entries than {other} shows: the log"
        " was rebuilt, or different readers are shown different logs"
    )


def _failed(name: str, layer: str, reason: str) -> Check:
    return Check(name, layer, "fail", reason)  # type: ignore[arg-type]
