"""The audits: they draw what they declare, pass on the memory, and fail on a memory that lies."""

from __future__ import annotations

import dataclasses
import gzip
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
    draw_keys,
    paper_rows,
    read_vitals,
    run_deletion,
    run_drain,
    run_sequence,
)
from svmemory.audit.cli import app
from svmemory.audit.drain import plan_drain
from svmemory.audit.regimes import trial_generator
from svmemory.audit.sequence import plan_sequence
from svmemory.audit.vitals import carried_forward, standardised
from svmemory.errors import ContractError, ConvergenceError, InputError

DATA = Path(os.environ.get("SVMEMORY_DATA", "../shared/data"))
SYNTHETIC = ("gaussian", "redundant", "duplicate")
HEADER = "patient,ICULOS,HR,O2Sat,Temp,SBP,MAP,DBP,Resp\n"


@pytest.fixture
def vitals_csv(tmp_path: Path) -> Path:
    """Three stays of 30 hours that drift, with gaps; hours written backwards."""
    rng = np.random.default_rng(5)
    lines = [HEADER]
    for patient in (7, 8, 9):
        walk = np.array([80, 97, 37, 120, 80, 60, 16]) + rng.standard_normal((30, 7)).cumsum(axis=0)
        for hour in reversed(range(30)):
            cells = [f"{x:.1f}" if rng.random() < 0.8 else "" for x in walk[hour]]
            lines.append(f"{patient},{hour + 1}," + ",".join(cells) + "\n")
    path = tmp_path / "vitals.csv"
    path.write_text("".join(lines))
    return path


# --- what the regimes draw ---------------------------------------------------------------------


@pytest.mark.parametrize("rows", [24, 64])
def test_duplicate_regime_is_eight_points_in_equal_numbers(rows: int) -> None:
    keys = draw_keys("duplicate", np.random.default_rng(0), rows)
    points, copies = np.unique(keys, axis=0, return_counts=True)
    assert points.shape == (8, 6)
    assert copies.tolist() == [rows // 8] * 8


def test_redundant_regime_is_four_tight_groups_of_distinct_keys() -> None:
    keys = draw_keys("redundant", np.random.default_rng(0), 24)
    assert len(np.unique(keys, axis=0)) == 24
    distance = np.sqrt(((keys[:, None] - keys[None]) ** 2).sum(axis=2))
    near = distance < 0.5  # noise 0.02 in 6 dimensions: within 0.1; centres lie several units apart
    assert near.sum(axis=1).tolist() == [6] * 24
    assert distance[near].max() < 0.2


def test_gaussian_regime_has_unit_spread() -> None:
    keys = draw_keys("gaussian", np.random.default_rng(0), 1024)
    assert keys.shape == (1024, 6)
    assert abs(keys.mean()) < 0.05  # standard error 0.013
    assert abs(keys.std() - 1) < 0.05


@pytest.mark.parametrize("regime", SYNTHETIC)
def test_a_trial_depends_on_seed_regime_and_number_alone(regime: str) -> None:
    first = draw_keys(regime, trial_generator(regime, 3, 11), 24)
    assert np.array_equal(first, draw_keys(regime, trial_generator(regime, 3, 11), 24))
    assert not np.array_equal(first, draw_keys(regime, trial_generator(regime, 3, 12), 24))
    assert not np.array_equal(first, draw_keys(regime, trial_generator(regime, 4, 11), 24))


def test_spare_keys_follow_the_same_centres() -> None:
    keys = draw_keys("duplicate", np.random.default_rng(1), 24, 16)
    assert keys.shape == (40, 6)
    assert len(np.unique(keys, axis=0)) == 8


def test_paper_sizes() -> None:
    assert [paper_rows(r) for r in (*SYNTHETIC, "icu")] == [24, 24, 24, 40]


# --- vitals ------------------------------------------------------------------------------------


def test_gaps_keep_the_last_value_of_the_channel() -> None:
    nan = float("nan")
    stay = np.array([[nan, 1.0], [5.0, nan], [nan, nan], [7.0, 2.0]])
    expected = np.array([[nan, 1.0], [5.0, 1.0], [5.0, 1.0], [7.0, 2.0]])
    assert np.array_equal(carried_forward(stay), expected, equal_nan=True)


def test_standardised_channels_and_what_is_missing_becomes_the_mean() -> None:
    nan = float("nan")
    rows = np.array([[1.0, 0.1, nan, nan], [3.0, 0.1, nan, 2.0], [5.0, 0.1, nan, 4.0]])
    root = np.sqrt(1.5)  # deviations -2, 0, 2 over a standard deviation of sqrt(8/3)
    expected = np.array([[-root, 0, 0, 0], [0, 0, 0, -1], [root, 0, 0, 1]])
    assert np.allclose(standardised(rows), expected, rtol=0, atol=1e-15)


def test_csv_hours_are_put_in_order_and_channels_in_ours(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + "a,2,82,98,,122,90,62,18\na,1,81,97,37.5,121,91,61,17\n")
    (stay,) = read_vitals(path).stays
    assert stay.tolist() == [[81, 121, 61, 17, 97, 37.5], [82, 122, 62, 18, 98, 37.5]]


def test_other_names_for_stay_hour_and_oxygen(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("stay,hour,HR,SBP,DBP,RR,SpO2,Temp\nx,0,81,121,61,17,97,37.5\n")
    assert read_vitals(path).stays[0].tolist() == [[81, 121, 61, 17, 97, 37.5]]


def test_the_formats_agree(vitals_csv: Path, tmp_path: Path) -> None:
    expected = read_vitals(vitals_csv).stays
    assert [stay.shape for stay in expected] == [(30, 6)] * 3

    packed = tmp_path / "vitals.csv.gz"
    packed.write_bytes(gzip.compress(vitals_csv.read_bytes()))
    columns, *lines = (line.split(",") for line in vitals_csv.read_text().splitlines())
    table = [dict(zip(columns, line, strict=True)) for line in lines]
    table.sort(key=lambda row: (row["patient"], int(row["ICULOS"])))
    hundredths = [[round(float(r[c] or "-0.01") * 100) for c in columns[2:]] for r in table]
    archive = tmp_path / "npz" / "stays.npz"
    archive.parent.mkdir()
    np.savez(
        archive,
        x100=np.array(hundredths, dtype=np.int16),
        columns=np.array(columns[2:]),
        ptr=np.array([0, 30, 60, 90]),
    )
    folder = tmp_path / "psv"
    folder.mkdir()
    for patient in "789":
        rows = [r for r in table if r["patient"] == patient]
        lines = ["|".join(r[c] or "NaN" for c in columns[1:]) for r in rows]
        (folder / f"p{patient}.psv").write_text("|".join(columns[1:]) + "\n" + "\n".join(lines))
    for path in (packed, archive, archive.parent, folder):
        stays = read_vitals(path).stays
        assert len(stays) == 3
        for stay, other in zip(stays, expected, strict=True):
            assert np.array_equal(stay, other, equal_nan=True)


def test_absent_vitals_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVMEMORY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"nowhere.*does not exist.*--data"):
        run_deletion("icu", trials=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "a,1,81,97,hot,121,91,61,17\n", "line 2: 'hot' is not a number"),
        ("patient,ICULOS,HR\na,1,80\n", "no column for sbp"),
        (HEADER, "holds no hourly vitals"),
        ("a\x00b", "v.csv"),
    ],
)
def test_damaged_vitals_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "v.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_vitals(path)


