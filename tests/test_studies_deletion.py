"""The study of deletion: its verdicts follow from the audits, and what is absent is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svmemory.studies import deletion
from svmemory.studies.result import Study, Verdict
from svmemory.studies.settings import Settings


def found(**changes: Any) -> dict[str, Any]:
    """What an audit without a fault reports."""
    whole = {"trials": 9, "completed": 9, "digests_equal": 9, "partitions_equal": 9, "refits": 0}
    fast = {"median": 1e-16, "worst": 1e-15}
    return {**whole, "ridge": 1e-3, "fast_score": fast, "decay_score": {"median": 0.1}, **changes}


def verdicts(**changes: Any) -> dict[str, Verdict]:
    study = Study("deletion", "")
    assert deletion._tell(study, "gaussian", found(**changes))[2] == 0.1
    return {f.what.removeprefix("gaussian: "): f.verdict for f in study.findings}


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, set()),
        ({"completed": 8}, {"completed"}),
        ({"digests_equal": 8}, {"digests equal to never-saw"}),
        ({"partitions_equal": 8}, {"sets equal"}),
        ({"refits": 1}, {"refits"}),
        # the paper: 2.4e-9 and 6.4e-3
        ({"fast_score": {"median": 1e-8, "worst": 1e-3}}, {"gate score, median deviation"}),
        ({"fast_score": {"median": 1e-10, "worst": 1e-2}}, {"gate score, worst deviation"}),
    ],
)
def test_what_an_audit_did_not_reach_is_missed(changes: dict[str, Any], missed: set[str]) -> None:
    got = verdicts(**changes)
    assert {what for what, verdict in got.items() if verdict is Verdict.missed} == missed


def test_parts_hold_what_they_were_computed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_deletions", lambda *_: found())
    monkeypatch.setattr(deletion, "audit_learned", lambda *_: found())
    monkeypatch.setattr(deletion, "_histories", lambda *_: None)
    monkeypatch.setattr(
        deletion, "_time", lambda *_: dict.fromkeys(("120", "256", "384", "512"), 2)
    )
    vitals = tmp_path / "physionet2019" / "stays300_vitals.csv.gz"
    text = tmp_path / "enwik8" / "enwik8_prefix_4154399.bin"

    def new(path: Path, content: bytes) -> set[str]:
        """Parts that are made anew once a file has changed."""
        before = set((tmp_path / "parts").rglob("*.json"))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        deletion.run(Settings(tmp_path, tmp_path, quick=True))
        after = set((tmp_path / "parts").rglob("*.json"))
        return {path.name.split("-")[0] for path in after - before}

    every = {"gaussian", "redundant", "duplicate", "trained", "latency"}
    assert new(text, b"prose") >= every
    assert new(vitals, b"one") == {"icu"}
    assert new(vitals, b"two") == {"icu"}
    assert new(text, b"other prose") == {"trained"}
    assert new(text, b"other prose") == set()
    elsewhere = {"system": "Plan 9", "machine": "mips", "cores": 1, "processor": "R3000"}
    monkeypatch.setattr(deletion, "machine", lambda: elsewhere)
    assert new(text, b"other prose") == {"latency"}


def test_study_without_data(tmp_path: Path) -> None:
    study = deletion.run(Settings(tmp_path, tmp_path / "none", quick=True, seeds=2))
    assert any("Regime icu" in note and "data.md" in note for note in study.notes)
    got = {f.what: f for f in study.findings}
    for regime in ("gaussian", "redundant", "duplicate"):
        assert got[f"{regime}: digests equal to never-saw"].ours == "2/2"
        assert got[f"histories of 64 operations, {regime}: complete, every digest equal"].ours == (
            "2/2"
        )
    assert not any(what.startswith("icu") for what in got)
    assert (tmp_path / "deletion.png").exists()
