"""The log of certificates: what goes in comes out, in files too, and nothing else gets in."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs import ORIGIN, entry, grown, minute, verdicts
from svmemory import file as memory_file
from svmemory.certificate import logfile
from svmemory.certificate.canonical import encode
from svmemory.certificate.checkpoint import (
    CHECKPOINT_TYPE,
    Checkpoint,
    open_checkpoint,
    sign_checkpoint,
)
from svmemory.certificate.checks import conclusion
from svmemory.certificate.envelope import seal
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.log import CERTIFICATE_TYPE, FIRST_LINE, Link, Log, entry_digest
from svmemory.certificate.logcheck import verify_entry, verify_log
from svmemory.certificate.logfile import append_to_file, open_log, read_log
from svmemory.certificate.merkle import leaf_hash, root
from svmemory.certificate.proof import ConsistencyProof, InclusionProof
from svmemory.errors import EvidenceError

KEY = SecretKey.generate()
TRUSTED = [KEY.public]
TIME = minute(0)


@pytest.fixture(scope="module")
def log() -> Log:
    return grown(KEY, 7)


# --- in memory ---------------------------------------------------------------------------------


def test_a_log_in_order_passes_every_check(log: Log) -> None:
    kept = grown(KEY, 3).checkpoints[-1]
    assert log.entries[:3] == grown(KEY, 3).entries  # Ed25519 gives one signature a message
    checks = verify_log(log, trusted=TRUSTED, known=kept)
    assert set(verdicts(checks).values()) == {"pass"}, checks
    assert conclusion(checks) == "verified"
    assert "continues the 3 entries" in checks[-1].reason


def test_without_a_kept_checkpoint_the_log_says_what_that_leaves_open(log: Log) -> None:
    checks = verify_log(log, trusted=TRUSTED)
    assert verdicts(checks)["known checkpoint"] == "not run"
    assert "cannot be told from the true one" in checks[-1].reason
    assert conclusion(checks) == "verified"


def test_an_empty_log_proves_nothing() -> None:
    assert conclusion(verify_log(Log(), trusted=TRUSTED)) == "pending"


def test_the_head_is_what_the_next_certificate_must_carry(log: Log) -> None:
    assert Log().head() == Link(0, None)
    assert log.head() == Link(7, entry_digest(log.entries[-1]))


@pytest.mark.parametrize(
    "link", [Link(6, None), Link(8, None), Link(7, None), Link(7, "sha256:" + 64 * "0")]
)
def test_a_certificate_that_does_not_follow_is_refused(log: Log, link: Link) -> None:
    before = log.to_bytes()
    with pytest.raises(EvidenceError, match="the log goes on with number 7") as caught:
        log.append(entry(KEY, link))
    assert caught.value.layer == "chain"
    assert log.to_bytes() == before


def test_only_certificates_become_entries(log: Log) -> None:
    before = log.to_bytes()
    for line, why in [
        (log.checkpoints[0], "is no certificate"),
        (seal("text/plain", {}, KEY), "is no certificate"),
        (b"{}", "must have the fields"),
        (b"", "is not JSON"),
        (seal(CERTIFICATE_TYPE, {"predicate": {}}, KEY), "has no predicate.identity"),
        (seal(CERTIFICATE_TYPE, {"predicate": []}, KEY), "has no predicate.identity"),
    ]:
        with pytest.raises(EvidenceError, match=why):
            log.append(line)
    for sequence in ("-1", "07", "7.0", 7, "x", "", None):
        identity = {"previous": None, "sequence": sequence}
        with pytest.raises(EvidenceError, match="sequence must be a whole number"):
            log.append(seal(CERTIFICATE_TYPE, {"predicate": {"identity": identity}}, KEY))
    assert log.to_bytes() == before


def test_a_certificate_is_found_in_its_log_and_in_no_other(log: Log) -> None:
    assert verify_entry(log, log.entries[4]).verdict == "pass"
    other = grown(SecretKey.generate(), 7)
    check = verify_entry(log, other.entries[4])
    assert (check.verdict, check.layer) == ("fail", "chain")


def test_entries_after_the_last_checkpoint_are_warned_about() -> None:
    log = grown(KEY, 3)
    log.append(entry(KEY, log.head()))
    check = next(c for c in verify_log(log, trusted=TRUSTED) if c.name == "log complete")
    assert check.verdict == "warn"
    assert "last 1 entries are in no checkpoint" in check.reason


def test_entries_without_any_checkpoint_fail() -> None:
    log = Log(grown(KEY, 3).entries)
    check = next(c for c in verify_log(log, trusted=TRUSTED) if c.name == "log complete")
    assert (check.verdict, check.layer) == ("fail", "chain")


# --- checkpoints -------------------------------------------------------------------------------


def test_a_checkpoint_says_what_was_signed(log: Log) -> None:
    found = open_checkpoint(log.checkpoints[4], TRUSTED)
    top = root([leaf_hash(one) for one in log.entries[:5]])
    assert found == Checkpoint(ORIGIN, 5, top, minute(5), KEY.public.fingerprint)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", "05"),
        ("size", "-1"),
        ("size", 5),
        ("size", "9" * 40),
        ("root", "sha256:" + "0" * 63),
        ("root", "sha256:" + "A" * 64),
        ("root", None),
        ("time", "2026-01-31 12:00:00"),
        ("time", "2026-02-31T12:00:00Z"),
        ("origin", ""),
        ("origin", "two\nlines"),
        ("origin", "x" * 501),
        ("version", "2"),
        ("more", "1"),
    ],
)
def test_a_checkpoint_with_a_strange_field_is_refused_even_when_signed(
    field: str, value: object
) -> None:
    good = {
        "origin": ORIGIN,
        "root": "sha256:" + 64 * "0",
        "size": "5",
        "time": TIME,
        "version": "1",
    }
    assert open_checkpoint(seal(CHECKPOINT_TYPE, good, KEY), TRUSTED).size == 5
    with pytest.raises(EvidenceError, match=field) as caught:
        open_checkpoint(seal(CHECKPOINT_TYPE, {**good, field: value}, KEY), TRUSTED)
    assert caught.value.layer == "encoding"
    del good["size"]
    with pytest.raises(EvidenceError, match="size is missing"):
        open_checkpoint(seal(CHECKPOINT_TYPE, good, KEY), TRUSTED)


def test_what_could_not_be_read_back_is_not_signed() -> None:
    with pytest.raises(EvidenceError, match="time"):
        sign_checkpoint(KEY, ORIGIN, 1, bytes(32), "now")
    with pytest.raises(EvidenceError, match="size"):
        sign_checkpoint(KEY, ORIGIN, -1, bytes(32), TIME)


# --- proofs ------------------------------------------------------------------------------------


def test_proofs_need_no_log(log: Log) -> None:
    seven, three = (open_checkpoint(log.checkpoints[i], TRUSTED) for i in (6, 2))
    for i, one in enumerate(log.entries):
        proof = InclusionProof.from_bytes(log.inclusion(i).to_bytes())
        assert proof.holds(one, seven)
        assert not proof.holds(one, three)
        assert not proof.holds(log.entries[i - 1], seven)
        if i < 3:
            assert log.inclusion(i, 3).holds(one, three)
    grew = ConsistencyProof.from_bytes(log.consistency(3).to_bytes())
    assert grew.holds(three, seven)
    assert not grew.holds(seven, three)
    five = open_checkpoint(log.checkpoints[4], TRUSTED)
    assert not grew.holds(five, seven)
    assert log.consistency(3, 5).holds(three, five)


def test_a_consistency_proof_is_about_one_log(log: Log) -> None:
    seven, three = (open_checkpoint(log.checkpoints[i], TRUSTED) for i in (6, 2))
    other = Checkpoint("another", three.size, three.root, three.time, three.signer)
    assert not log.consistency(3).holds(other, seven)


def test_a_proof_file_is_read_strictly(log: Log) -> None:
    data = log.inclusion(2).to_bytes()
    assert InclusionProof.from_bytes(data).to_bytes() == data
    for bad, why in [
        (data.replace(b'"2"', b'"02"'), "whole number"),
        (data.replace(b'"2"', b"2"), "whole number"),
        (data.replace(b"inclusion", b"consistency"), "no inclusion proof"),
        (data.replace(b'"index"', b'"place"'), "index is missing"),
        (data + b"\n", "canonical"),
        (data[:-1], "JSON"),
        (b"x" * 100_000, "larger"),
        (encode({}), "no inclusion proof"),
        (encode({"proof": "inclusion"}), "missing"),
    ]:
        with pytest.raises(EvidenceError, match=why) as caught:
            InclusionProof.from_bytes(bad)
        assert caught.value.layer == "encoding"


# --- the file ----------------------------------------------------------------------------------


def test_a_log_survives_its_file(log: Log) -> None:
    data = log.to_bytes()
    again = Log.from_bytes(data)
    assert again.to_bytes() == data
    assert (again.entries, again.checkpoints) == (log.entries, log.checkpoints)
    assert Log(again.lines).to_bytes() == data
    assert all(line == encode_again(line) for line in data.splitlines())


def encode_again(line: bytes) -> bytes:
    return encode(json.loads(line))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"", "no svmemory log"),
        (lambda data: b"\n", "no svmemory log"),
        (lambda data: data[1:], "no svmemory log"),
        (lambda data: data.replace(b'"1"', b'"2"', 1), "no svmemory log"),
        (lambda data: data[:-1], "middle of a line"),
        (lambda data: FIRST_LINE, "middle of a line"),
        (lambda data: data + b"{", "middle of a line"),
        (lambda data: data + b"\n", "line 16 of the log"),
        (lambda data: data + b"{}\n", "line 16 of the log: the envelope must have the fields"),
        (lambda data: data + seal("x/y", {}, KEY) + b"\n", "line 16 of the log: payload type"),
        (lambda data: data.replace(b"\n", b"\r\n"), "no svmemory log"),
        (lambda data: data[:-1] + b" \n", "line 15 of the log"),
    ],
)
def test_a_damaged_file_is_refused(log: Log, change: object, why: str) -> None:
    with pytest.raises(EvidenceError, match=why) as caught:
        Log.from_bytes(change(log.to_bytes()))  # type: ignore[operator]
    assert caught.value.layer == "encoding"


@given(st.binary(max_size=300), st.booleans())
def test_garbage_is_one_clear_error(data: bytes, headed: bool) -> None:
    garbage = FIRST_LINE + b"\n" + data if headed else data
    try:
        log = Log.from_bytes(garbage)
    except EvidenceError as error:
        outcome = error.layer
    else:
        outcome = "a log" if log.to_bytes() == garbage else "something else"
    assert outcome in ("encoding", "a log")


def test_a_file_grows_by_an_entry_and_its_checkpoint(tmp_path: Path) -> None:
    path, log = tmp_path / "certificates.log", Log()
    for i in range(4):
        one = entry(KEY, log.head(), f"row {i}")
        before = path.read_bytes() if i else b""
        assert append_to_file(path, one, KEY, ORIGIN, minute(i)) == i
        assert path.read_bytes().startswith(before)
        log = read_log(path)
        assert (log.entries[-1], len(log), len(log.checkpoints)) == (one, i + 1, i + 1)
    assert conclusion(verify_log(log, trusted=TRUSTED)) == "verified"
    assert os.listdir(tmp_path) == ["certificates.log"]


def test_an_entry_that_does_not_follow_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append_to_file(path, entry(KEY, Link(0, None)), KEY, ORIGIN, TIME)
    before = path.read_bytes()
    with pytest.raises(EvidenceError, match="goes on with number 1"):
        append_to_file(path, entry(KEY, Link(0, None)), KEY, ORIGIN, TIME)
    with pytest.raises(EvidenceError, match="time"):  # the entry is good, its checkpoint is not
        append_to_file(path, entry(KEY, read_log(path).head()), KEY, ORIGIN, "noon")
    assert path.read_bytes() == before


def test_a_file_that_is_no_log_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(b"Dear Sir")
    with pytest.raises(EvidenceError, match=r"letter\.txt: it is no svmemory log"):
        append_to_file(path, entry(KEY, Link(0, None)), KEY, ORIGIN, TIME)
    with pytest.raises(EvidenceError, match=r"letter\.txt"):
        read_log(path)
    assert path.read_bytes() == b"Dear Sir"


@pytest.mark.parametrize("place", ["mkstemp", "fsync", "replace", "write"])
def test_a_failure_at_any_place_leaves_the_log_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    path = tmp_path / "log"
    append_to_file(path, entry(KEY, Link(0, None)), KEY, ORIGIN, TIME)
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if place == "mkstemp":
            patch.setattr(memory_file.tempfile, "mkstemp", fail)
        elif place == "write":
            patch.setattr(logfile.file, "write", fail)
        else:
            patch.setattr(os, place, fail)
        with pytest.raises(OSError, match="No space left"):
            append_to_file(path, entry(KEY, read_log(path).head()), KEY, ORIGIN, TIME)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["log"]
    append_to_file(path, entry(KEY, read_log(path).head()), KEY, ORIGIN, TIME)
    assert len(read_log(path)) == 2


def write_some(path: str, name: str, count: int, key_path: str) -> None:
    key = SecretKey.load(key_path)
    for i in range(count):
        with open_log(path) as log:
            log.append(entry(key, log.head(), f"{name} {i}"))
            log.checkpoint(key, ORIGIN, TIME)


@pytest.mark.skipif(logfile.fcntl is None, reason="no flock on this system")
def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    KEY.save(tmp_path / "key")
    path, count = tmp_path / "log", 12
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=write_some, args=(str(path), name, count, str(tmp_path / "key")))
        for name in ("one", "two")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    log = read_log(path)
    assert len(log) == 2 * count
    assert conclusion(verify_log(log, trusted=TRUSTED)) == "verified"


def write_for_ever(path: str, key_path: str, told: Any) -> None:
    key = SecretKey.load(key_path)
    while True:
        one = entry(key, read_log(path).head())
        told.send(append_to_file(path, one, key, ORIGIN, TIME))


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_killed_writer_leaves_the_log_before_or_after(tmp_path: Path) -> None:
    KEY.save(tmp_path / "key")
    path = tmp_path / "log"
    append_to_file(path, entry(KEY, Link(0, None)), KEY, ORIGIN, TIME)
    context = multiprocessing.get_context("spawn")
    for wait in np.random.default_rng(0).uniform(0.0, 0.05, 4):
        heard, told = context.Pipe(duplex=False)
        writer = context.Process(
            target=write_for_ever, args=(str(path), str(tmp_path / "key"), told)
        )
        writer.start()
        assert heard.poll(60)
        last = heard.recv()
        sleep(wait)
        writer.kill()
        writer.join(60)
        while heard.poll():
            last = heard.recv()
        log = read_log(path)
        assert len(log) - 1 in (last, last + 1)  # what was told of is there
        assert conclusion(verify_log(log, trusted=TRUSTED)) == "verified"
    append_to_file(path, entry(KEY, read_log(path).head()), KEY, ORIGIN, TIME)


def test_a_link_to_a_log_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "log")
    append_to_file(tmp_path / "link", entry(KEY, Link(0, None)), KEY, ORIGIN, TIME)
    assert (tmp_path / "link").is_symlink()
    assert len(read_log(tmp_path / "log")) == 1


def fail_in_the_middle(path: Path) -> None:
    with open_log(path) as log:
        log.append(entry(KEY, log.head()))
        raise RuntimeError("in the middle")


def test_a_block_that_raises_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with pytest.raises(RuntimeError, match="in the middle"):
        fail_in_the_middle(path)
    assert not path.exists()
    path.write_bytes(FIRST_LINE + b"\n")
    with pytest.raises(RuntimeError, match="in the middle"):
        fail_in_the_middle(path)
    assert len(read_log(path)) == 0


def test_a_log_to_which_nothing_is_added_is_not_begun_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_log(path):
        pass
    assert os.listdir(tmp_path) == []
    append_to_file(path, entry(KEY, Link(0, None)), KEY, ORIGIN, TIME)
    before = path.stat()
    with open_log(path, KEY.public) as log:
        assert len(log) == 1
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


# --- whose log it is ---------------------------------------------------------------------------


def broken(how: str) -> tuple[bytes, str]:
    """A log of four that somebody has broken, and how the refusal names that."""
    first, *lines = grown(KEY, 4).to_bytes().splitlines(True)
    pairs = [b"".join(lines[i : i + 2]) for i in range(0, 8, 2)]  # an entry and its checkpoint
    kept = {
        "dropped": (pairs[1:], "entry 0 has number 1: number 0 is missing"),
        "dropped inside": ([pairs[0], *pairs[2:]], "entry 1 has number 2: number 1 is missing"),
        "swapped": ([pairs[1], pairs[0], *pairs[2:]], "entry 0 has number 1, and number 0 comes"),
        "repeated": ([*pairs, pairs[0]], "entry 4 has number 0, which comes before"),
        "without checkpoints": (lines[::2], "no checkpoint says how many"),
        "without its end": ([*lines[:-4], *lines[-3::2]], "signs 4 entries and the log has 2"),
        "cut in a line": ([*pairs[:-1], pairs[-1][:-9]], "cut in the middle of a line"),
        "no log": ([b"\n"], "line 2 of the log"),
    }[how]
    return first + b"".join(kept[0]), kept[1]


BROKEN = (
    "dropped", "dropped inside", "swapped", "repeated", "without checkpoints", "without its end",
    "cut in a line", "no log",
)  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_nothing_is_appended_to_a_broken_log(tmp_path: Path, how: str) -> None:
    path = tmp_path / "log"
    data, why = broken(how)
    path.write_bytes(data)
    with pytest.raises(EvidenceError, match=why) as caught:
        append_to_file(path, entry(KEY, Link(4, None)), KEY, ORIGIN, TIME)
    assert str(caught.value).startswith(str(path))
    assert "give another log" in str(caught.value)
    assert path.read_bytes() == data


@pytest.mark.parametrize("what", ["entry 0", "checkpoint 4"])
def test_a_log_belongs_to_the_key_that_signed_its_entries(tmp_path: Path, what: str) -> None:
    """Also where only the last line is of another key."""
    path, other = tmp_path / "log", SecretKey.generate()
    log = grown(other, 4)
    if what != "entry 0":
        log = grown(KEY, 4)
        log.checkpoint(other, ORIGIN, minute(9))
    path.write_bytes(log.to_bytes())
    with pytest.raises(EvidenceError, match=f"another key: its {what} is signed by") as caught:
        append_to_file(path, entry(KEY, log.head()), KEY, ORIGIN, minute(10))
    assert caught.value.layer == "key"
    for said in (other.public.fingerprint, KEY.public.fingerprint, "give another log"):
        assert said in str(caught.value)
    assert path.read_bytes() == log.to_bytes()


def test_an_entry_that_only_names_the_signers_key_is_not_the_signers(tmp_path: Path) -> None:
    path, log = tmp_path / "log", grown(KEY, 3)
    forged = json.loads(log.entries[2])
    forged["signatures"][0]["sig"] = json.loads(log.entries[1])["signatures"][0]["sig"]
    path.write_bytes(Log([*log.lines[:4], encode(forged), log.lines[5]]).to_bytes())
    with pytest.raises(EvidenceError, match="entry 2: the signature does not verify") as caught:
        append_to_file(path, entry(KEY, read_log(path).head()), KEY, ORIGIN, minute(9))
    assert caught.value.layer == "signature"
