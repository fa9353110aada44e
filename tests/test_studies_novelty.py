"""Novelty detection: splits, detectors, the poisoned stream, and the study on small tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from svmemory.studies.detectors import OURS, THEIRS, detectors
from svmemory.studies.novelty import _ranks, run
from svmemory.studies.outliers import Table, split, table, table_names
from svmemory.studies.poison import poisoned_stream
from svmemory.studies.ranking import Ranking
from svmemory.studies.result import Study, Verdict
from svmemory.studies.settings import MissingError, Settings


def made(normal: int = 300, anomalies: int = 120, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((normal, 3)) * [1.0, 5.0, 0.2] + [0.0, 50.0, 3.0]
    odd = rng.standard_normal((anomalies, 3)) * [0.3, 2.0, 0.1] + [3.0, 60.0, 3.6]
    return Table("made", rows, odd)


def written(folder: Path, data: Table, name: str) -> None:
    (folder / "adbench").mkdir(parents=True, exist_ok=True)
    rows = np.concatenate([data.normal, data.anomalies])
    np.savez(
        folder / "adbench" / f"{name}.npz",
        X=rows,
        y=np.repeat([0, 1], [len(data.normal), len(data.anomalies)]),
    )


def test_a_split_keeps_test_rows_out_of_training() -> None:
    data = made()
    part = split(data, most=100, seed=3)
    assert part.train.shape == (100, 3)
    assert part.truth.tolist() == [0] * 100 + [1] * 100
    assert np.allclose(part.train.mean(axis=0), 0.0)
    assert np.allclose(part.train.std(axis=0), 1.0)
    train = {row.tobytes() for row in np.round(part.train, 9)}
    assert not train & {row.tobytes() for row in np.round(part.points, 9)}
    again = split(data, most=100, seed=3)
    assert again.points.tobytes() == part.points.tobytes()
    flat = Table("flat", np.column_stack([data.normal, np.full(300, 7.3)]), np.zeros((4, 4)))
    assert split(flat, most=100, seed=0).train.shape == (100, 3)


def test_tables_come_in_adbench_order(tmp_path: Path) -> None:
    for name in ("12_b", "4_a", "extra"):
        written(tmp_path, made(20, 5), name)
    settings = Settings(out=tmp_path / "out", data=tmp_path)
    assert table_names(settings) == ["4_a", "12_b", "extra"]
    assert (len(table(settings, "4_a").normal), len(table(settings, "4_a").anomalies)) == (20, 5)
    assert table(settings, "12_b").name == "b"
    with pytest.raises(MissingError, match="adbench"):
        table_names(Settings(out=tmp_path, data=tmp_path / "nowhere"))


def test_every_detector_finds_far_rows() -> None:
    part = split(made(anomalies=20), most=150, seed=0)
    found = {name: detect(part.train, part.points, 0) for name, detect in detectors().items()}
    for name, scores in found.items():
        assert roc_auc_score(part.truth, scores) > 0.9, name
    areas = [roc_auc_score(part.truth, found[name]) for name in (OURS, THEIRS)]
    assert areas[0] == pytest.approx(areas[1], abs=1e-3)


def test_pyods_knn_is_the_distance_to_the_fifth_neighbour() -> None:
    pytest.importorskip("pyod")
    part = split(made(), most=80, seed=0)
    scores = detectors()["KNN (PyOD)"](part.train, part.points, 0)
    distances, _ = NearestNeighbors(n_neighbors=5).fit(part.train).kneighbors(part.points)
    assert np.allclose(scores, distances[:, -1])


@pytest.mark.parametrize("seed", range(3))
def test_forgetting_the_poison_restores_every_bit(seed: int) -> None:
    found = poisoned_stream(made(seed=seed), most=120, seed=seed)
    assert found.poisoned == round(found.clean / 9)
    assert found.same_digest
    assert found.same_scores
    assert found.after == found.before
    assert found.during < found.before  # anomalies among the rows make anomalies look usual


def test_ranks_share_places() -> None:
    values = np.array([[0.3, 0.1, 0.3, 0.9], [1.0, 1.0, 1.0, 1.0]])
    assert _ranks(values).tolist() == [[2.5, 1.0, 2.5, 4.0], [2.5, 2.5, 2.5, 2.5]]


def test_areas_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth = rng.random(60) < 0.3
        scores = np.round(rng.standard_normal(60) + truth, 1)  # with ties
        roc, precision = Ranking(scores, truth).areas()
        assert roc == pytest.approx(roc_auc_score(truth, scores))
        assert precision == pytest.approx(average_precision_score(truth, scores))


def test_the_study(tmp_path: Path) -> None:
    # names of the quick size; the first has too few anomalies for a stream
    written(tmp_path, made(90, 20, seed=1), "45_wine")
    written(tmp_path, made(200, 110, seed=2), "29_Pima")
    settings = Settings(out=tmp_path / "out", data=tmp_path, quick=True, seeds=2)
    study = run(settings)
    assert Study.from_dict(study.as_dict()).findings == study.findings
    promised = [f for f in study.findings if f.verdict != Verdict.shown]
    assert [f.ours for f in promised] == ["2/2", "2/2"]
    assert all(f.verdict == Verdict.met for f in promised)
    assert [figure.name for figure in study.figures] == ["novelty-areas", "novelty-poison"]
    for figure in study.figures:
        assert (settings.out / f"{figure.name}.png").stat().st_size > 10_000
    assert run(settings).as_dict() == study.as_dict()  # from what was kept
    before = set((settings.out / "parts" / "novelty").iterdir())
    written(tmp_path, made(90, 20, seed=3), "45_wine")
    run(settings)
    new = set((settings.out / "parts" / "novelty").iterdir()) - before
    assert [path.name.split("-")[:2] for path in new] == [["areas", "45_wine"]]
