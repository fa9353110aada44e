"""``svmemory keys``, ``forget --certificate``, ``prune --certificate`` and ``verify``."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from certificates import statement_of
from commands import BUILD, Run, in_folder, refused
from svmemory import SupportVectorMemory
from svmemory.certificate.log import Log
from svmemory.cli import files

SIGNED = ["--certificate", "c.json", "--signer", "officer"]


@pytest.fixture
def run(tmp_path: Path, capsys: Any, monkeypatch: Any) -> Run:
    """The command in a folder with a memory of 30 rows, and a key."""
    call = in_folder(tmp_path, capsys, monkeypatch)
    assert call("build", "p.csv", *BUILD, "--gamma", "0.01", "-o", "m.svm").code == 0
    assert call("keys", "new", "officer").code == 0
    return call


def test_keys(run: Run) -> None:
    assert stat.S_IMODE(os.stat("officer").st_mode) == 0o600
    shown = run("keys", "show", "officer.pub", "--json").document
    made = run("keys", "new", "other", "--json").document
    assert made["public"] == "other.pub"
    assert made["fingerprint"] != shown["fingerprint"]
    refused(run("keys", "new", "officer"), "never overwritten")
    refused(run("keys", "show", "officer"), "no public key")


def test_forget_and_verify(run: Run) -> None:
    ran = run(
        "forget", "m.svm", "--subject", "s2", *SIGNED, "--issuer", "Clinic", "--log", "log",
        "--opening", "c.open", "--request", "R-17", "--ground", "erasure", "--authoriser", "DPO",
        "--received", "2025-12-31", "--json",
    )  # fmt: skip
    assert ran.code == 0
    assert ran.document["certificate"] == "c.json"
    assert len(ran.document["removed"]) == 3
    predicate = statement_of(Path("c.json").read_bytes())["predicate"]
    assert predicate["identity"]["issuer"] == "Clinic"
    assert predicate["state"]["after"]["digest"] == f"sha256:{ran.document['digest_after']}"
    assert [predicate["request"][name] for name in ("id", "ground", "authoriser")] == [
        "R-17",
        "erasure",
        "DPO",
    ]
    assert predicate["request"]["received"] == "2025-12-31T00:00:00Z"
    sinks = {one["sink"]: one["state"] for one in predicate["scope"]}
    assert sinks["memory files"] == "reached"
    assert stat.S_IMODE(os.stat("c.open").st_mode) == 0o600
    full = ["--memory", "m.svm", "--log", "log", "--opening", "c.open", "--trust", "officer.pub"]
    done = run("verify", "c.json", *full)
    assert done.code == 0
    assert done.out.splitlines()[-1] == "verified"
    assert "removed: 006, 007, 008" in done.out
    assert not [line for line in done.out.splitlines() if line.startswith("fail")]
    document = run("verify", "c.json", *full, "--json").document
    assert document["verdict"] == "verified"
    assert document["statement"]["predicate"] == predicate
    assert {"name", "layer", "verdict", "reason"} == set(document["checks"][0])


def test_exit_codes_of_verify(run: Run) -> None:
    assert run("forget", "m.svm", "--subject", "s2", *SIGNED, "--check", "later").code == 0
    pending = run("verify", "c.json", "--trust", "officer.pub")
    assert pending.code == 3
    assert pending.out.splitlines()[-1] == "pending: retained rows"
    assert run("verify", "c.json", "--trust", "officer.pub", "--memory", "m.svm").code == 0
    assert run("keys", "new", "stranger").code == 0
    failed = run("verify", "c.json", "--trust", "stranger.pub")
    assert failed.code == 1
    assert failed.out.splitlines()[-1].startswith("unverified: envelope")
    assert run("verify", "p.csv", "--trust", "officer.pub").code == 1
    refused(run("verify", "c.json"), "--trust")
    refused(run("verify", "nothing.json", "--trust", "officer.pub"), "no such file")
    refused(run("verify", "c.json", "--trust", "p.csv"), "no public key")
    refused(run("verify", "c.json", "--trust", "officer.pub", "--memory", "."), "not a file")
    refused(
        run("verify", "c.json", "--trust", "officer.pub", "--checkpoint", "c.json"), "needs --log"
    )


def test_a_chain_of_certificates(run: Run) -> None:
    run("forget", "m.svm", "--subject", "s2", *SIGNED, "--log", "log", "--checkpoint", "kept")
    assert Path("kept").read_bytes() == Log.from_bytes(Path("log").read_bytes()).checkpoints[0]
    ran = run("prune", "m.svm", "--certificate", "d.json", "--signer", "officer", "--log", "log")
    assert ran.code == 0
    second = statement_of(Path("d.json").read_bytes())
    assert second["predicate"]["identity"]["sequence"] == "1"
    assert second["predicateType"].endswith("prune/v1")
    trust = ["--trust", "officer.pub", "--log", "log", "--checkpoint", "kept"]
    found = run("verify", "d.json", *trust, "--memory", "m.svm", "--json")
    assert found.code == 0
    assert {one["verdict"] for one in found.document["checks"]} == {"pass"}
    Path("log").write_bytes(b"".join(Path("log").read_bytes().splitlines(True)[:-2]))
    cut = run("verify", "d.json", *trust, "--json").document
    failed = {one["name"] for one in cut["checks"] if one["verdict"] == "fail"}
    assert "certificate in the log" in failed


def test_with_another_output_the_old_file_is_said_not_to_be_reached(run: Run) -> None:
    run("forget", "m.svm", "--subject", "s2", *SIGNED, "-o", "n.svm")
    scope = statement_of(Path("c.json").read_bytes())["predicate"]["scope"]
    assert {one["sink"]: one["state"] for one in scope}["memory files"] == "not reached"
    assert len(SupportVectorMemory.load("m.svm")) == 30


def test_options_that_do_not_fit(run: Run) -> None:
    forget = ["forget", "m.svm", "--subject", "s2"]
    before = Path("m.svm").read_bytes()
    refused(run(*forget, "--certificate", "c.json"), "needs --signer")
    refused(run(*forget, "--signer", "officer"), "need --certificate")
    refused(run(*forget, "--check", "later"), "need --certificate")
    refused(run(*forget, *SIGNED, "--opening", "c.json"), "different files")
    refused(run(*forget, "--certificate", "m.svm", "--signer", "officer"), "different files")
    refused(run(*forget, "--certificate", "no/c.json", "--signer", "officer"), "folder")
    refused(run(*forget, *SIGNED, "--checkpoint", "kept"), "needs --log")
    for time, message in (
        ("yesterday", "no time with a zone"),
        ("2025-12-31T10:00:00", "no time with a zone"),
        ("2999-01-01", "later than now"),
    ):
        refused(run(*forget, *SIGNED, "--received", time), message)
    Path("c.json").write_text("mine")
    refused(run(*forget, *SIGNED), "--force")
    Path("c.json").unlink()
    Path("log").write_text("not a log")
    refused(run(*forget, *SIGNED, "--log", "log"), "no svmemory log")
    refused(run(*forget, "--certificate", "c.json", "--signer", "p.csv"), "read by others")
    assert Path("m.svm").read_bytes() == before
    assert not Path("c.json").exists()


def test_nothing_removed_writes_no_certificate(run: Run) -> None:
    ran = run("forget", "m.svm", "--subject", "zz", "--missing", "ignore", *SIGNED, "--log", "log")
    assert ran.code == 0
    assert "nothing to certify" in ran.err
    assert not Path("c.json").exists()
    assert not Path("log").exists()
    refused(run("forget", "m.svm", "--subject", "zz", *SIGNED, "--log", "log"), "zz")
    refused(run("forget", "m.svm", "--subject", "s2", *SIGNED, "--log", "no/log"), "no/log")
    assert sorted(path.name for path in Path().iterdir()) == [
        "m.svm",
        "officer",
        "officer.pub",
        "p.csv",
    ]


def test_the_public_half_does_not_sign(run: Run) -> None:
    public = ["--certificate", "c.json", "--signer"]
    ran = run("forget", "m.svm", "--subject", "s2", *public, "officer.pub")
    refused(ran, "is the public half of a key")
    assert "give the secret key, officer" in ran.err
    assert "chmod" not in ran.err
    Path("officer.pub").rename("auditor.pem")
    os.chmod("auditor.pem", 0o600)
    refused(run("forget", "m.svm", "--subject", "s2", *public, "auditor.pem"), "public half")


@pytest.mark.parametrize("option", ["issuer", "request", "ground", "authoriser"])
def test_texts_that_are_empty_or_would_rewrite_a_terminal(run: Run, option: str) -> None:
    before = Path("m.svm").read_bytes()
    for text, message in (
        ("", f"the {option} is empty"),
        ("  ", f"the {option} is empty"),
        ("evil\x1b[2J\rverified", "control character U+001B"),
        ("ward \u202e7102", "control character U+202E"),
    ):
        ran = run("forget", "m.svm", "--subject", "s2", *SIGNED, f"--{option}", text)
        refused(ran, message)
    assert Path("m.svm").read_bytes() == before


def test_anothers_log_and_a_broken_log_are_refused_before_anything_is_deleted(run: Run) -> None:
    forget = ["forget", "m.svm", "--certificate", "c.json", "--force", "--log", "log"]
    assert run(*forget, "--subject", "s1", "--signer", "officer").code == 0
    assert run(*forget, "--subject", "s2", "--signer", "officer").code == 0
    Path("c.json").unlink()
    assert run("keys", "new", "stranger").code == 0
    before, log = Path("m.svm").read_bytes(), Path("log").read_bytes()
    owner = run("keys", "show", "officer.pub", "--json").document["fingerprint"]
    ran = run(*forget, "--subject", "s3", "--signer", "stranger")
    refused(ran, "log: this log belongs to another key")
    assert owner in ran.err
    first, *lines = log.splitlines(True)
    Path("log").write_bytes(b"".join([first, *lines[2:]]))
    refused(run(*forget, "--subject", "s3", "--signer", "officer"), "number 0 is missing")
    assert Path("m.svm").read_bytes() == before
    assert not Path("c.json").exists()
    Path("log").write_bytes(log)  # the control, and the way out
    assert run(*forget, "--subject", "s3", "--signer", "officer").code == 0
    forget[-1] = "strangers.log"
    assert run(*forget, "--subject", "s4", "--signer", "stranger").code == 0


def test_evidence_that_a_kill_leaves_can_be_recognised(run: Run, monkeypatch: Any) -> None:
    seen: list[str] = []

    def killed(*_: object) -> None:
        seen.extend(sorted(path.name for path in Path().glob(".*")))
        raise KeyboardInterrupt

    monkeypatch.setattr(files.SupportVectorMemory, "save", killed)
    run("forget", "m.svm", "--subject", "s2", *SIGNED, "--opening", "c.open")
    assert [name.rsplit(".", 2)[0] for name in seen] == [
        ".svmemory-evidence.c.json",
        ".svmemory-evidence.c.open",
    ]
    assert not [*Path().glob(".svmemory*")]  # an interrupt still cleans up


def test_a_memory_that_cannot_be_saved_leaves_no_evidence(run: Run, monkeypatch: Any) -> None:
    """No certificate of a deletion that did not last, under any name."""
    before = {path.name: path.read_bytes() for path in Path().iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.SupportVectorMemory, "save", full)
    ran = run("forget", "m.svm", "--subject", "s2", *SIGNED, "--opening", "o", "--log", "log")
    refused(ran, "No space")
    after = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert after.pop("log", b"") == b""  # locked, never written
    assert after == before


def test_a_log_that_cannot_be_written_is_told(run: Run, monkeypatch: Any) -> None:
    """The rows are gone and the certificate is there: the message says what to do."""
    from svmemory.certificate import logfile

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logfile.file, "write", full)
    monkeypatch.setattr(
        files.SupportVectorMemory, "save", lambda self, path: Path(path).write_bytes(b"saved")
    )
    ran = run("forget", "m.svm", "--subject", "s2", *SIGNED, "--log", "log")
    refused(ran, "append the certificate")
    assert Path("m.svm").read_bytes() == b"saved"
    assert json.loads(Path("c.json").read_bytes())["payloadType"].startswith("application/")


def test_a_terminal_is_not_rewritten_by_what_is_shown(run: Run) -> None:
    """Ids are data and may hold anything; they are shown escaped."""
    evil = "e\x1b[2J\u202e\x9bv"
    memory = SupportVectorMemory.load("m.svm")
    memory.add(memory.keys[:1] + 0.5, [[1.0]], ids=[evil])
    memory.save("m.svm")
    ran = run("forget", "m.svm", "--id", evil, *SIGNED, "--opening", "c.open", "--json")
    assert ran.code == 0
    files = ["--memory", "m.svm", "--opening", "c.open"]
    shown = run("verify", "c.json", "--trust", "officer.pub", *files).out
    assert r"removed: e\u001b[2J\u202e\u009bv" in shown
    assert not {"\x1b", "\u202e", "\x9b"} & set(shown)


def test_scope_and_limits_are_shown(run: Run) -> None:
    run("forget", "m.svm", "--subject", "s2", *SIGNED, "-o", "n.svm")
    shown = run("verify", "c.json", "--trust", "officer.pub", "--memory", "n.svm").out.splitlines()
    assert "  reached:     live state, log" in shown
    assert "  not reached: memory files" in shown
    assert "  not ours:    backups, upstream" in shown
    limits = [line.removeprefix("  limit:       ") for line in shown if "  limit:" in line]
    assert limits == statement_of(Path("c.json").read_bytes())["predicate"]["limits"]
    assert len(limits) == 6
