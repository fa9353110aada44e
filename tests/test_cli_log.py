"""The log on the command line: check it, keep checkpoints, send proofs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import Run, in_folder, refused
from logs import ORIGIN, entry, grown
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.log import Log

KEY = SecretKey.generate()
LOG = grown(KEY, 5)
TRUST = ("--trust", "key.pub")


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    """In a folder with a log of five, its second certificate, and a checkpoint of three."""
    run = in_folder(tmp_path, capsys, monkeypatch)
    KEY.save("key")
    Path("log").write_bytes(LOG.to_bytes())
    Path("second.json").write_bytes(LOG.entries[1])
    Path("kept.json").write_bytes(LOG.checkpoints[2])
    return run


def test_check(run: Run) -> None:
    ran = run("log", "check", "log", *TRUST, "--checkpoint", "kept.json")
    assert ran.code == 0, ran.out + ran.err
    assert "pass     chain       known checkpoint: the log continues the 3 entries" in ran.out
    assert ran.out.endswith("verified\n")
    document = run("log", "check", "log", *TRUST, "--json").document
    assert document["verdict"] == "verified"
    assert "conclusion" not in document
    assert {one["verdict"] for one in document["checks"]} == {"pass", "not run"}


def test_check_finds_what_is_wrong(run: Run) -> None:
    Path("log").write_bytes(Log([*LOG.entries[:2], *LOG.checkpoints[:2]]).to_bytes())
    ran = run("log", "check", "log", *TRUST, "--checkpoint", "kept.json")
    assert ran.code == 1
    assert "an old checkpoint is replayed" in ran.out
    assert ran.out.endswith("unverified\n")
    Path("log").write_bytes(Log().to_bytes())
    assert run("log", "check", "log", *TRUST).code == 3
    Path("log").write_bytes(b"{}")
    ran = run("log", "check", "log", *TRUST)
    assert ran.code == 1
    assert "fail     encoding    log file: it is no svmemory log" in ran.out


def test_check_refuses_what_it_cannot_read(run: Run) -> None:
    refused(run("log", "check", "nowhere", *TRUST), "nowhere: no such file")
    refused(run("log", "check", ".", *TRUST), ".: not a file")
    refused(run("log", "check", "log", "--trust", "key"), "key is no public key")


def test_a_checkpoint_is_kept_and_used(run: Run) -> None:
    assert run("log", "checkpoint", "log", "-o", "new.json").code == 0
    assert Path("new.json").read_bytes() == LOG.checkpoints[-1]
    refused(run("log", "checkpoint", "log", "-o", "new.json"), "new.json exists")
    assert run("log", "checkpoint", "log", "-o", "new.json", "--force").code == 0
    assert run("log", "check", "log", *TRUST, "--checkpoint", "new.json").code == 0
    Path("log").write_bytes(Log(LOG.entries).to_bytes())
    refused(run("log", "checkpoint", "log", "-o", "other.json"), "has no checkpoint")
    refused(run("log", "prove", "log", "--since", "kept.json", "-o", "p"), "has no checkpoint")


def test_proofs_are_made_and_checked_without_the_log(run: Run) -> None:
    made = run("log", "prove", "log", "--certificate", "second.json", "-o", "in.proof")
    assert made.code == 0, made.err
    assert run("log", "prove", "log", "--since", "kept.json", "-o", "grown.proof").code == 0
    run("log", "checkpoint", "log", "-o", "new.json")
    Path("log").unlink()
    new = ("--checkpoint", "new.json", *TRUST)
    ran = run("log", "proven", "in.proof", "--certificate", "second.json", *new)
    assert ran.code == 0
    assert ran.out == f"proved: second.json is in the log '{ORIGIN}' of 2026-01-31T12:05:00Z\n"
    ran = run("log", "proven", "grown.proof", "--since", "kept.json", *new)
    assert ran.code == 0
    assert "continues that of 2026-01-31T12:03:00Z" in ran.out
    Path("second.json").write_bytes(LOG.entries[2])
    ran = run("log", "proven", "in.proof", "--certificate", "second.json", *new)
    assert ran.code == 1
    assert ran.out.startswith("NOT proved: ")
    mixed = run("log", "proven", "in.proof", "--since", "kept.json", *new)
    refused(mixed, "it is no consistency proof")


def test_a_proof_is_about_the_newest_checkpoint(run: Run) -> None:
    log = Log(LOG.lines)
    log.append(entry(KEY, log.head()))
    Path("log").write_bytes(log.to_bytes())
    assert run("log", "prove", "log", "--certificate", "second.json", "-o", "in.proof").code == 0
    assert json.loads(Path("in.proof").read_bytes())["size"] == "5"
    Path("sixth.json").write_bytes(log.entries[5])
    refused(
        run("log", "prove", "log", "--certificate", "sixth.json", "-o", "x"),
        "sixth.json is not in the log of its newest checkpoint",
    )


def test_bad_requests(run: Run) -> None:
    prove = ("log", "prove", "log", "-o", "x")
    refused(run(*prove), "either --certificate or --since")
    refused(run(*prove, "--certificate", "second.json", "--since", "kept.json"), "either")
    refused(run(*prove, "--certificate", "none.json"), "none.json: no such file")
    refused(run(*prove, "--since", "second.json"), "checkpoint")
    Path("short").write_bytes(Log([*LOG.entries[:1], LOG.checkpoints[0]]).to_bytes())
    refused(run("log", "prove", "short", "-o", "x", "--since", "kept.json"), "no 3 leaves among 1")
    Path("cut").write_bytes(Log([*LOG.entries[:1], LOG.checkpoints[4]]).to_bytes())
    refused(run("log", "prove", "cut", "-o", "x", "--since", "kept.json"), "has 1 entries, not 5")
    assert not Path("x").exists()
