"""The next six hours: labels, inputs, areas with intervals, models, and a small run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from svmemory.errors import InputError
from svmemory.studies import nexthours, prediction
from svmemory.studies.deterioration import deteriorated
from svmemory.studies.hourpeers import Cohort
from svmemory.studies.nexthours import (
    AHEAD,
    LONGEST,
    Scale,
    mark,
    stay,
    stays,
    summary,
)
from svmemory.studies.prediction import EVERY_HOUR, LOGISTIC, LSTM, SOFTMAX, SV, TREES, run
from svmemory.studies.ranking import Ranking, bootstrapped, patient_draws
from svmemory.studies.result import Study, Verdict
from svmemory.studies.settings import MissingError, Settings
from svmemory.studies.stays import set_a

USUAL = np.array([80.0, 120.0, 70.0, 16.0, 97.0, 37.0])  # hr, sbp, dbp, resp, o2sat, temp


def quiet(hours: int) -> NDArray[np.float64]:
    return np.tile(USUAL, (hours, 1))


def wandering(rng: np.random.Generator, hours: int) -> NDArray[np.float64]:
    """Vitals that drift, with gaps; a low pressure announces a high heart rate."""
    drift = np.cumsum(rng.standard_normal((hours, 6)), axis=0) * [3.0, 6.0, 2.0, 1.0, 0.6, 0.15]
    raw = quiet(hours) + drift
    raw[rng.random(raw.shape) < 0.2] = np.nan
    return raw


def test_thresholds_are_the_papers() -> None:
    limits = [(0, 40, 130), (1, 90, 200), (3, 6, 30), (4, 90, None), (5, 35.0, 38.5)]
    for channel, low, high in limits:
        for limit, step in ((low, -0.1), (high, 0.1)):
            if limit is not None:
                rows = quiet(2)
                rows[0, channel], rows[1, channel] = limit, limit + step
                assert deteriorated(rows).tolist() == [False, True]
    rows = quiet(2)
    rows[:, 2] = [5.0, 250.0]  # diastolic pressure defines nothing
    assert not deteriorated(rows).any()
    assert not deteriorated(np.full((3, 6), np.nan)).any()


def test_labels_by_hand() -> None:
    raw = quiet(30)
    raw[15, 0] = 150.0
    one = stay(raw)
    assert np.flatnonzero(one.event).tolist() == [15]
    assert np.flatnonzero(one.label).tolist() == list(range(9, 15))  # an event within six hours
    assert np.flatnonzero(one.asked).tolist() == list(range(5, 24))
    assert np.flatnonzero(one.asked & ~one.calm).tolist() == list(range(15, 21))


def test_labels_against_brute_force() -> None:
    rng = np.random.default_rng(1)
    for hours in (12, 13, 40, 90):
        raw = wandering(rng, hours)
        one, event = stay(raw), deteriorated(raw)
        assert one.hours == min(hours, LONGEST)
        for t in range(one.hours):
            assert one.label[t] == event[t + 1 : t + 1 + AHEAD].any()
            assert one.asked[t] == (t >= 5 and t + AHEAD <= hours - 1)
            assert one.calm[t] == (one.asked[t] and not event[max(0, t - 5) : t + 1].any())


def test_inputs_never_look_ahead() -> None:
    rng = np.random.default_rng(2)
    raw = wandering(rng, 40)
    scale = Scale.of([stay(raw)])
    whole = stay(raw)
    changed = raw.copy()
    changed[25:] = 500.0
    other = stay(changed)
    first, second = scale.inputs(whole), scale.inputs(other)
    assert np.array_equal(first[:25], second[:25])
    assert not np.array_equal(first[25:], second[25:])
    assert np.array_equal(summary(first, whole.event)[:25], summary(second, other.event)[:25])


def test_summary_by_hand() -> None:
    inputs = np.zeros((8, 12))
    inputs[:, 0] = np.arange(8.0)
    inputs[:, 6] = 1.0  # the first channel is measured every hour
    event = np.array([1, 0, 0, 0, 0, 0, 0, 1], dtype=bool)
    rows = summary(inputs, event)
    assert rows.shape == (8, 45)
    mean, low, high, change, share = (rows[7, 12 + 6 * i] for i in range(5))
    assert (mean, low, high, change, share) == (4.5, 2.0, 7.0, 5.0, 1.0)
    assert rows[7, 42:].tolist() == [1.0, 2.0, 7.0]  # events in hours 2-7, so far, the hour
    assert rows[5, 42:].tolist() == [1.0, 1.0, 5.0]
    assert (rows[1, 12], rows[1, 36]) == (pytest.approx(1 / 6), pytest.approx(2 / 6))


def test_weighted_areas_are_scikit_learns() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        labels = rng.random(80) < 0.4
        scores = np.round(rng.standard_normal(80) + labels, 1)
        weights = rng.integers(0, 4, 80).astype(float)
        roc, precision = Ranking(scores, labels).areas(weights)
        assert roc == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights))
        expected = average_precision_score(labels, scores, sample_weight=weights)
        assert precision == pytest.approx(expected)
    assert np.isnan(Ranking([0.1, 0.2], [True, True]).areas()).all()


def test_the_bootstrap_draws_whole_patients() -> None:
    rng = np.random.default_rng(4)
    owner = np.repeat(np.arange(10), 8)
    labels = rng.random(80) < 0.5
    scores = rng.standard_normal((2, 80)) + labels
    draws = patient_draws(10, 20, seed=0)
    assert (draws.sum(axis=1) == 10).all()
    whole, sampled = bootstrapped(scores, labels, owner, draws)
    assert whole[0] == pytest.approx(np.mean([roc_auc_score(labels, row) for row in scores]))
    for draw, areas in zip(draws, sampled, strict=True):
        hours = np.concatenate([np.flatnonzero(owner == p) for p in np.repeat(range(10), draw)])
        expected = np.mean([roc_auc_score(labels[hours], row[hours]) for row in scores])
        assert areas[0] == pytest.approx(expected)


def written(folder: Path, number: int) -> None:
    """Stays in the format of the PhysioNet 2019 archives, the columns in its order."""
    rng = np.random.default_rng(5)
    raw = [wandering(rng, int(hours)) for hours in rng.integers(8, 40, number)]
    rows = np.concatenate(raw)[:, [0, 4, 5, 1, 2, 3]]
    hundredths = np.where(np.isnan(rows), -1, np.rint(rows * 100)).astype(np.int16)
    (folder / "physionet2019").mkdir(parents=True)
    np.savez(
        folder / "physionet2019" / "vitals_setA_part1.npz",
        x100=hundredths,
        columns=np.array(["HR", "O2Sat", "Temp", "SBP", "DBP", "Resp"]),
        ptr=np.concatenate([[0], np.cumsum([len(one) for one in raw])]),
        patient=np.arange(number),
        sepsis=np.zeros(len(rows), np.uint8),
    )


def test_the_challenges_own_files_do_as_well(tmp_path: Path) -> None:
    written(tmp_path / "npz", 30)
    quick = Settings(tmp_path / "out", tmp_path / "npz", quick=True)
    folder = tmp_path / "psv" / "physionet2019" / "training_setA"
    folder.mkdir(parents=True)
    for number, one in enumerate(set_a(quick)):
        lines = ["HR|O2Sat|Temp|SBP|MAP|DBP|Resp|ICULOS|SepsisLabel"]
        for hour, (hr, sbp, dbp, resp, o2sat, temp) in enumerate(one.vitals):
            lines.append(
                f"{hr}|{o2sat}|{temp}|{sbp}|NaN|{dbp}|{resp}|{hour + 1}|0".replace("nan", "NaN")
            )
        (folder / f"p{number:06d}.psv").write_text("\n".join(lines) + "\n")
    for size in (True, False):
        found = stays(Settings(tmp_path / "out", tmp_path / "psv", quick=size))
        assert len(found) > 20
        assert mark(found) == mark(stays(quick))
    with pytest.raises(MissingError, match=r"vitals_setA_part2\.npz"):  # the full size has both
        stays(Settings(tmp_path / "out", tmp_path / "npz"))


def test_the_first_stays_need_no_second_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 30)
    (tmp_path / "physionet2019" / "vitals_setA_part2.npz").write_bytes(b"damaged")
    quick = Settings(tmp_path / "out", tmp_path, quick=True)
    with pytest.raises(InputError, match=r"vitals_setA_part2\.npz cannot be read"):
        stays(quick)
    monkeypatch.setattr(nexthours, "FIRST", 30)
    assert len(stays(quick)) > 20


def test_stays_without_a_deterioration_are_too_few() -> None:
    with pytest.raises(MissingError, match="40 stays are too few"):
        Cohort.drawn([stay(quiet(20)) for _ in range(40)], seed=0)


@pytest.mark.parametrize(
    ("low", "verdict"), [(-0.009, Verdict.met), (-0.011, Verdict.missed), (0.004, Verdict.met)]
)
def test_level_means_not_more_than_a_hundredth_below(low: float, verdict: Verdict) -> None:
    zeros, gaps = np.zeros((2, 2)), np.full((2, 2), low)
    areas = {SV: (gaps[0], gaps), SOFTMAX: (zeros[0], zeros), LSTM: (zeros[0], zeros)}
    study = Study("prediction", "")
    prediction._add(study, EVERY_HOUR, areas)
    gap, other = [f for f in study.findings if "less that" in f.what]
    assert (gap.low, gap.verdict, other.verdict) == (low, verdict, Verdict.shown)
    assert "not more than 0.01 below" in gap.note


def test_changed_data_make_new_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "find_spec", lambda name: None)
    monkeypatch.setattr(prediction, "SAMPLES", 10)
    settings = Settings(tmp_path / "out", tmp_path, quick=True)
    written(tmp_path, 90)
    first = run(settings)
    assert run(settings).findings == first.findings
    parts = len(list((tmp_path / "out" / "parts").rglob("*.json")))
    path = tmp_path / "physionet2019" / "vitals_setA_part1.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["x100"] = np.where(arrays["x100"] == -1, -1, arrays["x100"] + 10)
    np.savez(path, **arrays)
    run(settings)
    assert len(list((tmp_path / "out" / "parts").rglob("*.json"))) == 2 * parts


def test_stays_are_read_and_split_by_patient(tmp_path: Path) -> None:
    written(tmp_path, 60)
    settings = Settings(out=tmp_path / "out", data=tmp_path, quick=True)
    found = stays(settings)
    assert all(one.hours >= 12 for one in found)
    median = np.nanmedian(np.concatenate([one.raw for one in found]), axis=0)
    assert np.abs(median - USUAL).max() < 15.0  # the channels are in their places
    cohort = Cohort.drawn(found, seed=0)
    parts = (cohort.training, cohort.validation, cohort.test)
    assert sorted(id(one) for part in parts for one in part) == sorted(id(one) for one in found)
    with pytest.raises(MissingError, match="physionet2019"):
        stays(Settings(out=tmp_path, data=tmp_path / "nowhere", quick=True))


def test_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    written(tmp_path, 90)
    monkeypatch.setattr(prediction, "SAMPLES", 40)
    monkeypatch.setattr(prediction, "_epochs", lambda settings: 1)
    settings = Settings(out=tmp_path / "out", data=tmp_path, quick=True)
    study = run(settings)
    assert Study.from_dict(study.as_dict()).findings == study.findings
    areas = {f.what: f for f in study.findings if f.what.startswith(f"AUROC of {SV}, ")}
    assert areas[f"AUROC of {SV}, all hours"].paper == 0.696
    (gap,) = [f for f in study.findings if f"less that of {SOFTMAX}, all" in f.what]
    assert gap.low is not None
    assert gap.high is not None
    assert gap.low <= float(gap.ours) <= gap.high
    assert (settings.out / "prediction.png").stat().st_size > 10_000
    assert not any("Missing" in note for note in study.notes)
    # by hand: LSTM 4 * 112 * (12 + 112 + 2) + 113
    assert any("LSTM 56,561" in note for note in study.notes)


def test_the_study_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, 90)
    there = importlib.util.find_spec
    monkeypatch.setattr(
        prediction, "find_spec", lambda name: None if name == "torch" else there(name)
    )
    monkeypatch.setattr(prediction, "SAMPLES", 40)
    study = run(Settings(out=tmp_path / "out", data=tmp_path, quick=True))
    assert {f.what.split(" of ")[1].split(", ")[0] for f in study.findings} == {
        LOGISTIC.split(", ")[0],
        TREES,
    }
    assert study.notes[-1].startswith(f"*Missing:* {SV}, ")


def test_models_are_causal_and_learn() -> None:
    torch = pytest.importorskip("torch")
    from svmemory.studies.hourmodels import Plan, Sequence, build, trained_scores

    rng = np.random.default_rng(6)

    def sequence() -> Sequence:
        inputs = rng.standard_normal((24, 3)).astype(np.float32)
        label = inputs[:, 0] > 0.0  # told by the hour itself
        return Sequence(inputs, label, np.arange(24) >= 5)

    part = [sequence() for _ in range(48)]
    x = torch.from_numpy(np.stack([one.inputs for one in part[:2]]))
    changed = x.clone()
    changed[:, 17:] += 1.0
    truth = np.concatenate([one.label[one.asked] for one in part[36:]])
    for kind in ("lstm", "softmax", "sv", "uniform"):
        torch.manual_seed(0)
        model = build(kind, 3, 24).eval()
        with torch.no_grad():
            left, right = model(x), model(changed)
        assert torch.allclose(left[:, :17], right[:, :17], atol=1e-6)
        assert not torch.allclose(left[:, 17:], right[:, 17:], atol=1e-6)
        plan = Plan(epochs=6, batch=4, seed=0, lr=1e-2)
        seen, scores = trained_scores(kind, part[:30], part[30:36], part[36:], plan)
        assert len(seen) == 6
        assert roc_auc_score(truth, scores) > 0.9, kind
