"""The audits: they pass on the memory, and fail on a memory that lies."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from svmemory import SupportVectorMemory, reference
from svmemory.audit import (
    DeletionReport,
    Spread,
    WalkReport,
    run_deletion,
    run_drain,
    run_sequence,
)
from svmemory.audit.cli import app
from svmemory.errors import ContractError, ConvergenceError, InputError

DATA = Path(os.environ.get("SVMEMORY_DATA", "../shared/data"))
SYNTHETIC = ("gaussian", "redundant", "duplicate")


@pytest.fixture
def vitals_csv(tmp_path: Path) -> Path:
    """One stay of 45 hours."""
    walk = np.random.default_rng(5).standard_normal((45, 6)).cumsum(axis=0)
    lines = [f"a,{hour}," + ",".join(f"{x:.1f}" for x in row) for hour, row in enumerate(walk)]
    path = tmp_path / "vitals.csv"
    path.write_text("\n".join(["stay,hour,HR,SBP,DBP,Resp,SpO2,Temp", *lines]))
    return path


# --- the audits pass on the memory -------------------------------------------------------------


@pytest.mark.parametrize("regime", SYNTHETIC)
def test_deletion_is_exact(regime: str) -> None:
    report = run_deletion(regime, trials=6, rational_trials=3)
    assert report.failures == []
    assert (report.completed, report.digests_equal, report.refits) == (6, 6, 0)
    assert (report.rational_trials, report.rational_equal) == (3, 3)
    for figure in (report.canonical_weights, report.canonical_score, report.canonical_readout):
        assert figure == Spread(0.0, 0.0, 0.0)
    assert report.decay_score is not None
    assert report.decay_score.median > 1e-6  # decay is not deletion, and the audit can see it


def test_deletion_is_exact_on_vitals(vitals_csv: Path) -> None:
    report = run_deletion("icu", trials=4, rational_trials=1, data=str(vitals_csv))
    assert (report.passed, report.rows, report.digests_equal) == (True, 40, 4)


def test_deletion_is_exact_on_real_stays() -> None:
    if not (DATA / "physionet2019").exists():
        pytest.skip(f"no PhysioNet 2019 vitals in {DATA} (set SVMEMORY_DATA)")
    report = run_deletion("icu", trials=10, rational_trials=2, data=str(DATA / "physionet2019"))
    assert report.failures == []
    assert report.digests_equal == 10


def test_at_ridge_zero_the_audit_claims_no_digest() -> None:
    report = run_deletion("gaussian", trials=3, ridge=0.0)
    assert report.digests_equal is None
    assert report.canonical_score is None
    assert report.rational_trials == 0
    assert report.failures == []


@pytest.mark.parametrize("regime", SYNTHETIC)
def test_sequences_stay_exact(regime: str) -> None:
    report = run_sequence(regime, trajectories=2, operations=16, rows=24)
    assert report.failures == []
    assert (report.completed, report.operations, report.digests_equal) == (2, 32, 32)


@pytest.mark.parametrize("regime", SYNTHETIC)
def test_drains_are_exact_down_to_zero_rows(regime: str) -> None:
    report = run_drain(regime, sequences=2, rows=16)
    assert report.failures == []
    assert (report.completed, report.operations, report.digests_equal) == (2, 32, 32)


def test_several_processes_report_the_same() -> None:
    alone = run_deletion("redundant", trials=4, seed=9, rational_trials=1)
    shared = run_deletion("redundant", trials=4, seed=9, rational_trials=1, jobs=2)
    assert alone == shared


def test_progress_counts_every_trial() -> None:
    calls: list[tuple[int, int]] = []
    run_drain("gaussian", sequences=3, rows=4, progress=lambda *call: calls.append(call))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_bad_settings_are_refused_before_any_trial() -> None:
    with pytest.raises(ContractError, match="ridge"):
        run_deletion("gaussian", trials=1, ridge=1e-20)
    with pytest.raises(InputError, match="at least 1"):
        run_deletion("gaussian", trials=0)
    with pytest.raises(InputError, match="at least 3"):
        run_deletion("gaussian", trials=1, rows=2)
    with pytest.raises(InputError, match="at least 1"):
        run_sequence("gaussian", operations=0)
    with pytest.raises(InputError, match="at least 1"):
        run_drain("gaussian", rows=0)


def test_absent_vitals_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVMEMORY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"nowhere.*does not exist.*--data"):
        run_deletion("icu", trials=1)


# --- the audits fail on a memory that lies -----------------------------------------------------


@pytest.fixture
def one_bit_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """After forgetting, one retained row's value differs by its last bit."""
    honest = SupportVectorMemory.forget

    def forget(self: SupportVectorMemory, *args: Any, **kwargs: Any) -> Any:
        result = honest(self, *args, **kwargs)
        if len(self):
            first, key, value = self.ids[0], self.keys[:1], self.values[:1]
            honest(self, ids=[first])
            self.add(key, values=np.nextafter(value, np.inf), ids=[first])
        return result

    monkeypatch.setattr(SupportVectorMemory, "forget", forget)


