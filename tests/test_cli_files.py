"""Memory files on the command line: two writers at once, links, failed writes, other files."""

from __future__ import annotations

import errno
import multiprocessing
import os
import threading
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from commands import BUILD, COLUMNS, RANGES, Run, in_folder, refused
from svmemory import SupportVectorMemory
from svmemory.cli import lock
from svmemory.cli.files import open_memory, write_memory
from svmemory.errors import InputError

ROUNDS = 5


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    return in_folder(tmp_path, capsys, monkeypatch)


@pytest.fixture
def memory(run: Run) -> Path:
    """A memory of the persons s0 to s9."""
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "m.svm")
    return Path("m.svm")


def persons(path: Path) -> set[str | None]:
    return set(SupportVectorMemory.load(path).subjects)


# --- two at once -------------------------------------------------------------------------------


def forget_in_step(folder: str, person: str, barrier: Barrier, queue: Any) -> None:
    """Forget a person of ``0.svm``, ``1.svm``, ..., each time at the very moment of the other."""
    for number in range(ROUNDS):
        opened = open_memory(Path(folder, f"{number}.svm"))
        opened.memory.forget(subject=person)
        opened.memory.digest()  # leaves nothing to do but to write
        barrier.wait(120)
        try:
            opened.save(None, force=False)
            queue.put((number, person, "done"))
        except InputError as error:
            queue.put((number, person, str(error)))


def test_two_processes_lose_no_deletion(memory: Path, tmp_path: Path) -> None:
    for number in range(ROUNDS):
        Path(f"{number}.svm").write_bytes(memory.read_bytes())
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=forget_in_step, args=(str(tmp_path), person, barrier, queue))
        for person in ("s1", "s2")
    ]
    for process in processes:
        process.start()
    outcomes = [queue.get(timeout=240) for _ in range(2 * ROUNDS)]
    for process in processes:
        process.join(60)
    for number in range(ROUNDS):
        said = {person: what for where, person, what in outcomes if where == number}
        assert sorted("done" if what == "done" else "refused" for what in said.values()) == [
            "done",
            "refused",
        ]
        for person, what in said.items():
            assert what == "done" or "changed by another program in the meantime" in what
            assert (person in persons(Path(f"{number}.svm"))) == (what != "done")


@pytest.mark.skipif(lock.fcntl is None, reason="no flock on this system")
def test_a_writer_waits_for_the_other_and_then_looks_again(memory: Path) -> None:
    mine, theirs = open_memory(memory), SupportVectorMemory.load(memory)
    mine.memory.forget(subject="s1")
    theirs.forget(subject="s2")
    refusals: list[str] = []

    def save() -> None:
        try:
            mine.save(None, force=False)
        except InputError as error:
            refusals.append(str(error))

    writer = threading.Thread(target=save)
    with lock.locked(memory):
        writer.start()
        writer.join(1.0)
        assert writer.is_alive()
        theirs.save(memory)
    writer.join(60)
    assert refusals == ["m.svm was changed by another program in the meantime; run this again"]
    assert persons(memory) == {f"s{k}" for k in range(10)} - {"s2"}


@pytest.mark.parametrize("output", ["m.svm", "link.svm", "hard.svm"])
def test_a_file_under_another_name_is_still_the_same_file(
    memory: Path, run: Run, monkeypatch: Any, output: str
) -> None:
    """With -o naming MEMORY itself, a deletion by another program must not be lost either."""
    os.symlink("m.svm", "link.svm")
    os.link("m.svm", "hard.svm")
    original = SupportVectorMemory.forget

    def slow_forget(self: SupportVectorMemory, *args: Any, **kwargs: Any) -> Any:
        os.utime(memory, (0, 0))  # as if another program had written it
        return original(self, *args, **kwargs)

    monkeypatch.setattr(SupportVectorMemory, "forget", slow_forget)
    arguments = ["forget", "m.svm", "--subject", "s1", "-o", output, "--force"]
    refused(run(*arguments), "changed by another program")
    assert "s1" in persons(memory)


def test_without_locks_a_changed_file_is_still_refused(memory: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    first, second = open_memory(memory), open_memory(memory)
    first.memory.forget(subject="s1")
    second.memory.forget(subject="s2")
    assert first.save(None, force=False) == memory
    with pytest.raises(InputError, match="changed by another program"):
        second.save(None, force=False)
    assert "s1" not in persons(memory)


@pytest.mark.skipif(lock.fcntl is None, reason="no flock on this system")
def test_a_folder_without_locks_is_no_obstacle(memory: Path, monkeypatch: Any) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    opened = open_memory(memory)
    opened.memory.forget(subject="s1")
    opened.save(None, force=False)
    assert "s1" not in persons(memory)


def test_a_file_that_is_gone_is_not_written_again(memory: Path) -> None:
    opened = open_memory(memory)
    memory.unlink()
    with pytest.raises(InputError, match="changed by another program"):
        opened.save(None, force=False)
    assert not memory.exists()


# --- links and failures ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb", [["forget", "--subject", "s1"], ["prune"]], ids=["forget", "prune"]
)
def test_a_link_is_followed_not_replaced(memory: Path, run: Run, verb: list[str]) -> None:
    os.symlink("m.svm", "link.svm")
    before = len(SupportVectorMemory.load(memory))
    ran = run(verb[0], "link.svm", *verb[1:], "--json")
    assert (ran.code, ran.document["memory"]) == (0, "link.svm")
    assert os.readlink("link.svm") == "m.svm"
    assert len(SupportVectorMemory.load(memory)) == before - len(ran.document["removed"]) < before


@pytest.mark.parametrize(
    "arguments",
    [["forget", "m.svm", "--subject", "s1"], ["forget", "m.svm", "--id", "000", "-o", "n.svm"]],
    ids=["in place", "elsewhere"],
)
def test_a_failed_write_names_the_file_it_was_for(
    memory: Path, run: Run, monkeypatch: Any, arguments: list[str]
) -> None:
    def fail(self: SupportVectorMemory, path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", f".{Path(path).name}.x7q.tmp")

    monkeypatch.setattr(SupportVectorMemory, "save", fail)
    ran = run(*arguments)
    refused(ran, f"{arguments[-1] if '-o' in arguments else 'm.svm'}: cannot be written (Perm")
    assert ".tmp" not in ran.err
    refused(run("build", "p.csv", *BUILD, "-o", "n.svm"), "n.svm: cannot be written (Permission")


def test_a_memory_that_cannot_be_written_is_an_input_error(memory: Path) -> None:
    loaded = SupportVectorMemory.load(memory)
    with pytest.raises(InputError, match=r"^nowhere/n\.svm: cannot be written \(No such file"):
        write_memory(loaded, Path("nowhere/n.svm"))


# --- files of other kinds ----------------------------------------------------------------------


def test_a_table_is_called_no_memory_file(run: Run) -> None:
    for command in (["info"], ["digest"], ["prune"], ["forget", "--id", "1"], ["read", "p.csv"]):
        arguments = [command[0], "p.csv", *command[1:]]
        refused(run(*arguments), "p.csv is a table, not a memory file; make one of it with svmem")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "x.svm is not a memory file: it is empty"), (b"hello, world", "not a memory file")],
    ids=["empty", "text"],
)
def test_any_other_file_is_called_no_memory_file(run: Run, content: bytes, message: str) -> None:
    Path("x.svm").write_bytes(content)
    refused(run("info", "x.svm"), message)
