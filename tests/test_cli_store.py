"""``svmemory --store URL --name MEMORY``: the commands on a store."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from commands import COLUMNS, RANGES, Run, in_folder, refused, write_rows
from svmemory import SupportVectorMemory
from svmemory.store import Store

STORE = ["--store", "s.db", "--name", "vitals"]


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    """Runs commands beside ``s.db``, which holds the memory ``vitals``, and ``m.svm``, the same."""
    call = in_folder(tmp_path, capsys, monkeypatch)
    assert call(*STORE, "build", "p.csv", *COLUMNS, *RANGES).code == 0
    assert call("build", "p.csv", *COLUMNS, *RANGES, "-o", "m.svm").code == 0
    return call


def test_reading_is_as_with_a_file(run: Run) -> None:
    for command in (["digest"], ["info", "--json"], ["info", "--rows"], ["info", "--plan", "3"]):
        name, *options = command
        ours, theirs = run(*STORE, name, *options), run(name, "m.svm", *options)
        assert (ours.code, ours.err) == (0, "")
        assert ours.out.replace("vitals", "m.svm") == theirs.out
    for command in ("read", "score"):
        ours, theirs = run(*STORE, command, "p.csv"), run(command, "m.svm", "p.csv")
        assert (ours.code, ours.out) == (0, theirs.out)
    assert run(*STORE, "plot", "-o", "p.png").code == 0
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    digest = run("digest", "m.svm").out.strip()
    assert run(*STORE, "digest", "--verify", digest).code == 0
    assert run(*STORE, "digest", "--verify", "0" * 64).code == 1
    assert run("store", *STORE, "digest").out.strip() == digest


def test_add_and_forget(run: Run) -> None:
    write_rows("more.csv", range(30, 36))
    added = run(*STORE, "add", "more.csv", "--json").document
    assert (added["rows"], added["added"][0]) == (36, "030")
    ran = run(*STORE, "forget", "--subject", "s10", "--json")
    assert (ran.code, ran.document["kind"]) == (0, "forgotten")
    assert ran.document["removed"] == ["030", "031", "032"]
    assert ran.document["purged"] == "done"
    again = run(*STORE, "forget", "--subject", "s10")
    assert again.code == 3
    assert "nothing held: no row held for 's10'" in again.out
    assert run(*STORE, "forget", "--subject", "s10", "--missing", "ignore").code == 0
    both = run(
        *STORE, "forget", "--subject", "s8", "--subject", "nobody", "--subject", "s9", "--json"
    )
    assert both.document["removed"] == [f"{i:03d}" for i in range(24, 30)]
    assert both.document["missing"] == ["nobody"]
    gone = ["--subject", "s7", "--subject", "s8", "--subject", "s9"]
    assert run("forget", "m.svm", *gone).code == 0
    refused(run(*STORE, "add", "more.csv"), "was erased from memory 'vitals'; --readmit lets it in")
    some = run(*STORE, "forget", "--subject", "s7", "--subject", "nobody").out.splitlines()
    assert [line.split() for line in some if line.startswith("not held")] == [
        ["not", "held", "nobody"]
    ]
    assert run(*STORE, "forget", "--id", "033, 034,035").code == 0
    assert run(*STORE, "digest").out == run("digest", "m.svm").out
    assert run(*STORE, "add", "more.csv", "--readmit").code == 0


def test_preview_and_token(run: Run) -> None:
    shown = run(*STORE, "forget", "--subject", "s1", "--preview", "--json").document
    assert shown["rows"] == ["003", "004", "005"]
    assert run(*STORE, "info", "--json").document["rows"] == 30
    refused(run(*STORE, "forget", "--subject", "s2", "--token", shown["token"]), "does not fit")
    assert run(*STORE, "forget", "--subject", "s1", "--token", shown["token"]).code == 0
    assert shown["token"] in run("forget", "m.svm", "--subject", "s1", "--preview").out
    refused(run("forget", "m.svm", "--subject", "s2", "--token", shown["token"]), "does not fit")
    assert len(SupportVectorMemory.load("m.svm")) == 30
    assert run("forget", "m.svm", "--subject", "s1", "--token", shown["token"]).code == 0
    assert run(*STORE, "digest").out == run("digest", "m.svm").out


def test_expire_evict_and_prune(run: Run) -> None:
    lines = Path("p.csv").read_text().splitlines()
    dated = [
        lines[0] + ",day",
        *(f"{line},2026-01-{i + 1:02d}" for i, line in enumerate(lines[1:])),
    ]
    Path("dated.csv").write_text("\n".join(dated) + "\n")
    store = ["--store", "s.db", "--name", "dated"]
    assert run(*store, "build", "dated.csv", *COLUMNS, *RANGES, "--time", "day").code == 0
    ran = run(*store, "expire", "--before", "2026-01-05", "--json")
    assert ran.document["removed"] == ["000", "001", "002", "003"]
    assert ran.document["kind"] == "expired"
    pruned = run(*STORE, "prune", "--json").document
    assert pruned["removed"] == run("prune", "m.svm", "--json").document["removed"]
    assert run(*STORE, "digest").out == run("digest", "m.svm").out
    evicted = run(*store, "evict", "--budget", "20", "--json").document
    assert (evicted["kind"], evicted["rows_left"]) == ("evicted", 20)
    kinds = [line["kind"] for line in run(*store, "receipts", "--json").document["receipts"]]
    assert kinds == ["expired", "evicted"]
    text = run(*store, "receipts").out
    assert text.splitlines()[0] == "number,time,kind,removed,missing,rows_left,request"


def test_files_go_in_and_come_out(run: Run) -> None:
    assert run("--store", "s.db", "--name", "copy", "put", "m.svm").code == 0
    assert run("--store", "s.db", "--name", "copy", "save", "-o", "out.svm").code == 0
    assert Path("out.svm").read_bytes() == Path("m.svm").read_bytes()
    refused(run("--store", "s.db", "--name", "copy", "save", "-o", "out.svm"), "--force")
    refused(run("--store", "s.db", "--name", "copy", "put", "m.svm"), "a memory 'copy' already")
    listed = run("--store", "s.db", "list").out.splitlines()
    assert listed == ["name,rows,changes,encrypted", "copy,30,1,false", "vitals,30,1,false"]
    refused(run("--store", "s.db", "--name", "copy", "drop"), "give --yes")
    assert run("--store", "s.db", "--name", "copy", "drop", "--yes").code == 0
    assert run("--store", "s.db", "list", "--json").document["memories"][0]["name"] == "vitals"
    kept = run("--store", "s.db", "--name", "copy", "receipts", "--dropped", "--json").document
    assert [line["kind"] for line in kept["receipts"]] == ["dropped"]
    refused(run(*STORE, "receipts", "--dropped"), "no memory 'vitals' was dropped")


def test_encryption(run: Run) -> None:
    store = ["--store", "s.db", "--vault", "keys.db", "--name", "secret"]
    assert run(*store, "build", "p.csv", *COLUMNS, *RANGES, "--encrypt").code == 0
    assert run(*store, "digest").out == run("digest", "m.svm").out
    ran = run(*store, "forget", "--subject", "s3", "--json")
    assert ran.document["shredded"].startswith("1 key destroyed")
    refused(run("--store", "s.db", "--name", "secret", "info"), "give its vault with --vault URL")
    refused(run(*STORE[:2], "--name", "x", "put", "m.svm", "--encrypt"), "needs --vault URL")


def test_a_vault_that_is_missing_or_another(run: Run) -> None:
    new = ["--store", "new.db", "--name", "m"]
    refused(run(*new, "build", "p.csv", *COLUMNS, *RANGES, "--encrypt"), "--encrypt needs --vault")
    refused(run(*new, "--vault", "s.db", "put", "m.svm", "--encrypt"), "a store, not a vault")
    assert not Path("new.db").exists()
    store = ["--store", "s.db", "--vault", "keys.db", "--name", "secret"]
    assert run(*store, "put", "m.svm", "--encrypt").code == 0
    assert run("--store", "t.db", "--vault", "t-keys.db", "--name", "m", "put", "m.svm").code == 0
    refused(run(*store[:2], "--vault", "t-keys.db", *store[4:], "info"), "is another vault")
    refused(run(*store[:2], "--vault", "no.db", *store[4:], "info"), "no.db: no such vault")
    dropped = run(*store, "drop", "--yes", "--json")
    assert dropped.document["shredded"].startswith("10 keys destroyed")
    gone = run(*store, "receipts")
    refused(gone, "'secret' was dropped from this store; `receipts --dropped` and `log --dropped`")
    kept = run(*store, "receipts", "--dropped", "--json").document["receipts"]
    assert [line["kind"] for line in kept] == ["dropped", "shredded"]
    assert run(*store, "log", "--dropped", "-o", "gone.log").code == 0
    assert run(*store, "put", "m.svm", "--encrypt").code == 0
    unshredded = run(*store[:2], *store[4:], "drop", "--yes")
    assert unshredded.code == 3
    assert "keys are not destroyed: give its vault with --vault URL" in unshredded.out


def test_a_purge_that_is_pending_is_exit_code_3(run: Run, monkeypatch: Any) -> None:
    monkeypatch.setattr("svmemory.store.sqlite.WAIT", 0.1)
    waits = "a reader holds up the purge; waiting for it, at most 0.1 s\n"
    reader = sqlite3.connect("s.db", isolation_level=None)
    for command in (
        ["forget", "--subject", "s3"],
        ["evict", "--budget", "25"],
        ["prune"],
        ["expire", "--before", "9999-01-01"],
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM svm_rows").fetchone()
        ran = run(*STORE, *command)
        assert (ran.code, ran.err.count(waits) > 0) == (3, True), command
        assert "pending: another connection is in a transaction" in ran.out
        assert run(*STORE, "purge").code == 3
        reader.execute("ROLLBACK")
        assert run(*STORE, "purge").code == 0
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM svm_rows").fetchone()
    ran = run(*STORE, "drop", "--yes", "--json")
    assert (ran.code, ran.err, ran.document["purged"][:7]) == (3, "", "pending")
    reader.close()


def test_nothing_to_do_is_one_sentence_and_exit_code_3(run: Run) -> None:
    for command, sentence in (
        (["expire", "--before", "2000-01-01"], "no row is old enough to expire"),
        (["evict", "--budget", "99"], "the memory is within the budget, so no row was evicted"),
        (["prune", "--keep-slack-below", "9"], "there is no reserve row to prune"),
    ):
        ran = run(*STORE, *command)
        assert ran.code == 3
        assert f"nothing held: {sentence}\n" in ran.out
        assert "digest" not in ran.out


def test_commands_on_files_say_that_they_take_no_store(run: Run) -> None:
    for command in (["verify", "c.json"], ["scan", "."], ["demo"], ["keys", "new", "k"]):
        refused(run(*STORE, *command), f"{command[0]} does not take a store: leave out --store")


def test_times_are_checked_by_cell(run: Run) -> None:
    lines = Path("p.csv").read_text().splitlines()[:3]
    store = ["--store", "s.db", "--name", "vitals", "add", "late.csv", "--time", "day"]
    Path("late.csv").write_text(
        f"{lines[0]},day\n{lines[1].replace('000', '900')},2026-01-01\n"
        f"{lines[2].replace('001', '901')},2026-01-01\n"
    )
    assert run(*store).code == 0  # two rows of one day
    Path("late.csv").write_text(f"{lines[0]},day\n{lines[1].replace('000', '902')},2026-13-01\n")
    refused(run(*store), "late.csv: row 2 (id '902'), column 'day': it must be a time such as")
    Path("late.csv").write_text(f"{lines[0]},day\n{lines[1].replace('000', '902')},\n")
    refused(run(*store), "late.csv: row 2 (id '902'), column 'day': empty; a time is needed")


def test_a_certificate_from_a_store(run: Run) -> None:
    assert run("keys", "new", "key").code == 0
    evidence = ["--certificate", "c.json", "--signer", "key", "--opening", "o.json"]
    ran = run(*STORE, "forget", "--subject", "s3", *evidence, "--request", "case 7", "--json")
    assert (ran.code, ran.document["position"], ran.document["certificate"]) == (0, 0, "c.json")
    later = ["--certificate", "d.json", "--signer", "key", "--check", "later"]
    assert run(*STORE, "forget", "--subject", "s4", *later).code == 0
    assert run(*STORE, "log", "-o", "log").code == 0
    assert run(*STORE, "save", "-o", "after.svm").code == 0
    verify = ["--memory", "after.svm", "--log", "log", "--trust", "key.pub"]
    assert run("verify", "d.json", *verify).code == 0
    assert (
        run("verify", "c.json", "--log", "log", "--trust", "key.pub").code == 3
    )  # no memory given
    with Store("s.db") as store:
        assert store.open("vitals").log().entries[0] == Path("c.json").read_bytes()
    nothing = run(*STORE, "forget", "--subject", "s4", "--certificate", "e.json", "--signer", "key")
    assert nothing.code == 3
    assert not Path("e.json").exists()
    assert "certificate  none was written: nothing was deleted" in nothing.out
    nothing = run(
        *STORE, "prune", "--keep-slack-below", "9", "--certificate", "e.json", "--signer", "key",
        "--json",
    )  # fmt: skip
    assert nothing.document["certificate"] is None
    refused(run(*STORE, "forget", "--subject", "s5", "--signer", "key"), "need --certificate OUT")
    refused(
        run(*STORE, "forget", "--subject", "s5", "--certificate", "no/c.json", "--signer", "key"),
        "its folder does not exist",
    )
    assert run(*STORE, "info", "--json").document["rows"] == 24


def test_what_does_not_fit(run: Run) -> None:
    refused(run("--store", "s.db", "info"), "--store URL --name MEMORY")
    refused(run("--store", "none.db", "--name", "m", "info"), "none.db: no such store")
    assert not Path("none.db").exists()
    refused(run("--name", "m", "info", "m.svm"), "need --store URL")
    refused(run("store", "list"), "give a store")
    refused(run("build", "p.csv", *COLUMNS, *RANGES), "--output, or a store")
    refused(run(*STORE, "build", "p.csv", *COLUMNS, *RANGES, "-o", "x.svm"), "not both")
    refused(run("build", "p.csv", *COLUMNS, *RANGES, "-o", "x.svm", "--encrypt"), "in a store")
    refused(run(*STORE, "build", "p.csv", *COLUMNS, *RANGES), "holds a memory 'vitals' already")
    refused(run(*STORE, "forget"), "give either --subject or --id")
    refused(run(*STORE, "frobnicate"), "No such command 'frobnicate'")
    assert "expire" in run("store", "--help").out
