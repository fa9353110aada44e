"""What the command line says when something is wrong is about the user's file and options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from commands import COLUMNS, RANGES, Run, in_folder, refused
from svmemory import SupportVectorMemory
from svmemory.cli.output import print_records


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    return in_folder(tmp_path, capsys, monkeypatch)


@pytest.fixture
def memory(run: Run) -> Path:
    """A memory of the persons s0 to s9, with ids from 000 to 029."""
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "m.svm")
    return Path("m.svm")


# --- forget ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_", [["--subject", "bob"], ["--id", "99"], ["--id", "98,99"]], ids=lambda r: r[1]
)
def test_nothing_to_forget_is_no_error_when_missing_is_ignored(
    memory: Path, run: Run, request_: list[str]
) -> None:
    before = memory.read_bytes()
    ran = run("forget", "m.svm", *request_, "--missing", "ignore", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = ran.document
    assert (document["removed"], document["rows_left"], document["events"]) == ([], 30, 0)
    digest = run("digest", "m.svm").out.strip()
    assert document["digest_before"] == document["digest_after"] == digest
    assert memory.read_bytes() == before
    text = run("forget", "m.svm", *request_, "--missing", "ignore", "-o", "n.svm")
    assert text.out.startswith("removed        0 rows\n")
    assert Path("n.svm").read_bytes() == before


def test_what_is_missing_is_named_when_it_is_ignored(memory: Path, run: Run) -> None:
    some = ["--id", "000,nope", "--missing", "ignore"]
    shown = run("forget", "m.svm", *some, "--preview", "--json").document
    assert shown["missing"] == ["nope"]
    document = run("forget", "m.svm", *some, "-o", "n.svm", "--json").document
    assert (document["removed"], document["missing"]) == (["000"], ["nope"])
    assert "not held       nope\n" in run("forget", "m.svm", *some).out
    people = ["--subject", "s1", "--subject", "bob", "--missing", "ignore", "--json"]
    assert run("forget", "m.svm", *people).document["missing"] == ["bob"]


def test_advice_is_in_the_words_of_the_command_line(memory: Path, run: Run) -> None:
    for request in (["--id", "99,98,000"], ["--subject", "bob"]):
        ran = run("forget", "m.svm", *request)
        refused(ran, "--missing ignore skips it")
        assert "missing=" not in ran.err
    refused(run("forget", "m.svm", "--id", "99,98,000"), "no row with id '99' (and 1 more);")
    refused(run("forget", "m.svm", "--id", " ,", "--missing", "ignore"), "--id names no ids")


def test_blanks_around_ids_do_not_count(memory: Path, run: Run) -> None:
    ran = run("forget", "m.svm", "--id", "000, 001 ,", "--id", " 002", "--json")
    assert ran.document["removed"] == ["000", "001", "002"]


def test_ids_with_blanks_and_commas_of_their_own(run: Run) -> None:
    Path("t.csv").write_text('id,x\n" a",1\nb,2\n"c, d",3\n')
    run("build", "t.csv", "--key", "x", "--id", "id", "--C", "1", "-o", "t.svm")
    ran = run("forget", "t.svm", "--id", "b, a", "--id", "c, d", "--json")
    assert ran.document["removed"] == ["b", " a", "c, d"]


def test_values_are_asked_for_in_the_words_of_the_command_line(run: Run) -> None:
    run("build", "p.csv", "--key", "HR", "--C", "0.1", "-o", "k.svm")
    refused(run("read", "k.svm", "p.csv"), "k.svm holds no values to read: build it with --value")


# --- cells -------------------------------------------------------------------------------------

BIG = "id,x,y\na,1,2\nb,2,1e200\nc,3,5\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--key", "x,y"], "big.csv: row 3 (id 'b'), column 'y': 1e+200 is too large"),
        (["--key", "x,y", "--gamma", "1"], "row 3 (id 'b'), column 'y': 1e+200 is too large"),
        (["--key", "x", "--value", "y"], "row 3 (id 'b'), column 'y': 1e+200 is too large"),
        (
            ["--key", "x", "--range", "x=0:1e-160"],
            "row 2 (id 'a'), column 'x': 1, scaled 1e+160, is too large; beyond 1e+150 squares"
            " overflow: use another range or unit",
        ),
        (["--key", "x", "--range", "x=1e-320:2e-320"], "'x=1e-320:2e-320' is too short"),
        (["--key", "x", "--range", "x=-1e308:1e308"], "'x=-1e308:1e308' is too long"),
        (["--key", "x", "--range", "x=2:1"], "LOW must be less than HIGH"),
    ],
    ids=["key", "gamma", "value", "scaled", "short", "long", "inverted"],
)
def test_sizes_out_of_range_name_the_cell(run: Run, options: list[str], message: str) -> None:
    Path("big.csv").write_text(BIG)
    refused(run("build", "big.csv", "--id", "id", *options, "--nu", "0.5", "-o", "o.svm"), message)
    assert not Path("o.svm").exists()


def test_queries_out_of_range_name_the_cell(memory: Path, run: Run) -> None:
    Path("q.csv").write_text("id,HR,SBP\nq1,70,120\nq2,70,1e200\n")
    for command in ("read", "score"):
        refused(run(command, "m.svm", "q.csv"), "q.csv: row 3 (id 'q2'), column 'SBP': 1e+200, sca")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gamma", "scale"], "scaled keys have standard deviation 8.16e-201: too small"),
        (["--standardize", "--key", "z"], "key column 'z' has standard deviation 8.1"),
        (["--scale-from", "tiny.csv", "--key", "z"], "key column 'z' has standard deviation 8"),
    ],
    ids=["gamma", "standardize", "scale-from"],
)
def test_keys_that_hardly_vary_are_named(run: Run, options: list[str], message: str) -> None:
    Path("tiny.csv").write_text("x,z\n1e-200,1e-320\n2e-200,2e-320\n0,0\n")
    refused(run("build", "tiny.csv", "--key", "x", *options, "--nu", "1", "-o", "o.svm"), message)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_standardising_takes_any_unit(run: Run, size: float) -> None:
    Path("t.csv").write_text(f"x\n{size}\n{2 * size}\n0\n")
    ran = run("build", "t.csv", "--key", "x", "--standardize", "--nu", "1", "-o", "t.svm", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.document["scaler"]["scale"] == pytest.approx([size * (2 / 3) ** 0.5], rel=1e-15)
    keys = SupportVectorMemory.load("t.svm").keys[:, 0]
    assert keys == pytest.approx([0.0, 1.5**0.5, -(1.5**0.5)], abs=1e-12)


@pytest.mark.parametrize("role", ["--id", "--subject"])
@pytest.mark.parametrize(
    "cells", [pl.Series([["a"], ["b"]]), pl.Series([{"a": 1}, {"a": 2}])], ids=["list", "struct"]
)
def test_a_column_that_cannot_name_rows_is_an_input_error(
    run: Run, role: str, cells: pl.Series
) -> None:
    pl.DataFrame({"c": cells, "x": [1.0, 2.0]}).write_parquet("t.parquet")
    arguments = ["build", "t.parquet", "--key", "x", role, "c", "--C", "1", "-o", "o.svm"]
    refused(run(*arguments), "t.parquet: column 'c' holds ")


# --- output that nobody reads ------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE and no such exit code")
@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "m.svm", "--json"],
        ["score", "m.svm", "p.csv"],
        ["audit", "drain", "--rows", "4", "--sequences", "1"],
        ["info", "none.svm"],
    ],
    ids=["json", "csv", "rich", "error"],
)
def test_a_closed_pipe_is_no_failed_check(memory: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    broken = {"stderr" if arguments[1] == "none.svm" else "stdout": writing}
    done = subprocess.run(
        [sys.executable, "-m", "svmemory", *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | broken,
        timeout=240,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stdout or b"", done.stderr or b"") == (141, b"", b"")


def test_an_output_closed_from_the_start_is_no_error(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    print_records({"x": [1.0]}, "title")
