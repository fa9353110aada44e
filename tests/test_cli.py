"""The command line as users meet it: output, files, exit codes."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from commands import BUILD, COLUMNS, RANGES, Run, in_folder, refused, write_rows
from svmemory import SupportVectorMemory
from svmemory.cli.app import app


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    return in_folder(tmp_path, capsys, monkeypatch)


def test_forgotten_file_is_the_file_that_never_saw_them(run: Run) -> None:
    """The whole point, with shell tools alone: cmp says equal."""
    assert run("build", "p.csv", *COLUMNS, *RANGES, "-o", "all.svm").code == 0
    write_rows("rest.csv", [i for i in reversed(range(30)) if i // 3 != 4])
    assert run("build", "rest.csv", "--like", "all.svm", "-o", "rest.svm").code == 0
    ran = run("forget", "all.svm", "--subject", "s4", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.document["removed"] == ["012", "013", "014"]
    assert Path("all.svm").read_bytes() == Path("rest.svm").read_bytes()
    digest = run("digest", "rest.svm").out.strip()
    assert ran.document["digest_after"] == digest != ran.document["digest_before"]
    assert run("digest", "all.svm", "--verify", digest.upper()).code == 0
    with pytest.raises(KeyError):
        SupportVectorMemory.load("all.svm").forget(ids=["012"])


def test_build_says_what_it_built(run: Run) -> None:
    ran = run("build", "p.csv", *BUILD, "--standardize", "-o", "m.svm", "--json")
    document = ran.document
    assert (ran.code, ran.err) == (0, "")
    assert (document["rows"], document["subjects"], document["dimension"]) == (30, 10, 2)
    assert document["contract"]["mass"] == pytest.approx(9.0, abs=1e-9)  # nu n0 = 0.3 * 30
    assert document["contract"]["gamma"] == pytest.approx(0.5, rel=1e-12)  # 1 / (2 columns * 1)
    assert document["scaler"]["kind"] == "standard"
    assert sum(document["sets"].values()) == 30
    memory = SupportVectorMemory.load("m.svm")
    assert memory.ids[0] == "000"
    assert memory.keys.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert memory.keys.std(axis=0) == pytest.approx([1, 1], rel=1e-12)
    assert document["digest"] == memory.digest()
    info = run("info", "m.svm")
    assert document["digest"] in info.out
    assert "30, 10 subjects, optimal" in info.out


def test_scale_from_another_table(run: Run) -> None:
    write_rows("public.csv", range(100, 140))
    ran = run("build", "p.csv", *BUILD, "--scale-from", "public.csv", "-o", "m.svm", "--json")
    with open("public.csv") as file:
        public = np.array([[float(r["HR"]), float(r["SBP"])] for r in csv.DictReader(file)])
    assert ran.document["scaler"]["kind"] == "from-file"
    assert ran.document["scaler"]["mean"] == pytest.approx(public.mean(axis=0), rel=1e-12)
    assert ran.document["scaler"]["scale"] == pytest.approx(public.std(axis=0), rel=1e-12)


def test_read_and_score_scale_their_queries(run: Run) -> None:
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "m.svm")
    memory = SupportVectorMemory.load("m.svm")
    with open("p.csv") as file:
        rows = list(csv.DictReader(file))
    points = np.array([[float(r["HR"]) / 300, float(r["SBP"]) / 250] for r in rows])
    ran = run("read", "m.svm", "p.csv", "--json")
    assert [r["id"] for r in ran.document["readouts"]] == [r["id"] for r in rows]
    readouts = [r["sick"] for r in ran.document["readouts"]]
    assert readouts == pytest.approx(memory.read(points)[:, 0], abs=1e-12)

    assert run("score", "m.svm", "p.csv", "-o", "s.csv").code == 0
    with open("s.csv") as file:
        scores = list(csv.DictReader(file))
    gate = np.array([float(r["gate_score"]) for r in scores])
    decision = np.array([float(r["decision"]) for r in scores])
    assert gate == pytest.approx(memory.score(points), abs=1e-12)
    partition = memory.partition
    inside = {r["id"]: d for r, d in zip(scores, decision, strict=True)}
    assert min(inside[row] for row in partition.reserve) > 0
    assert max(abs(inside[row]) for row in partition.margin) < 1e-6
    assert max(inside[row] for row in partition.error) < 0


def test_piped_results_are_complete_csv(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    with open("q.csv", "w") as file:
        file.write("SBP,HR\n" + "120,80\n" * 60)
    lines = run("read", "m.svm", "q.csv").out.splitlines()
    assert lines[0] == "row,sick"
    assert len(lines) == 61
    assert len(set(line.partition(",")[2] for line in lines[1:])) == 1


def test_forget_by_id_into_another_file(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    before = Path("m.svm").read_bytes()
    ran = run("forget", "m.svm", "--id", "000,001", "--id", "029", "-o", "n.svm", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert Path("m.svm").read_bytes() == before
    assert len(SupportVectorMemory.load("n.svm")) == 27
    refused(run("forget", "m.svm", "--id", "003", "-o", "n.svm"), "--force")


def test_forget_warns_of_what_the_rows_left_in_the_scaling(run: Run) -> None:
    run("build", "p.csv", *BUILD, "--standardize", "-o", "m.svm")
    ran = run("forget", "m.svm", "--id", "000")
    assert ran.err.startswith("warning: scaling and gamma came from all rows at build")
    assert ran.err.count("\n") == 1
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "r.svm")
    assert run("forget", "r.svm", "--id", "000").err == ""


def test_unknown_subjects_and_ids(run: Run) -> None:
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "m.svm")
    before = Path("m.svm").read_bytes()
    refused(run("forget", "m.svm", "--subject", "s99"), "'s99'")
    refused(run("forget", "m.svm", "--id", "000,nobody"), "'nobody'")
    assert Path("m.svm").read_bytes() == before
    ran = run("forget", "m.svm", "--id", "000,nobody", "--missing", "ignore", "--json")
    assert ran.document["removed"] == ["000"]


def test_forgetting_everybody_leaves_an_empty_memory(run: Run) -> None:
    run("build", "p.csv", *BUILD, "--standardize", "-o", "m.svm")
    everybody = [part for k in range(10) for part in ("--subject", f"s{k}")]
    assert run("forget", "m.svm", *everybody, "--json").document["rows_left"] == 0
    info = run("info", "m.svm", "--json").document
    assert (info["rows"], info["status"], info["key_columns"]) == (0, "empty", ["HR", "SBP"])
    refused(run("read", "m.svm", "p.csv"), "rows")


def test_prune_drops_the_reserve_and_moves_no_readout(run: Run) -> None:
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "m.svm")
    reserve = SupportVectorMemory.load("m.svm").partition.reserve
    before = [r["sick"] for r in run("read", "m.svm", "p.csv", "--json").document["readouts"]]
    ran = run("prune", "m.svm", "--json")
    assert sorted(ran.document["removed"]) == sorted(reserve)
    assert len(reserve) > 0
    after = [r["sick"] for r in run("read", "m.svm", "p.csv", "--json").document["readouts"]]
    assert after == pytest.approx(before, abs=1e-12)


def test_digest_mismatch_is_exit_1(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    assert "differs" in run("digest", "m.svm", "--verify", "0" * 64).err
    ran = run("digest", "m.svm", "--verify", "0" * 64, "--json")
    assert (ran.code, ran.document["match"]) == (1, False)
    assert len(ran.document["digest"]) == 64
    refused(run("digest", "m.svm", "--verify", "abc"), "64 hexadecimal")


def test_ridge_zero_has_no_digest_but_works(run: Run) -> None:
    ran = run("build", "p.csv", *BUILD, "--standardize", "--ridge", "0", "-o", "m.svm", "--json")
    assert (ran.code, ran.document["digest"]) == (0, None)
    assert run("forget", "m.svm", "--subject", "s1", "--json").document["digest_after"] is None
    refused(run("digest", "m.svm"), "ridge > 0")


def test_info_lists_rows(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    lines = run("info", "m.svm", "--rows").out.splitlines()
    assert lines[0] == "id,subject,set,weight"
    assert len(lines) == 31
    rows = run("info", "m.svm", "--rows", "--json").document["row_list"]
    assert sum(row["weight"] for row in rows) == pytest.approx(1.0, abs=1e-12)
    assert {row["set"] for row in rows} <= {"margin", "error", "reserve"}


def test_plot(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    assert run("plot", "m.svm", "-o", "m.png", "--json").document["rows"] == 30
    assert Path("m.png").stat().st_size > 10_000
    refused(run("plot", "m.svm", "-o", "m.gif"), ".png")
    refused(run("plot", "m.svm", "-o", "m.svm"), "input of this command")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "p.csv", "--key", "HR,SPB", "--nu", "0.3"], "did you mean 'SBP'"),
        (["build", "p.csv", *COLUMNS], "exactly one of --nu and --C"),
        (["build", "p.csv", *BUILD, "--C", "0.1"], "exactly one of --nu and --C"),
        (["build", "p.csv", "--nu", "0.3"], "--key"),
        (["build", "p.csv", *COLUMNS, "--nu", "0"], "nu must be in (0, 1]"),
        (["build", "p.csv", *COLUMNS, "--C", "-1"], "C must be > 0"),
        (["build", "p.csv", *BUILD, "--gamma", "wide"], "gamma must be a number or 'scale'"),
        (["build", "p.csv", *BUILD, "--ridge", "1e-14"], "ridge must be"),
        (["build", "p.csv", *BUILD, "--standardize", *RANGES[:2]], "at most one of"),
        (["build", "p.csv", *BUILD, "--range", "HR=0:1"], "no range"),
        (["build", "none.csv", *BUILD], "no such file"),
        (["build", "p.csv", "--like", "p.csv"], "p.csv"),
        (["build", "p.csv", "--like", "p.csv", "--ridge", "0"], "--like takes everything"),
        (["build", "p.csv", *BUILD, "--value", "person"], "one-hot"),
        (["build", "p.csv", *BUILD, "--bogus"], "--bogus"),
        (["build", "p.csv", *BUILD, "--nu", "many"], "--nu"),
    ],
)
def test_bad_builds_write_nothing(run: Run, arguments: list[str], message: str) -> None:
    refused(run(*arguments, "-o", "out.svm"), message)
    assert sorted(os.listdir()) == ["p.csv"]


def test_outputs_are_not_overwritten_by_accident(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    refused(run("build", "p.csv", *BUILD, "-o", "m.svm"), "--force")
    assert run("build", "p.csv", *BUILD, "-o", "m.svm", "--force").code == 0
    refused(run("build", "p.csv", *BUILD, "-o", "p.csv", "--force"), "input of this command")
    refused(run("build", "p.csv", *BUILD, "-o", "nowhere/m.svm"), "folder does not exist")
    refused(run("read", "m.svm", "p.csv", "-o", "p.csv"), "input of this command")
    refused(run("read", "m.svm", "p.csv", "-o", "r.txt"), ".csv, .json or .parquet")


def test_files_that_are_not_memories(run: Run) -> None:
    refused(run("info", "p.csv"), "p.csv")
    refused(run("info", "none.svm"), "no such file")
    refused(run("info", "."), "not a file")
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    content = Path("m.svm").read_bytes()
    Path("cut.svm").write_bytes(content[: len(content) // 2])
    refused(run("digest", "cut.svm"), "cut.svm")


def test_queries_must_have_the_key_columns(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    with open("q.csv", "w") as file:
        file.write("id,heart,SBP\n1,70,120\n2,,120\n")
    refused(run("read", "m.svm", "q.csv"), "no column 'HR'")
    refused(run("score", "m.svm", "q.csv", "--key", "SBP"), "2 key columns, got 1")
    refused(run("score", "m.svm", "q.csv", "--key", "heart,SBP"), "row 3 (id '2')")


def test_a_file_changed_in_the_meantime_is_not_overwritten(run: Run, monkeypatch: Any) -> None:
    """Two deletions at once: the later writer must not bring back what the first one removed."""
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    original = SupportVectorMemory.forget

    def slow_forget(self: SupportVectorMemory, *args: Any, **kwargs: Any) -> Any:
        other = SupportVectorMemory.load("m.svm")
        original(other, subject="s0")
        other.save("m.svm")
        return original(self, *args, **kwargs)

    monkeypatch.setattr(SupportVectorMemory, "forget", slow_forget)
    refused(run("forget", "m.svm", "--subject", "s1"), "changed by another program")
    assert "000" not in SupportVectorMemory.load("m.svm")


def test_ctrl_c_leaves_the_file_alone(run: Run) -> None:
    run("build", "p.csv", *BUILD, "-o", "m.svm")
    before = Path("m.svm").read_bytes()
    script = (
        "import os, signal, svmemory\n"
        "from svmemory.cli import main\n"
        "original = svmemory.SupportVectorMemory.forget\n"
        "def forget(self, *args, **kwargs):\n"
        "    result = original(self, *args, **kwargs)\n"
        f"    os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "    return result\n"
        "svmemory.SupportVectorMemory.forget = forget\n"
        "main(['forget', 'm.svm', '--subject', 's1'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert Path("m.svm").read_bytes() == before
    assert sorted(os.listdir()) == ["m.svm", "p.csv"]


def test_module_and_script_exit_codes(run: Run) -> None:
    command = [sys.executable, "-m", "svmemory"]
    bad = subprocess.run(
        [*command, "info", "none.svm"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "svmemory: error: none.svm: no such file\n"
    assert run("--version").out.startswith("svmemory 0.")


def test_every_command_has_help_and_json() -> None:
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    listing = runner.invoke(app, ["--help"]).output
    names = ["demo", "build", "info", "read", "score", "forget", "prune", "digest", "plot"]
    audits = [["audit", name] for name in ("deletion", "sequence", "drain")]
    for command in [[name] for name in names] + audits:
        assert command[0] in listing
        shown = runner.invoke(app, [*command, "--help"])
        assert shown.exit_code == 0
        assert "--json" in shown.output, command
