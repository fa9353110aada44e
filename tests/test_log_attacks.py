"""Attacks on the log: each is caught, and for its own reason."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs import ORIGIN, entry, failures, grown, minute, of
from svmemory.certificate.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from svmemory.certificate.checks import conclusion
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.log import Link, Log, entry_digest
from svmemory.certificate.logcheck import verify_entry, verify_log
from svmemory.certificate.merkle import leaf_hash, root
from svmemory.certificate.proof import ConsistencyProof, InclusionProof
from svmemory.errors import EvidenceError

SIZE = 8
OWNER, STRANGER = SecretKey.generate(), SecretKey.generate()
TRUSTED = [OWNER.public]
LOG = grown(OWNER, SIZE)
ENTRIES, CHECKPOINTS = LOG.entries, LOG.checkpoints


def caught(log: Log, known: bytes | None = None, *more: bytes) -> dict[str, tuple[str, str]]:
    checks = verify_log(log, more, TRUSTED, known)
    found = failures(checks)
    assert (conclusion(checks) == "unverified") == bool(found)
    return found


def test_the_true_log_raises_no_alarm() -> None:
    assert caught(LOG, CHECKPOINTS[4], CHECKPOINTS[2]) == {}


# --- dropped -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(SIZE - 1))
def test_a_dropped_entry(place: int) -> None:
    log = of(ENTRIES[:place] + ENTRIES[place + 1 :], CHECKPOINTS)
    layer, reason = caught(log)["log chain"]
    assert layer == "chain"
    assert f"number {place} is missing, entries were dropped" in reason


def test_several_dropped_entries_are_named() -> None:
    _, reason = caught(of(ENTRIES[:2] + ENTRIES[5:], CHECKPOINTS))["log chain"]
    assert "numbers 2 to 4 are missing, entries were dropped" in reason


def test_dropping_an_entry_with_all_later_checkpoints_is_still_seen() -> None:
    log = of(ENTRIES[:3] + ENTRIES[4:], CHECKPOINTS[:3])
    assert "number 3 is missing" in caught(log)["log chain"][1]


# --- reordered, repeated, replaced -------------------------------------------------------------


@pytest.mark.parametrize(("i", "j"), [*itertools.combinations(range(0, SIZE, 2), 2)])
def test_entries_out_of_order(i: int, j: int) -> None:
    entries = list(ENTRIES)
    entries[i], entries[j] = entries[j], entries[i]
    layer, reason = caught(of(entries, CHECKPOINTS))["log chain"]
    assert layer == "chain"
    assert f"number {i} comes later: entries are out of order" in reason


def test_a_repeated_entry() -> None:
    entries = [*ENTRIES[:4], ENTRIES[2], *ENTRIES[4:]]
    assert "entries are repeated" in caught(of(entries, CHECKPOINTS))["log chain"][1]


def test_an_entry_replaced_by_another_that_the_owner_signed() -> None:
    other = entry(OWNER, Link(3, entry_digest(ENTRIES[2])), "something else")
    found = caught(of([*ENTRIES[:3], other, *ENTRIES[4:]], CHECKPOINTS))
    assert "entry 4 follows" in found["log chain"][1]
    assert "was replaced" in found["log chain"][1]
    assert "signs other 4 entries" in found["log history"][1]


def test_the_last_entry_replaced_by_another_that_the_owner_signed() -> None:
    other = entry(OWNER, Link(7, entry_digest(ENTRIES[6])), "something else")
    found = caught(of([*ENTRIES[:7], other], CHECKPOINTS))
    assert set(found) == {"log history"}
    assert "signs other 8 entries" in found["log history"][1]


# --- cut off at the end ------------------------------------------------------------------------


@pytest.mark.parametrize("left", range(SIZE))
def test_truncated_at_the_tail(left: int) -> None:
    layer, reason = caught(of(ENTRIES[:left], CHECKPOINTS))["log complete"]
    assert layer == "chain"
    assert f"signs 8 entries and the log has {left}: it was cut off at its end" in reason


@pytest.mark.parametrize("left", range(SIZE))
def test_truncated_with_its_checkpoints_is_caught_by_a_checkpoint_that_was_kept(left: int) -> None:
    log = of(ENTRIES[:left], CHECKPOINTS[:left])
    assert caught(log) == {}  # a log cannot show its own end: hence checkpoints are kept
    layer, reason = caught(log, CHECKPOINTS[-1])["known checkpoint"]
    assert layer == "chain"
    wanted = "an old checkpoint is replayed" if left else "was cut off at its end"
    assert wanted in reason


def test_truncated_entries_under_checkpoints_that_are_all_dropped() -> None:
    found = caught(of(ENTRIES[:5]), CHECKPOINTS[-1])
    assert "no checkpoint says how many" in found["log complete"][1]
    assert "8 entries" in found["known checkpoint"][1]
    assert "cut off" in found["known checkpoint"][1]


def test_a_certificate_that_was_cut_off_is_missed() -> None:
    check = verify_entry(of(ENTRIES[:5], CHECKPOINTS[:5]), ENTRIES[6])
    assert (check.verdict, check.layer) == ("fail", "chain")
    assert "dropped or cut off" in check.reason


# --- rebuilt -----------------------------------------------------------------------------------


def test_the_whole_chain_rebuilt_under_another_key() -> None:
    found = caught(grown(STRANGER, SIZE))
    for name in ("log entries", "log checkpoints"):
        layer, reason = found[name]
        assert layer == "key"
        assert STRANGER.public.fingerprint in reason
        assert "not a trusted key" in reason


def test_rebuilt_under_another_key_that_calls_itself_the_owners() -> None:
    name = OWNER.public.fingerprint.encode()
    forged = [
        line.replace(STRANGER.public.fingerprint.encode(), name)
        for line in grown(STRANGER, SIZE).to_bytes().splitlines()[1:]
    ]
    found = caught(Log(forged))
    assert found["log entries"][0] == "signature"
    assert found["log checkpoints"][0] == "signature"


def test_entries_of_the_owner_under_checkpoints_of_another() -> None:
    rogue = sign_checkpoint(
        STRANGER, ORIGIN, 5, root([leaf_hash(e) for e in ENTRIES[:5]]), minute(9)
    )
    found = caught(of(ENTRIES[:5], [rogue]))
    assert set(found) == {"log checkpoints"}
    assert found["log checkpoints"][0] == "key"


def test_rebuilt_under_a_key_that_is_trusted_is_caught_by_a_checkpoint_that_was_kept() -> None:
    rebuilt = grown(OWNER, SIZE + 2, "another story")
    assert caught(rebuilt) == {}  # in order, and signed by the owner: it is the owner who lies
    layer, reason = caught(rebuilt, CHECKPOINTS[3])["known checkpoint"]
    assert layer == "chain"
    assert "signs other 4 entries than the log shows: the log was rebuilt" in reason


# --- replayed ----------------------------------------------------------------------------------


def test_an_old_checkpoint_replayed_over_an_old_state() -> None:
    old = grown(OWNER, 5)
    layer, reason = caught(old, CHECKPOINTS[-1])["known checkpoint"]
    assert layer == "chain"
    assert "signs 5 entries" in reason
    assert "the one you kept signs 8" in reason
    assert "an old checkpoint is replayed" in reason


def test_an_old_checkpoint_replayed_over_the_new_entries_is_warned_about() -> None:
    log = of(ENTRIES, CHECKPOINTS[:5])
    checks = {check.name: check for check in verify_log(log, trusted=TRUSTED)}
    assert checks["log complete"].verdict == "warn"
    assert "last 3 entries" in checks["log complete"].reason
    assert "an old checkpoint is replayed" in caught(log, CHECKPOINTS[-1])["known checkpoint"][1]


def test_an_old_checkpoint_with_a_new_date() -> None:
    later = sign_checkpoint(OWNER, ORIGIN, 5, LOG.root(5), minute(30))
    reason = caught(of(ENTRIES, [*CHECKPOINTS, later]))["log history"][1]
    assert "the log shrank" in reason


# --- two faces ---------------------------------------------------------------------------------


def split() -> tuple[Log, Log]:
    """Two logs of the owner that part after four entries."""
    return (
        grown(OWNER, SIZE, "what you see", grown(OWNER, 4)),
        grown(OWNER, SIZE, "what others see", grown(OWNER, 4)),
    )


def test_a_split_view_is_seen_when_readers_compare_checkpoints() -> None:
    mine, theirs = split()
    assert caught(mine) == {}
    assert caught(theirs) == {}
    layer, reason = caught(mine, None, theirs.checkpoints[-1])["log history"]
    assert layer == "chain"
    assert "different readers are shown different logs" in reason
    assert caught(mine, None, *theirs.checkpoints[:4]) == {}  # before they part


def test_a_split_view_beyond_the_end_of_the_log() -> None:
    mine, theirs = split()
    log = of(mine.entries[:4], mine.checkpoints[:4])
    found = caught(log, None, mine.checkpoints[-1], theirs.checkpoints[-1])
    assert "cut off at its end" in found["log complete"][1]
    assert "signs other 8 entries than another checkpoint" in found["log history"][1]


def test_checkpoints_of_another_log() -> None:
    other = sign_checkpoint(OWNER, "another.example", 5, LOG.root(5), minute(5))
    found = caught(LOG, other, other)
    assert "checkpoints of different logs" in found["log history"][1]
    assert "it is of the log 'another.example'" in found["known checkpoint"][1]


def test_a_known_checkpoint_by_somebody_else_is_not_believed() -> None:
    rogue = sign_checkpoint(STRANGER, ORIGIN, 5, LOG.root(5), minute(5))
    assert caught(LOG, rogue)["known checkpoint"][0] == "key"
    assert caught(LOG, b"{}")["known checkpoint"][0] == "encoding"


# --- bytes -------------------------------------------------------------------------------------


def test_every_flipped_byte_of_a_log_is_caught() -> None:
    data = grown(OWNER, 2).to_bytes()
    layers = set()
    for place in range(len(data)):
        bad = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            found = caught(Log.from_bytes(bad))
        except EvidenceError as error:
            layers.add(error.layer)
            continue
        assert found, f"byte {place} ({data[place : place + 1]!r})"
        layers |= {layer for layer, _ in found.values()}
    assert {"encoding", "signature", "key"} <= layers


@pytest.mark.parametrize("bit", [1, 2, 32, 128])
def test_every_flipped_byte_of_a_checkpoint_is_caught(bit: int) -> None:
    data, layers = CHECKPOINTS[-1], set()
    for place in range(len(data)):
        bad = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
        with pytest.raises(EvidenceError) as error:
            open_checkpoint(bad, TRUSTED)
        layers.add(error.value.layer)
    assert layers == ({"encoding"} if bit == 128 else {"encoding", "signature", "key"})


@pytest.mark.parametrize("bit", [1, 2, 32, 128])
def test_no_flipped_byte_of_a_proof_leaves_it_true(bit: int) -> None:
    before, after = (open_checkpoint(CHECKPOINTS[i], TRUSTED) for i in (4, 7))
    for data in (LOG.inclusion(5).to_bytes(), LOG.consistency(5).to_bytes()):
        for place in range(len(data)):
            bad = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
            assert not believed(bad, before, after), f"byte {place} of {data!r}"
        assert believed(data, before, after)


def believed(data: bytes, before: Checkpoint, after: Checkpoint) -> bool:
    """Whether a file passes for a proof about entry 5, or about these checkpoints."""
    for kind in (InclusionProof, ConsistencyProof):
        try:
            proof = kind.from_bytes(data)
        except EvidenceError:
            continue
        if isinstance(proof, InclusionProof):
            return proof.holds(ENTRIES[5], after)
        return proof.holds(before, after)
    return False


@given(st.binary(max_size=200))
def test_garbage_is_no_checkpoint_and_no_proof(data: bytes) -> None:
    for read in (
        lambda: open_checkpoint(data, TRUSTED),
        lambda: InclusionProof.from_bytes(data),
        lambda: ConsistencyProof.from_bytes(data),
    ):
        with pytest.raises(EvidenceError):
            read()


def test_every_dropped_line_and_swapped_pair_of_lines_of_a_log_is_seen() -> None:
    first, *lines = grown(OWNER, 4).to_bytes().splitlines()
    assert first == LOG.to_bytes().splitlines()[0]
    known = CHECKPOINTS[3]
    entries = [i for i in range(len(lines)) if i % 2 == 0]
    for i in entries:
        assert caught(Log(lines[:i] + lines[i + 1 :]), known), f"line {i} dropped"
    for i, j in itertools.combinations(entries, 2):
        swapped = list(lines)
        swapped[i], swapped[j] = lines[j], lines[i]
        assert caught(Log(swapped), known), f"lines {i} and {j} swapped"