@pytest.fixture
def sometimes_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting raises whenever row 3 is among the ids."""
    honest = SupportVectorMemory.forget

    def forget(self: SupportVectorMemory, ids: list[str], **options: Any) -> Any:
        if "3" in ids:
            raise ConvergenceError("stuck")
        return honest(self, ids=ids, **options)

    monkeypatch.setattr(SupportVectorMemory, "forget", forget)


@pytest.mark.usefixtures("one_bit_left_behind")
def test_one_bit_left_behind_fails_every_audit() -> None:
    deletion = run_deletion("gaussian", trials=2, rational_trials=0)
    assert (deletion.completed, deletion.digests_equal) == (2, 0)
    assert "0 of 2 digests are equal" in deletion.failures
    assert deletion.problems == ("trial 0: digests differ", "trial 1: digests differ")
    drain = run_drain("gaussian", sequences=1, rows=4)
    assert drain.failures == ["1 of 4 digests are equal"]  # with no row left nothing is left behind
    assert not run_sequence("gaussian", trajectories=1, operations=2, rows=8).passed


@pytest.mark.usefixtures("sometimes_stuck")
def test_trials_that_raise_are_counted_and_named() -> None:
    deletion = run_deletion("gaussian", trials=12, rows=6, rational_trials=0)
    assert 0 < deletion.completed < 12
    assert f"{deletion.completed} of 12 completed" in deletion.failures
    assert len(deletion.problems) == 12 - deletion.completed
    assert "ConvergenceError: stuck" in deletion.problems[0]
    drain = run_drain("gaussian", sequences=1, rows=6)
    assert drain.completed == 0
    assert drain.operations == drain.digests_equal < 6
    assert "(forget row 3): ConvergenceError: stuck" in drain.problems[0]


def test_the_rational_solve_is_compared_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = reference.canonical

    def canonical(*args: Any) -> Any:
        masses, mu, labels = honest(*args)
        return masses, np.nextafter(mu, np.inf), labels

    monkeypatch.setattr(reference, "canonical", canonical)
    report = run_deletion("gaussian", trials=2, rational_trials=1)
    assert report.failures == ["0 of 1 equal the rational solve"]


@pytest.fixture(scope="module")
def good_deletion() -> DeletionReport:
    return run_deletion("gaussian", trials=1, rational_trials=1)


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"completed": 0, "digests_equal": 0, "partitions_equal": 0}, "0 of 1 completed"),
        ({"refits": 1}, "1 refits"),
        ({"digests_equal": 0}, "0 of 1 digests are equal"),
        ({"partitions_equal": 0}, "0 of 1 partitions are equal"),
        ({"rational_equal": 0}, "0 of 1 equal the rational solve"),
        ({"fast_score": Spread(0, 0, 2e-9)}, "gate score is off by 2.0e-09, more than 1e-09"),
        ({"fast_score": Spread(0, 0, float("nan"))}, "gate score is off by nan"),
        ({"canonical_readout": Spread(0, 0, 5e-324)}, "canonical readout deviates by 4.9e-324"),
    ],
)
def test_each_check_can_fail(
    good_deletion: DeletionReport, change: dict[str, Any], failure: str
) -> None:
    assert good_deletion.passed
    report = dataclasses.replace(good_deletion, **change)
    assert [line for line in report.failures if failure in line]
    assert not report.passed
    json.dumps(report.as_dict(), allow_nan=False)


# --- command line ------------------------------------------------------------------------------


def test_json_is_one_document_and_exit_0() -> None:
    result = CliRunner().invoke(app, ["deletion", "--trials", "2", "--rational", "0", "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["audit"], found["passed"], found["seed"]) == ("deletion", True, 0)
    (regime,) = found["regimes"]
    assert (regime["regime"], regime["rows"], regime["digests_equal"]) == ("gaussian", 24, 2)
    assert regime["paper"]["fast score"] == {"median": "2.4e-9", "worst": "6.4e-3"}
    assert result.stderr == ""


def test_tables_show_the_paper_beside_our_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, ["deletion", "--regime", "redundant", "--trials", "2"])
    assert result.exit_code == 0
    assert "5.7e-7, 9.6e-4" in result.stdout
    assert "2/2" in result.stdout
    assert result.stdout.rstrip().endswith("passed")


@pytest.mark.parametrize("command", [["sequence", "--trajectories"], ["drain", "--sequences"]])
@pytest.mark.usefixtures("one_bit_left_behind")
def test_exit_1_when_a_check_fails(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "1", "--rows", "6"])
    assert result.exit_code == 1
    assert "failed: " in result.stdout
    assert "digests differ" in result.stdout


def test_all_runs_the_four_regimes(vitals_csv: Path) -> None:
    options = ["--regime", "all", "--rows", "6", "--data", str(vitals_csv), "--json"]
    result = CliRunner().invoke(app, ["drain", "--sequences", "1", *options])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    names = [regime["regime"] for regime in found["regimes"]]
    assert names == ["gaussian", "redundant", "duplicate", "icu"]
    assert (found["not_run"], result.stderr) == ([], "")


@pytest.mark.parametrize("folder", ["absent", "empty"])
def test_all_does_without_icu_where_its_data_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("SVMEMORY_DATA", str(tmp_path))
    if folder == "empty":
        (tmp_path / "physionet2019").mkdir()
    command = ["drain", "--regime", "all", "--sequences", "1", "--rows", "6"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["passed"]
    assert [regime["regime"] for regime in found["regimes"]] == list(SYNTHETIC)
    (left_out,) = found["not_run"]
    assert left_out["regime"] == "icu"
    assert str(tmp_path / "physionet2019") in left_out["reason"]
    assert "https://doi.org/10.13026/v64v-d857" in left_out["reason"]  # where to get them
    assert result.stderr == f"note: icu is not run: {left_out['reason']}\n"
    table = CliRunner(env={"COLUMNS": "500"}).invoke(app, command)  # no line is broken
    assert table.exit_code == 0
    assert "drain, duplicate: 6 rows" in table.stdout
    assert "drain, icu: not run" in table.stdout
    assert left_out["reason"] in " ".join(table.stdout.split())
    assert table.stderr == result.stderr


@pytest.mark.usefixtures("one_bit_left_behind")
def test_the_regimes_that_ran_decide_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVMEMORY_DATA", str(tmp_path))
    command = ["drain", "--regime", "all", "--sequences", "1", "--rows", "6", "--json"]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, json.loads(result.stdout)["passed"]) == (1, False)


def test_data_asked_for_by_name_must_be_there(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.csv")
    result = CliRunner().invoke(app, ["drain", "--regime", "all", "--data", absent])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "absent.csv does not exist" in result.stderr


def test_exit_2_and_one_line_on_bad_input(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.csv")
    result = CliRunner().invoke(app, ["drain", "--regime", "icu", "--data", absent])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: the icu regime needs hourly vitals")
    assert result.stderr.count("\n") == 1
    unknown = CliRunner().invoke(app, ["deletion", "--regime", "mnist"])
    assert unknown.exit_code == 2


def test_walk_report_failures_name_the_missing_operations() -> None:
    report = run_drain("gaussian", sequences=1, rows=4)
    assert isinstance(report, WalkReport)
    assert report.passed
    assert dataclasses.replace(report, digests_equal=3).failures == ["3 of 4 digests are equal"]
    assert dataclasses.replace(report, refits=2).failures == ["2 refits"]
