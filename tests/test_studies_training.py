"""The study of the layer: verdicts from what was measured, tables from the runs that are kept."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory.studies import layer_checks, training
from svmemory.studies.result import Finding, Study, Verdict
from svmemory.studies.settings import Settings


@pytest.fixture
def kept() -> list[dict[str, Any]]:
    text = (files(training.__package__) / "saved/language.json").read_text()
    return list(json.loads(text)["runs"])


def measured(
    monkeypatch: pytest.MonkeyPatch, out: Path, quick: bool, ratio: float, fall: float, holds: bool
) -> tuple[Study, dict[str, Finding]]:
    """The study on measurements that are given."""
    monkeypatch.setattr(layer_checks, "gradients", lambda: {"weights": True, "readout": holds})
    monkeypatch.setattr(layer_checks, "teacher_fit", lambda seed: fall)
    monkeypatch.setattr(layer_checks, "ratios", lambda preset, turns: {"sv": ratio, "window": 1.1})
    study = training.run(Settings(out, out, quick=quick))
    return study, {f.what: f for f in study.findings}


@pytest.mark.parametrize(
    ("ratio", "fall", "holds"), [(1.3, 0.995, True), (1.36, 0.98, False)], ids=["good", "bad"]
)
def test_verdicts_follow_from_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ratio: float, fall: float, holds: bool
) -> None:
    expected = Verdict.met if holds else Verdict.missed
    _, found = measured(monkeypatch, tmp_path, False, ratio, fall, holds)
    assert found["gradcheck, weights"].verdict is Verdict.met
    assert found["gradcheck, readout"].verdict is expected
    assert found["student fits teacher: fall of the loss in 200 steps"].verdict is expected
    one = found["forward and backward of the 3m model, sv / softmax"]
    assert (one.verdict, one.ours, one.paper) == (expected, ratio, 35.8)


def test_a_quick_run_claims_nothing_about_speed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, found = measured(monkeypatch, tmp_path, True, 9.0, 1.0, True)
    one = found["forward and backward of the tiny model, sv / softmax"]
    assert (one.verdict, one.paper) == (Verdict.shown, None)


def test_times_of_another_machine_are_not_taken_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    what = "forward and backward of the tiny model, sv / softmax"
    measured(monkeypatch, tmp_path, True, 9.0, 1.0, True)
    assert measured(monkeypatch, tmp_path, True, 5.0, 1.0, True)[1][what].ours == 9.0
    monkeypatch.setattr(training, "machine", lambda: {"processor": "another"})
    assert measured(monkeypatch, tmp_path, True, 5.0, 1.0, True)[1][what].ours == 5.0


def test_language_models_are_those_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: list[dict[str, Any]]
) -> None:
    study, found = measured(monkeypatch, tmp_path, True, 1.0, 1.0, True)
    told = 0
    for words, name in (
        ("attentions", "compare"),
        ("controls", "controls"),
        ("forms", "forms"),
    ):
        best: dict[str, dict[int, float]] = {}
        for run in kept:
            if (run["study"], run["preset"]) == (name, "tiny"):
                best.setdefault(run["label"], {})[run["seed"]] = min(run["validation"])
                steps = run["steps"]
        for label, seeds in best.items():
            one = found[f"{words}: bits per byte, {label}, tiny, {steps} steps"]
            assert one.ours == pytest.approx(mean(seeds.values()))
            told += 1
            first = "dot" if name == "forms" else "sv"
            if label != first:
                gap = found[f"{words}: {label} minus {first}, same seeds"]
                both = seeds.keys() & best[first].keys()
                assert gap.ours == pytest.approx(mean(seeds[s] - best[first][s] for s in both))
    assert told >= 4
    for figure in study.figures:
        assert (tmp_path / f"{figure.name}.png").exists()
    assert any("need a GPU" in note and "minutes a run" in note for note in study.notes)
