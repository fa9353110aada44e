"""``svmemory cohort``: a folder of memory files, and what becomes of bad groups."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Run, in_folder, refused, write_rows
from svmemory import SupportVectorMemory
from svmemory.cli.grouping import file_names

OPTIONS = ["--group", "person", "--key", "HR,SBP", "--nu", "0.5", "--jobs", "1"]


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    return in_folder(tmp_path, capsys, monkeypatch)


def index(folder: str = "out") -> dict[str, dict[str, str]]:
    with open(Path(folder) / "cohort.csv", newline="") as file:
        return {row["group"]: row for row in csv.DictReader(file)}


def test_each_group_is_the_memory_that_python_builds(run: Run) -> None:
    options = ["--value", "sick", "--id", "id", "--subject", "person", "--gamma", "0.01"]
    ran = run("cohort", "p.csv", *OPTIONS, *options, "-o", "out", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.document == {"folder": "out", "groups": 10, "done": 10, "rows": 30, "failed": []}
    with open("p.csv", newline="") as file:
        table = [row for row in csv.DictReader(file) if row["person"] == "s4"]
    twin = SupportVectorMemory.from_nu(0.5, 3, gamma=0.01)
    keys = [[float(row["HR"]), float(row["SBP"])] for row in table]
    values = [float(row["sick"]) for row in table]
    twin.add(keys, values, [row["id"] for row in table], ["s4"] * 3)
    memory = SupportVectorMemory.load("out/s4.svm")
    assert memory.digest() == twin.digest() == index()["s4"]["digest"]
    assert memory.header["group"] == "s4"
    assert memory.header["group_column"] == "person"
    assert index()["s4"] == {
        "group": "s4",
        "file": "s4.svm",
        "rows": "3",
        "status": "done",
        "digest": twin.digest(),
        "error": "",
    }
    assert len(list(Path("out").iterdir())) == 11
    assert run("info", "out/s4.svm").code == 0


def test_scaling_and_gamma_are_the_whole_tables(run: Run) -> None:
    assert run("cohort", "p.csv", *OPTIONS, "--standardize", "-o", "out").code == 0
    memories = [SupportVectorMemory.load(path) for path in Path("out").glob("*.svm")]
    keys = np.concatenate([memory.keys for memory in memories])
    assert keys.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert keys.std(axis=0) == pytest.approx([1, 1], rel=1e-12)
    assert {m.contract.gamma for m in memories} == {memories[0].contract.gamma}
    assert memories[0].contract.gamma == pytest.approx(0.5, rel=1e-12)  # 1 / (2 columns * 1)
    assert {m.contract.mass for m in memories} == {1.5}  # nu times 3 rows each


def test_two_jobs_write_the_same_files(run: Run) -> None:
    assert run("cohort", "p.csv", *OPTIONS, "-o", "one").code == 0
    assert run("cohort", "p.csv", *OPTIONS, "--jobs", "2", "-o", "two").code == 0
    for path in Path("one").iterdir():
        assert path.read_bytes() == (Path("two") / path.name).read_bytes()


def test_a_bad_group_is_named_and_the_rest_are_written(run: Run) -> None:
    text = Path("p.csv").read_text().splitlines()
    text[5] = "004,s1,,120.0,0"
    text[8] = "006,s2,80.0,120.0,0"  # an id for the second time
    Path("p.csv").write_text("\n".join(text) + "\n")
    options = [*OPTIONS, "--id", "id", "--gamma", "0.01"]
    ran = run("cohort", "p.csv", *options, "-o", "out", "--json")
    assert ran.code == 1
    assert ran.document["done"] == 8
    errors = {failed["group"]: failed["error"] for failed in ran.document["failed"]}
    assert set(errors) == {"s1", "s2"}
    assert "row 6 (id '004'), column 'HR': empty" in errors["s1"]
    assert "id '006' is given twice" in errors["s2"]
    assert index()["s1"]["status"] == index()["s2"]["status"] == "failed"
    assert not Path("out/s1.svm").exists()
    assert Path("out/s3.svm").exists()
    ran = run("cohort", "p.csv", *options, "-o", "out", "--force")
    assert ran.code == 1
    assert "memories  8 of 10 groups" in ran.out
    assert "group 's1' failed" in ran.err


def test_a_name_too_long_for_a_file_is_reported(run: Run) -> None:
    rows = ["person,HR", *(f"{'x' * 300},{i}" for i in range(3)), "short,1", "short,2"]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    options = ["--group", "person", "--key", "HR", "--nu", "0.5", "--jobs", "1"]
    ran = run("cohort", "t.csv", *options, "-o", "out", "--json")
    assert ran.code == 1
    assert [failed["group"] for failed in ran.document["failed"]] == ["x" * 300]
    assert "cannot be written" in ran.document["failed"][0]["error"]
    assert index()["short"]["status"] == "done"


def test_what_is_refused(run: Run) -> None:
    Path("full").mkdir()
    Path("full/other.txt").touch()
    refused(run("cohort", "p.csv", *OPTIONS, "-o", "full"), "--force")
    refused(run("cohort", "p.csv", *OPTIONS, "-o", "p.csv"), "not an empty folder")
    refused(run("cohort", "p.csv", *OPTIONS, "--C", "0.1", "-o", "o"), "--nu and --C")
    refused(run("cohort", "p.csv", *OPTIONS, "--jobs", "0", "-o", "o"), "n_jobs must not be 0")
    write_rows("gap.csv", range(6))
    Path("gap.csv").write_text(Path("gap.csv").read_text().replace("s1", ""))
    refused(run("cohort", "gap.csv", *OPTIONS, "-o", "o"), "row 5, column 'person': empty group")
    options = ["--group", "person", "--key", "person", "--nu", "0.5", "--gamma", "1", "-o", "o"]
    refused(run("cohort", "p.csv", *options), "holds text")


def test_file_names_differ_on_every_system():
    names = ["a/b", "..", "A", "a", "a%2", "Ä", "con x", "a"]
    files = file_names(names[:-1])
    assert files["a/b"] == "a%2Fb.svm"
    assert files[".."] == "...svm"
    assert (files["A"], files["a"], files["a%2"]) == ("A.svm", "a%2.svm", "a%252.svm")
    assert len({file.casefold() for file in files.values()}) == len(files)
    assert all(set(file).isdisjoint('/\\:*?"<>|') for file in files.values())
