"""Loaders of intensive-care stays, events and what policies keep of them, and a small run."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from stay_tables import CHARTED_STAY, COLUMNS, demo_table, mimic_tables, physionet_npz
from svmemory.audit.vitals import CHANNELS
from svmemory.studies import icu, mimiciv
from svmemory.studies.icu_findings import Counts, add, winners
from svmemory.studies.icu_select import NAMES, Variant, events, kept_events, keys
from svmemory.studies.result import Study, Verdict
from svmemory.studies.settings import MissingError, Settings
from svmemory.studies.stays import Cohort, Stay, mimic3_demo, physionet

NAN = math.nan
FROM_PHYSIONET = [COLUMNS.index(c) for c in ("HR", "SBP", "DBP", "Resp", "O2Sat", "Temp")]


def settings_of(data: Path, out: Path | None = None) -> Settings:
    return Settings(out or data / "out", data, quick=True)


# -- loaders --------------------------------------------------------------------------------------


def test_archives_give_back_what_was_measured(tmp_path: Path) -> None:
    written = physionet_npz(tmp_path, 4)
    cohort = physionet(settings_of(tmp_path))
    assert [stay.name for stay in cohort.stays] == ["1000", "1001", "1002", "1003"]
    for stay, values in zip(cohort.stays, written, strict=True):
        np.testing.assert_allclose(stay.vitals, values[:, FROM_PHYSIONET], atol=1e-9)
    assert cohort.stays[0].sepsis is not None
    assert cohort.stays[0].sepsis.tolist() == [False] * 24 + [True] * 6
    assert cohort.hours == 120


def test_psv_files_are_read_like_archives(tmp_path: Path) -> None:
    folder = tmp_path / "physionet2019" / "training_setA"
    folder.mkdir(parents=True)
    head = "HR|O2Sat|Temp|SBP|MAP|DBP|Resp|EtCO2|ICULOS|SepsisLabel"
    rows = [f"{70 + h}|97|{'36.5' if h == 3 else 'NaN'}|120|80|65|18|NaN|{h + 1}|{int(h > 20)}"
            for h in range(24)]  # fmt: skip
    (folder / "p000007.psv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "p000008.psv").write_text("\n".join([head, *rows[:5]]) + "\n")  # too short
    (stay,) = physionet(settings_of(tmp_path)).stays
    assert stay.name == "p000007"
    assert stay.vitals[:, 0].tolist() == [70 + h for h in range(24)]
    assert stay.vitals[3].tolist() == [73, 120, 65, 18, 97, 36.5]
    assert np.isnan(stay.vitals[2, 5])
    assert stay.sepsis is not None
    assert stay.sepsis.sum() == 3


def test_a_missing_or_empty_folder_says_how_to_get_the_data(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"docs/how-to/data\.md"):
        physionet(settings_of(tmp_path))
    (tmp_path / "physionet2019").mkdir()
    with pytest.raises(MissingError, match=r"vitals_setA_part\*\.npz"):
        physionet(settings_of(tmp_path))


def test_hours_left_out_of_the_demo_table_are_gaps(tmp_path: Path) -> None:
    (tmp_path / "mimic3_demo").mkdir()
    lines = ["subject_id,hadm_id,icustay_id,hour,HR,SpO2,Resp,SBP,MAP,DBP,Temp"]
    lines += [f"1,2,3,{h},{60 + h},98,16,120,80,60,37" for h in range(30) if h != 5]
    with gzip.open(tmp_path / "mimic3_demo" / "vitals_hourly.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    (stay,) = mimic3_demo(settings_of(tmp_path)).stays
    assert stay.vitals.shape == (30, 6)
    assert np.isnan(stay.vitals[5]).all()
    assert stay.vitals[6].tolist() == [66, 120, 60, 16, 98, 37]


CHARTED = [
    (1, "2150-01-01 00:30:00", 220045, 80.0),  # the first minute of hour 0
    (1, "2150-01-01 01:29:59", 220045, 90.0),  # its last second
    (1, "2150-01-01 01:30:00", 220045, 100.0),  # hour 1
    (1, "2150-01-01 01:40:00", 220045, 900.0),  # a typing error
    (1, "2150-01-01 00:10:00", 220045, 50.0),  # before the stay
    (1, "2150-01-02 06:30:00", 220045, 50.0),  # at its end
    (1, "2150-01-01 02:35:00", 220050, 110.0),  # arterial line and cuff: one channel
    (1, "2150-01-01 02:40:00", 220179, 130.0),
    (1, "2150-01-01 02:40:00", 220180, 70.0),
    (1, "2150-01-01 02:45:00", 223761, 101.3),  # Fahrenheit
    (1, "2150-01-01 03:45:00", 223762, 36.0),  # Celsius
    (1, "2150-01-01 03:45:00", 220210, 14.0),
    (1, "2150-01-01 03:46:00", 224690, 18.0),
    (1, "2150-01-01 03:46:00", 220277, 95.0),
    (1, "2150-01-01 03:46:00", 220181, 88.0),  # mean pressure: not a channel
    (2, "2150-03-01 01:10:00", 220045, 70.0),
    (3, "2150-03-01 01:10:00", 220045, 70.0),  # a stay of no table
]


@pytest.mark.parametrize(("suffix", "block"), [(".gz", 1 << 26), ("", 100)])
def test_mimic_iv_is_averaged_by_hours_since_admission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, block: int
) -> None:
    monkeypatch.setattr(mimiciv, "_BLOCK", block)  # some lines at a time, or all
    mimic_tables(tmp_path, CHARTED, suffix)
    chart, table = (tmp_path / f"{name}.csv{suffix}" for name in ("chartevents", "icustays"))
    one, two = mimiciv.read(chart, table)
    assert (one.name, two.name) == ("1", "2")
    expected = [
        [85.0, NAN, NAN, NAN, NAN, NAN],
        [100.0, NAN, NAN, NAN, NAN, NAN],
        [NAN, 120.0, 70.0, NAN, NAN, 38.5],
        [NAN, NAN, NAN, 16.0, 95.0, 36.0],
    ]
    np.testing.assert_allclose(one.vitals, expected)
    np.testing.assert_allclose(two.vitals, [[NAN] * 6, [70.0, *[NAN] * 5]])
    assert [stay.name for stay in mimiciv.read(chart, table, most=5)] == ["1"]  # a day or more


def test_mimic_iv_reader_agrees_with_the_demos_own_hourly_table(data_dir: Path) -> None:
    folder = data_dir / "mimic3_demo"
    if not folder.is_dir():
        pytest.skip("needs mimic3_demo in the data folder")
    raw = mimiciv.read(
        folder / "chartevents_metavision_vitals_mimic4schema.csv.gz", folder / "icustays.csv.gz"
    )
    table = {stay.name: stay.vitals for stay in mimic3_demo(settings_of(data_dir)).stays}
    same = compared = 0
    for stay in raw:
        if stay.name in table:
            hours = min(len(stay.vitals), len(table[stay.name]))
            difference = np.abs(stay.vitals[:hours] - table[stay.name][:hours])
            compared += int((~np.isnan(difference)).sum())
            same += int((difference < 0.02).sum())
    assert compared > 30_000
    assert same / compared > 0.998  # the table merged some item ids more


def test_a_sample_is_drawn_once_and_in_order() -> None:
    septic = np.array([False, True])
    stays = [Stay(str(i), np.zeros((2, 6)), septic if i % 2 else septic & False) for i in range(9)]
    cohort = Cohort("made up", stays)
    names = [int(stay.name) for stay in cohort.sample(4, 1).stays]
    assert len(names) == 4
    assert names == sorted(set(names))
    assert names == [int(stay.name) for stay in cohort.sample(4, 1).stays]
    assert {stay.name for stay in cohort.sample(99, 0, septic=True).stays} == {"1", "3", "5", "7"}
    changed = Cohort("made up", [*stays[:-1], Stay("8", np.ones((2, 6)), septic & False)])
    assert len({cohort.mark(), changed.mark(), cohort.sample(4, 1).mark()}) == 3


# -- events and policies --------------------------------------------------------------------------

CALM = [80.0, 120.0, 65.0, 18.0, 97.0, 37.0]


@pytest.mark.parametrize(
    ("channel", "edge", "beyond"),
    [
        ("hr", 130, 131), ("hr", 40, 39), ("sbp", 90, 89), ("sbp", 200, 201), ("resp", 30, 31),
        ("resp", 6, 5), ("o2sat", 90, 89), ("temp", 38.5, 38.6), ("temp", 35, 34.9),
    ],
)  # fmt: skip
def test_an_hour_beyond_a_threshold_is_an_event(channel: str, edge: float, beyond: float) -> None:
    vitals = np.array([CALM] * 4)
    vitals[1, CHANNELS.index(channel)] = edge
    vitals[2, CHANNELS.index(channel)] = beyond
    vitals[3, CHANNELS.index(channel)] = NAN
    stay = Stay("s", vitals)
    assert events(stay, Variant("thresholds")).tolist() == [False, False, True, False]
    assert events(stay, Variant("thresholds", filled=True)).tolist() == [False, False, True, True]
    hidden = [False, False, channel == "o2sat", False]
    assert events(stay, Variant("held-out")).tolist() == hidden
    assert not events(stay, Variant("sepsis")).any()


def test_keys_are_filled_and_standardised_and_hide_what_is_held_out() -> None:
    vitals = np.array([CALM, [NAN] * 6, [100.0, NAN, 65.0, 18.0, 91.0, 37.0]])
    stay, no = Stay("s", vitals), np.zeros(6)
    own = keys(stay, Variant("thresholds"), no, no)
    # 80, 80, 100: mean 86.67, standard deviation 9.428; pressures and the rest do not vary
    np.testing.assert_allclose(own[:, 0], [-0.70710678, -0.70710678, 1.41421356])
    np.testing.assert_allclose(own[:, 4], [0.70710678, 0.70710678, -1.41421356])
    assert not own[:, [1, 2, 3, 5]].any()
    held = keys(stay, Variant("held-out"), no, no)
    np.testing.assert_array_equal(held, np.delete(own, 4, axis=1))
    late = Stay("s", np.array([[NAN] * 6, CALM]))
    shared = keys(late, Variant("thresholds", scale="cohort"), np.full(6, 60.0), np.full(6, 4.0))
    assert shared[0].tolist() == [0.0] * 6
    assert shared[1, :2].tolist() == [5.0, 15.0]


def test_support_keeps_outlying_events_and_heavy_hitters_do_not() -> None:
    rng = np.random.default_rng(0)
    seen = 0.3 * rng.standard_normal((40, 6))
    outlying = [7, 19, 33]
    seen[outlying] += 8.0 * np.eye(6)[:3]
    event = np.isin(np.arange(40), outlying)
    counts = kept_events(seen, event)
    assert (counts["hours"], counts["events"]) == (40, 3)
    assert counts["support"] == counts["k_centre"] == 3
    assert counts["self_mass"] == 0
    k = int(counts["kept"])
    assert 12 <= k <= 20
    assert counts["recency"] == sum(hour >= 40 - k for hour in outlying)
    assert counts["random"] == pytest.approx(3 * k / 40)
    assert set(NAMES) < set(counts)


# -- the study ------------------------------------------------------------------------------------


def test_a_small_run_on_two_cohorts(tmp_path: Path) -> None:
    physionet_npz(tmp_path, 8, hours=60)
    mimic_tables(tmp_path / "mimiciv" / "icu", CHARTED_STAY)
    study = icu.run(settings_of(tmp_path, tmp_path / "out"))
    assert (study.name, study.title) == ("icu", "Which hours of a stay to keep")
    found = {f.what: f for f in study.findings}
    main = "PhysioNet 2019 set A, event hours kept"
    one = found[f"{main}, support (ours)"]
    assert (one.paper, one.verdict, one.note) == (0.80, Verdict.shown, "the paper's is on MIMIC-IV")
    own = found["MIMIC-IV, event hours kept, support (ours)"]
    assert own.high is not None
    assert own.verdict is (Verdict.met if own.high >= 0.80 else Verdict.differs)
    held = "PhysioNet 2019 set A, hours with SpO2 < 90 % kept, SpO2 hidden"
    assert found[f"{held}, {NAMES['recency']}"].paper == 0.409
    septic = "PhysioNet 2019 set A, hours with the sepsis label kept, recency"
    assert found[septic].ours == 1.0  # the label is at the end, and the budget is larger
    assert all(0 <= f.ours <= 1 for w, f in found.items() if "minus" not in w)  # type: ignore[operator]
    assert any("MIMIC-III demo was left out" in note for note in study.notes)
    assert (tmp_path / "out" / "icu.png").exists()


@pytest.mark.parametrize("folder", ["mimiciv/icu", "icu"])
def test_the_papers_cohort_alone_is_enough(tmp_path: Path, folder: str) -> None:
    mimic_tables(tmp_path / folder, CHARTED_STAY)
    study = icu.run(settings_of(tmp_path, tmp_path / "out"))
    assert {f.what.split(",")[0] for f in study.findings} == {"MIMIC-IV"}
    assert not any("sepsis" in f.what for f in study.findings)
    assert study.setting.startswith("MIMIC-IV: 1 of 1 stays")
    for name in ("PhysioNet 2019", "The MIMIC-III demo"):
        assert any(note.startswith(f"**{name} was left out**") for note in study.notes)
    assert not any(
        "Sepsis" in note or "PhysioNet's" in note or "reproduce icu" in note for note in study.notes
    )
    assert (tmp_path / "out" / "icu.png").exists()


def test_the_demo_alone_is_enough_and_is_resampled_by_patient(tmp_path: Path) -> None:
    demo_table(tmp_path, 6)
    study = icu.run(settings_of(tmp_path, tmp_path / "out"))
    assert {f.what.split(",")[0] for f in study.findings} == {"MIMIC-III demo"}
    assert "6 of 6 stays (180 hours), of 3 patients" in study.setting


def test_without_any_cohort_all_three_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"physionet2019/, mimic3_demo/ or mimiciv/icu/"):
        icu.run(settings_of(tmp_path))


def test_an_interval_draws_patients_with_all_their_stays() -> None:
    values = np.array([0.0, 0.0, 0.0, 0.9])
    two = Counts({}, np.array([0, 0, 0, 1]))
    mean, (low, high) = two.mean(values)
    # of two patients drawn twice: one alone, the other alone, or both
    assert (mean, low, high) == pytest.approx((0.225, 0.0, 0.9))
    weighted, _ = two.mean(values, np.array([1.0, 1.0, 1.0, 3.0]))
    assert weighted == pytest.approx(0.45)
    four = Counts({}, np.arange(4))
    assert four.mean(values)[1][1] < 0.9


@pytest.mark.parametrize(
    ("cohort", "ours", "share", "difference"),
    [
        # the paper's: 0.80 kept, 0.75 more than H2O
        ("PhysioNet 2019 set A", [0.5, 0.9], Verdict.shown, Verdict.met),
        ("PhysioNet 2019 set A", [0.1, 0.1], Verdict.shown, Verdict.missed),
        ("PhysioNet 2019 set A", [0.1, 0.9], Verdict.shown, Verdict.missed),
        ("MIMIC-IV", [0.1, 0.9], Verdict.met, Verdict.met),
        ("MIMIC-IV", [0.5, 0.7], Verdict.differs, Verdict.differs),
        ("MIMIC-IV", [0.95, 0.95], Verdict.met, Verdict.met),
    ],
)
def test_a_verdict_is_only_beside_the_same_data_or_an_aim(
    cohort: str, ours: list[float], share: Verdict, difference: Verdict
) -> None:
    by = {name: np.array([0.1, 0.1]) for name in NAMES}
    by |= {"support": np.array(ours), "hours": np.full(2, 3.0), "kept": np.ones(2)}
    study = Study("icu", "")
    add(study, cohort, "thresholds", Counts({**by, "events": np.ones(2)}, np.arange(2)))
    found = {f.what.removeprefix(f"{cohort}, event hours kept, "): f for f in study.findings}
    assert found["support (ours)"].verdict is share
    gap = found[f"support minus {NAMES['self_mass']}"]
    assert (gap.verdict, gap.paper) == (difference, 0.75)
    aim = "aim: above 0, interval excluding 0; the paper's is on MIMIC-IV"
    assert gap.note.startswith(aim) is (cohort != "MIMIC-IV")
    if ours == [0.1, 0.1]:
        assert f"{cohort}, event hours kept: {NAMES['self_mass']}" in winners(study)
    for name in ("recency", "random"):
        assert found[NAMES[name]].verdict is Verdict.shown
        assert ("MIMIC-IV" in found[NAMES[name]].note) is (cohort != "MIMIC-IV")


def test_without_mimic_iv_the_study_says_how_to_run_it(tmp_path: Path) -> None:
    physionet_npz(tmp_path, 4)
    study = icu.run(settings_of(tmp_path, tmp_path / "out"))
    assert any("icu/chartevents.csv.gz" in note for note in study.notes)
    assert not any(f.what.startswith("MIMIC-IV") for f in study.findings)
