"""How studies run, what they keep, their intervals, and the report."""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from svmemory.cli import app as cli
from svmemory.errors import InputError
from svmemory.studies import registry, report
from svmemory.studies.figures import drawn, styles
from svmemory.studies.report import Spent
from svmemory.studies.result import Figure, Study, Verdict, against
from svmemory.studies.saved_runs import SavedRun, thinned, write_runs
from svmemory.studies.settings import MissingError, Settings, need, reading, seal
from svmemory.studies.statistics import (
    bootstrap_interval,
    excludes_zero,
    mean_interval,
    share_interval,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(out=tmp_path / "out", data=tmp_path / "data", quick=True)


# -- intervals -------------------------------------------------------------------------------------


def test_interval_of_a_mean_is_students() -> None:
    x = [1.0, 4.0, 2.0, 2.5]
    mean, (low, high) = mean_interval(x)
    expected = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
    assert mean == pytest.approx(np.mean(x))
    assert (low, high) == pytest.approx((expected.low, expected.high))
    assert all(math.isnan(end) for end in mean_interval([3.0])[1])
    assert mean_interval([0.9, 1.0], 0.0, 1.0)[1][1] == 1.0


@pytest.mark.parametrize(("hits", "tries"), [(0, 40), (40, 40), (13, 40)])
def test_interval_of_a_share_is_wilsons(hits: int, tries: int) -> None:
    expected = stats.binomtest(hits, tries).proportion_ci(0.95, method="wilson")
    share, interval = share_interval(hits, tries)
    assert share == hits / tries
    assert interval == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_share_lies_in_its_interval() -> None:
    for tries in range(1, 200):
        for hits in (0, 1, tries - 1, tries):
            share, (low, high) = share_interval(hits, tries)
            assert 0.0 <= low <= share <= high <= 1.0


def test_bootstrap_agrees_with_scipy_and_weights_count() -> None:
    rng = np.random.default_rng(3)
    x = rng.exponential(size=80)
    mean, (low, high) = bootstrap_interval(x, samples=4000, seed=1)
    expected = stats.bootstrap(
        (x,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert mean == pytest.approx(x.mean())
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.03)
    weighted, _ = bootstrap_interval([0.0, 1.0], weights=[3.0, 1.0], samples=10)
    assert weighted == 0.25
    assert bootstrap_interval(x, seed=5) == bootstrap_interval(x, seed=5)


def test_which_intervals_exclude_zero() -> None:
    assert excludes_zero((0.1, 0.2))
    assert excludes_zero((-0.2, -0.1))
    assert not excludes_zero((-0.1, 0.2))
    assert not excludes_zero((math.nan, math.nan))


@pytest.mark.parametrize(
    ("ours", "interval", "paper", "better", "verdict"),
    [
        (0.86, (0.84, 0.88), 0.861, 0, Verdict.met),
        (0.90, (0.89, 0.91), 0.861, 0, Verdict.differs),
        (0.90, (0.89, 0.91), 0.861, 1, Verdict.met),
        (0.80, (0.79, 0.81), 0.861, 1, Verdict.differs),
        (0.80, (0.79, 0.81), 0.861, -1, Verdict.met),
        (0.75, (-2.4, 3.9), 0.861, 0, Verdict.shown),  # two contexts
        (0.99, (math.nan, math.nan), 0.5, 1, Verdict.shown),  # one seed
    ],
)
def test_verdict_beside_the_papers_number(
    ours: float, interval: tuple[float, float], paper: float, better: int, verdict: Verdict
) -> None:
    found, note = against(ours, interval, paper, better)
    assert found is verdict
    assert (note == "too few repetitions to tell") == (verdict is Verdict.shown)


# -- settings --------------------------------------------------------------------------------------


def test_a_part_is_made_once_and_again_when_its_making_changes(settings: Settings) -> None:
    calls: list[int] = []

    def make() -> dict[str, float]:
        calls.append(1)
        return {"x": 0.1 + 0.2}

    first = settings.kept("a/part", {"seed": 0}, make)
    assert settings.kept("a/part", {"seed": 0}, make) == first == {"x": 0.1 + 0.2}
    assert len(calls) == 1
    assert list(settings.before.values()) == [0.0]  # asked for again, but made in this run
    later = Settings(settings.out, settings.data, quick=True)
    assert later.kept("a/part", {"seed": 0}, make) == first
    assert len(calls) == 1
    assert [seconds > 0.0 for seconds in later.before.values()] == [True]
    settings.kept("a/part", {"seed": 1}, make)
    settings.kept("b/part", {"seed": 0}, make)
    assert len(calls) == 3


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("0.75", "0.95"),
        lambda text: "[1, 2]",
        lambda text: '{"found": 1}',
    ],
    ids=["empty", "cut off", "changed", "a list", "another form"],
)
def test_a_damaged_part_is_made_anew(settings: Settings, harm: Callable[[str], str]) -> None:
    made = settings.kept("a/part", {}, lambda: {"x": 0.75})
    [path] = (settings.out / "parts" / "a").iterdir()
    path.write_text(harm(path.read_text()))
    again = Settings(settings.out, settings.data)
    assert again.kept("a/part", {}, lambda: {"x": 0.75}) == made
    assert list(again.before.values()) == [0.0]
    assert Settings(settings.out, settings.data).kept("a/part", {}, dict) == made