def test_icu_reads_a_stay_from_its_first_hour_and_goes_on_with_others(vitals_csv: Path) -> None:
    vitals = read_vitals(vitals_csv)
    keys = draw_keys("icu", np.random.default_rng(0), 24, 0, vitals)
    starts = [standardised(stay[:24]) for stay in vitals.stays]
    assert sum(np.array_equal(keys, start) for start in starts) == 1
    assert draw_keys("icu", np.random.default_rng(0), 64, 0, vitals).shape == (64, 6)
    with pytest.raises(InputError, match="has 90 hours, and a trial needs 91"):
        draw_keys("icu", np.random.default_rng(0), 90, 1, vitals)


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


# --- plans -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1])
def test_sequence_plans_are_possible_histories(number: int) -> None:
    moves = plan_sequence(np.random.default_rng(2), number, 8, 200)
    held, seen, returned = set(range(8)), set(range(8)), 0
    for move in moves:
        if move.verb == "forget":
            held.remove(move.row)  # KeyError: it was not there
        else:
            assert move.row not in held
            returned += move.row in seen
            held.add(move.row)
            seen.add(move.row)
    assert len(moves) == 200
    assert returned > 20  # about half of the additions are of rows removed before
    assert max(seen) < 8 + 200
    if number == 0:
        assert [move.verb for move in moves] == ["forget", "add"] * 100


def test_drain_plans_remove_every_row_once() -> None:
    moves = plan_drain(np.random.default_rng(2), 0, 12, 12)
    assert sorted(move.row for move in moves) == list(range(12))
    assert {move.verb for move in moves} == {"forget"}


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
    names = [regime["regime"] for regime in json.loads(result.stdout)["regimes"]]
    assert names == ["gaussian", "redundant", "duplicate", "icu"]


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
