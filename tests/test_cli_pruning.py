"""Pruning from the command line: how much, and looking ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Run, in_folder, refused
from svmemory import SupportVectorMemory


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    call = in_folder(tmp_path, capsys, monkeypatch)
    memory = SupportVectorMemory(gamma=0.15, C=1 / 60)
    memory.add(np.random.default_rng(0).normal(size=(200, 3)))
    memory.save("m.svm")
    return call


def test_info_counts_the_rows_that_k_admissions_cannot_need(run: Run) -> None:
    plan = SupportVectorMemory.load("m.svm").plan(1)
    document = run("info", "m.svm", "--plan", "1", "--json").document
    assert document["plan"] == {
        "k": 1,
        "threshold": plan.threshold,
        "droppable": plan.droppable,
        "kept": plan.kept,
    }
    assert 0 < len(plan.droppable) < 140
    said = run("info", "m.svm", "--plan", "1").out
    assert f"{len(plan.droppable)} rows with slack {plan.threshold:.3g} or more" in said
    assert "plan" not in run("info", "m.svm", "--json").document


def test_info_plans_nothing_in_warm_up(run: Run) -> None:
    small = SupportVectorMemory(gamma=0.15, C=1 / 60)
    small.add([[0.0], [1.0]])
    small.save("small.svm")
    document = run("info", "small.svm", "--plan", "2", "--json").document
    assert document["plan"] == {"k": 2, "threshold": None, "droppable": [], "kept": 2}
    assert "fewer rows than 1/C" in run("info", "small.svm", "--plan", "2").out


def test_prune_drops_what_the_plan_says(run: Run) -> None:
    plan = SupportVectorMemory.load("m.svm").plan(1)
    document = run("prune", "m.svm", "--admissions", "1", "-o", "new.svm", "--json").document
    assert sorted(document["removed"]) == sorted(plan.droppable)
    assert document["admissions"] == 1
    assert document["slack"] >= plan.threshold
    assert document["rows_left"] == len(SupportVectorMemory.load("new.svm")) == plan.kept


def test_prune_keeps_rows_with_little_slack(run: Run) -> None:
    wanted = SupportVectorMemory.load("m.svm").prune(keep_slack_below=0.05)
    command = ("prune", "m.svm", "--keep-slack-below", "0.05", "-o", "new.svm")
    document = run(*command, "--json").document
    assert sorted(document["removed"]) == sorted(wanted.removed)
    assert document["slack"] == pytest.approx(wanted.slack, abs=1e-12)
    assert "slack at least 0.05" in run(*command, "--force").out
    none = run("prune", "m.svm", "--keep-slack-below", "2", "--json").document
    assert (none["removed"], none["slack"]) == ([], None)


def test_what_prune_refuses(run: Run) -> None:
    before = Path("m.svm").read_bytes()
    refused(run("prune", "m.svm", "--keep-slack-below", "-1"), "keep_slack_below")
    refused(run("prune", "m.svm", "--admissions", "-1"), "admissions")
    refused(run("prune", "m.svm", "--keep-slack-below", "1", "--admissions", "1"), "either")
    assert Path("m.svm").read_bytes() == before