def test_seal_is_of_bytes_and_names(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "a").write_bytes(b"xy")
    (folder / "b").write_bytes(b"z")
    first = seal(folder)
    assert seal(folder) == first != seal(folder / "a")
    (folder / "a").write_bytes(b"x")
    (folder / "b").write_bytes(b"yz")
    assert seal(folder) != first


@pytest.mark.parametrize("fault", [ValueError("not a zip"), KeyError("x100"), EOFError()])
def test_whatever_is_wrong_with_a_file_names_it(tmp_path: Path, fault: Exception) -> None:
    with (
        pytest.raises(InputError, match=r"data\.npz cannot be read \("),
        reading(tmp_path / "data.npz"),
    ):
        raise fault
    with pytest.raises(MissingError, match="absent"), reading(tmp_path):
        raise MissingError("absent")


def test_a_study_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = types.ModuleType("broken")
    broken.run = lambda settings: 1 / 0  # type: ignore[attr-defined]
    bad = types.ModuleType("bad")
    bad.run = lambda settings: json.loads("[")  # type: ignore[attr-defined]
    good = types.ModuleType("good")
    good.run = lambda settings: Study("good", "Good", "a setting")  # type: ignore[attr-defined]
    for module in (broken, bad, good):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    chosen = tuple(registry.Entry(name, name, name) for name in ("broken", "bad", "good"))
    absent = registry.Entry("absent", "absent", "good", "no_such_package")
    monkeypatch.setattr(registry, "ENTRIES", (*chosen, absent))
    done = CliRunner().invoke(cli.app, ["reproduce", "all", "--out", str(tmp_path), "--json"])
    assert done.exit_code == 1
    found = {study["name"]: study for study in json.loads(done.stdout)["studies"]}
    assert (found["broken"]["failed"], found["good"]["failed"]) == (True, False)
    assert found["broken"]["missing"] == "stopped by ZeroDivisionError: division by zero"
    assert found["good"]["missing"] is None
    assert (found["absent"]["failed"], "no_such_package" in found["absent"]["missing"]) == (
        False,
        True,
    )
    assert "Failed: stopped by" in (tmp_path / "report.md").read_text()


def test_what_failed_is_not_kept(settings: Settings) -> None:
    def fail() -> int:
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        settings.kept("part", {}, fail)
    assert settings.kept("part", {}, lambda: 3) == 3


def test_absent_data_and_packages_say_how_to_get_them(settings: Settings) -> None:
    with pytest.raises(MissingError, match=r"tofu/x\.json.*--data or SVMEMORY_DATA"):
        settings.file("tofu", "x.json")
    with pytest.raises(MissingError, match=r"pip install 'svmemory\[none\]'"):
        need("no_such_package", "none")


def test_sizes_counts_and_progress(settings: Settings) -> None:
    told: list[tuple[int, int]] = []
    one = Settings(settings.out, settings.data, False, 7, track=lambda i, n: told.append((i, n)))
    assert settings.count(2, 9) == 2
    assert one.count(2, 9) == 7
    assert (settings.size("s", "l"), one.size("s", "l")) == ("s", "l")
    assert list(one.tracked("ab", 2)) == ["a", "b"]
    assert told == [(0, 2), (1, 2), (2, 2)]


# -- report ----------------------------------------------------------------------------------------


def example(out: Path) -> list[Study]:
    study = Study("demo", "A | study", "one setting")
    study.add("rare <recall>", 0.86123, (0.84, 0.88), 0.861, Verdict.met)
    study.add("count | of rows", 12345, None, "300/300", Verdict.differs, "another definition")
    study.add("of NumPy", np.int64(3), np.array([2.5, 3.5]), np.float64(0.5))
    study.add("nothing", float("nan"), (float("nan"), float("nan")))
    study.notes.append("k-centre comes close.")
    with drawn(out / "demo.png") as (_, [axes]):
        axes.plot([0, 1], [0, 1])
    study.figures.append(Figure("demo", "A line."))
    return [study, Study("absent", "Another", missing="needs x & y")]


