"""The rare-item task, its readout, its map and a small run of the study."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from svmemory.studies import redundancy, redundancy_map
from svmemory.studies.redundancy_map import Cell, Grid, compare, grids
from svmemory.studies.redundancy_task import (
    EVERYTHING,
    NAMES,
    ORACLE,
    PEERS,
    Task,
    answers,
    draw,
    recalls,
)
from svmemory.studies.result import Verdict
from svmemory.studies.settings import Settings


def test_a_context_has_the_papers_sizes_with_singletons_first() -> None:
    drawn = draw(Task(), 3)
    assert drawn.keys.shape == (66, 4)
    assert drawn.items[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert np.bincount(drawn.items).tolist() == [1] * 6 + [10] * 6
    assert drawn.warm.shape == drawn.asked.shape == (12, 4)
    assert not np.array_equal(drawn.warm, drawn.asked)
    assert np.array_equal(draw(Task(), 3).keys, drawn.keys)


def test_noise_and_spread_are_standard_deviations() -> None:
    task = Task(copies=50, groups=40, noise=0.3, dimension=3)
    drawn = draw(task, 0)
    rows = drawn.keys[6:].reshape(40, 50, 3)
    assert rows.std(axis=1, ddof=1).mean() == pytest.approx(0.3, rel=0.05)
    assert rows.mean(axis=1).std() == pytest.approx(1.5, rel=0.15)
    assert (drawn.asked - drawn.warm).std() == pytest.approx(0.05 * math.sqrt(2), rel=0.15)


def test_shuffling_moves_rows_only() -> None:
    straight, shuffled = draw(Task(), 1), draw(replace(Task(), shuffled=True), 1)
    assert not np.array_equal(straight.keys, shuffled.keys)
    for item in range(12):
        a, b = (d.keys[d.items == item] for d in (straight, shuffled))
        assert sorted(a.tolist()) == sorted(b.tolist())


@pytest.mark.parametrize("weighted", [False, True])
def test_an_answer_is_the_item_with_the_largest_sum(weighted: bool) -> None:
    drawn = draw(Task(), 2)
    rng = np.random.default_rng(0)
    kept = np.sort(rng.permutation(66)[:30])
    weights = rng.random(30) if weighted else None
    expected = []
    for q in drawn.asked:
        votes = dict.fromkeys(range(12), 0.0)
        for i, row in enumerate(kept):
            k = math.exp(-0.7 * float(((q - drawn.keys[row]) ** 2).sum()))
            votes[int(drawn.items[row])] += k if weights is None else k * weights[i]
        expected.append(max(votes, key=lambda item: votes[item]))
    assert answers(drawn, kept, 0.7, 12, weights).tolist() == expected


@pytest.mark.parametrize("seed", range(3))
def test_what_always_holds_at_the_papers_setting(seed: int) -> None:
    found = recalls(Task(), seed)
    assert set(NAMES) <= set(found)
    assert found["recency"][0] == 0.0  # the last rows are no singletons
    assert found["self_mass"][0] == 0.0  # singletons have the smallest sums
    assert all(0.0 <= share <= 1.0 for pair in found.values() for share in pair)
    drawn = draw(Task(), seed)
    right = answers(drawn, np.arange(66), 1 / 1.44, 12) == np.arange(12)
    assert found[EVERYTHING] == (right[:6].mean(), right.mean())


def test_keeping_all_rows_makes_all_policies_equal() -> None:
    found = recalls(Task(copies=1, nu=1.0), 0)  # at nu = 1 every row is at the cap
    assert found["kept"] == (1.0, 1.0)
    assert {found[name] for name in ("support", *PEERS)} == {found[EVERYTHING]}


def test_a_mean_is_judged_with_both_sampling_errors() -> None:
    recall = np.array([0.0, 1.0] * 100)  # mean 0.5, interval about +-0.07; of 60 contexts +-0.13
    for paper, verdict in ((0.55, Verdict.met), (0.62, Verdict.met), (0.68, Verdict.differs)):
        assert redundancy.judge(recall, 0.5, (0.43, 0.57), paper)[0] == verdict
    assert redundancy.judge(recall, 0.5, (0.43, 0.57), 0.55)[1] == ""


def test_a_cell_compares_with_the_best_peer() -> None:
    found = {name: [[0.1, 0.2]] * 4 for name in PEERS}
    found["k_centre"] = [[0.5, 0.2]] * 2 + [[0.7, 0.2]] * 2
    found["support"] = [[0.9, 0.2]] * 4
    found["kept"] = [[0.3, 0.3]] * 4
    cell = compare(found, 0)
    assert (cell.best, cell.kept) == ("k_centre", pytest.approx(0.3))
    assert cell.difference == pytest.approx(0.3)
    assert cell.interval[0] == pytest.approx(0.3 - 3.182446 * 0.1 / math.sqrt(3))
    assert redundancy.leads(cell, 1)
    assert not redundancy.leads(cell, -1)
    assert redundancy.leads(Cell("random", -0.2, (-0.3, -0.1), 0.5), -1)


@pytest.mark.parametrize("quick", [True, False])
def test_the_map_holds_the_papers_setting_in_both_panels(quick: bool) -> None:
    for grid in grids(quick):
        assert set(grid.tasks) == set(np.ndindex(len(grid.rows[1]), len(grid.columns[1])))
        assert Task() in grid.tasks.values()


def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = {(0, 0): Task(copies=2), (0, 1): Task(copies=2, noise=0.3)}
    small = [Grid(("copies", [2.0]), ("noise", [0.15, 0.3]), tasks)] * 2
    monkeypatch.setattr(redundancy, "grids", lambda quick: small)
    settings = Settings(tmp_path, tmp_path, quick=True, seeds=12)
    study = redundancy.run(settings)
    assert (study.name, study.title) == ("redundancy", "Rare items under skewed redundancy")
    by_name = {f.what: f for f in study.findings}
    ours = by_name["rare recall, support (ours)"]
    assert (ours.paper, ours.low is not None) == (0.861, True)
    assert by_name[f"rare recall, {NAMES[ORACLE]}"].paper == 0.319
    over_oracle = by_name[f"rare recall, support minus {NAMES[ORACLE]}"]
    assert over_oracle.verdict == Verdict.met
    assert over_oracle.low is not None
    assert over_oracle.low > 0
    assert {figure.name for figure in study.figures} == {
        "redundancy",
        "redundancy-map",
        "redundancy-map-all",
    }
    for figure in study.figures:
        assert (tmp_path / f"{figure.name}.png").read_bytes().startswith(b"\x89PNG")

    def again(*_: object, **__: object) -> None:
        raise AssertionError("computed twice")

    monkeypatch.setattr(redundancy, "recalls", again)
    monkeypatch.setattr(redundancy_map, "recalls", again)
    assert redundancy.run(settings).findings == study.findings
