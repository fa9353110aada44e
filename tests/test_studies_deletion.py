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
    return {**whole, "fast_score": fast, "decay_score": {"median": 0.1}, **changes}


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