def test_report_in_three_forms(tmp_path: Path) -> None:
    asked = {"name": "all", "quick": True, "seeds": None, "seed": 0}
    found = report.document(example(tmp_path), asked, {"demo": Spent(60.0, 0.0)})
    paths = {path.suffix: path.read_text() for path in report.write(found, tmp_path)}
    assert json.loads(paths[".json"]) == json.loads(json.dumps(found))
    line = "| rare <recall> | 0.8612 | 0.84 to 0.88 | 0.861 | met |"
    assert line in paths[".md"].splitlines()
    assert (
        "| count \\| of rows | 12,345 |  | 300/300 | differs: another definition |" in paths[".md"]
    )
    assert "| nothing | no number |" in paths[".md"]
    assert "| of NumPy | 3 | 2.5 to 3.5 | 0.5 |  |" in paths[".md"]
    assert "![A line.](demo.png)" in paths[".md"]
    assert "Not run: needs x & y" in paths[".md"]
    assert "in 1.0 minutes" in paths[".md"]
    assert "rare &lt;recall&gt;" in paths[".html"]
    assert "data:image/png;base64," in paths[".html"]
    assert 'src="demo.png"' not in paths[".html"]


def test_page_with_its_figures_beside(tmp_path: Path) -> None:
    asked = {"name": "all", "quick": True, "seeds": None, "seed": 0}
    found = report.document(example(tmp_path), asked, {"demo": Spent(30.0, 90.0)})
    page = tmp_path / "docs" / "results.md"
    report.write_page(found, tmp_path, page)
    assert "![A line.](results/demo.png)" in page.read_text()
    assert "in 2.0 minutes (1.5 of them in earlier runs" in page.read_text()
    figure = page.parent / "results" / "demo.png"
    assert figure.read_bytes() == (tmp_path / "demo.png").read_bytes()


def test_a_study_survives_json(tmp_path: Path) -> None:
    for study in example(tmp_path):
        assert Study.from_dict(json.loads(json.dumps(study.as_dict()))) == study


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), ("300/300", "300/300"), (0, "0"), (0.0, "0"), (12345, "12,345"),
     (0.123456, "0.1235"), (2.5e-16, "2.5e-16"), (-3.0e6, "-3.0e+06"), (99999.4, "1e+05")],
)  # fmt: skip
def test_numbers_as_shown(value: float | str | None, text: str) -> None:
    assert report.shown(value) == text


def test_figures_are_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with drawn(tmp_path / f"{name}.png", panels=2) as (_, panels):
            panels[0].plot([1, 2], [2, 1])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    looks = styles(["x", "sv", "y"], "sv")
    assert len(set(looks.values())) == 3


# -- saved runs ------------------------------------------------------------------------------------


def test_saved_runs_replace_those_of_their_study_only(tmp_path: Path) -> None:
    def one(study: str, label: str) -> SavedRun:
        return SavedRun(study, label, "sv", "tiny", None, 3, 0, 9.0, [1], [2.0], [2.0], [])

    path = tmp_path / "runs.json"
    write_runs(path, {"name": "x"}, [one("a", "old"), one("b", "kept")][:1])
    write_runs(path, {"name": "x"}, [one("b", "kept")])
    write_runs(path, {"name": "x"}, [one("a", "new")])
    runs = json.loads(path.read_text())["runs"]
    assert sorted((r["study"], r["label"]) for r in runs) == [("a", "new"), ("b", "kept")]
    assert thinned([1.0, 3.0, *[2.0] * 8, 1.23456]) == [3.0, 1.235]


# -- the command -----------------------------------------------------------------------------------


def test_command_names_its_studies_and_refuses_others(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(cli.app, ["reproduce", "--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        entry.name for entry in registry.ENTRIES
    ]
    with pytest.raises(InputError, match=r"no study 'nope'; there are: deletion"):
        registry.entries("nope")
    assert [entry.name for entry in registry.entries("icu")] == ["icu"]
    page = runner.invoke(cli.app, ["reproduce", "icu", "--page", str(tmp_path / "page.txt")])
    assert isinstance(page.exception, InputError)
    file = tmp_path / "file"
    file.write_text("")
    refused = runner.invoke(cli.app, ["reproduce", "icu", "--out", str(file)])
    assert refused.exit_code != 0
    assert isinstance(refused.exception, InputError)


def test_command_says_what_is_missing(tmp_path: Path) -> None:
    runner = CliRunner()
    options = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--json"]
    done = runner.invoke(cli.app, ["reproduce", "icu", *options])
    assert done.exit_code == 0, done.output
    [study] = json.loads(done.stdout)["studies"]
    assert "docs/how-to/data.md" in study["missing"]
    assert str(tmp_path) not in done.stdout  # a report may be published
    assert (tmp_path / "out" / "icu.html").exists()
