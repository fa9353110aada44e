"""Crashes, several processes, full disks and folders that cannot be written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from stores import CONTRACT, never_saw, people, postgres
from svmemory.errors import StoreError
from svmemory.store import Store

TESTS = Path(__file__).parent


def script(*arguments: str) -> str:
    """Output of one of the scripts beside this file."""
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=TESTS, capture_output=True, text=True, timeout=250
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_killed_process_leaves_the_state_before_or_after() -> None:
    said = script("store_crash.py", "20")
    assert said.endswith(
        ": 0 stores differ from the committed prefix, 0 deleted rows left traces\n"
    )


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    for url, _files in postgres():
        yield url


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_processes_lose_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "s.db") if kind == "sqlite" else request.getfixturevalue("server")
    assert script("store_race.py", url) == "60 changes, 12 receipts, digest equal\n"


def test_threads_share_a_handle(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        memory = store.create("m", CONTRACT)
        failed: list[BaseException] = []

        def add(first: int) -> None:
            try:
                for i in range(first, first + 10):
                    memory.add(**people(range(i, i + 1)))
                    memory.score(np.zeros((1, 4)))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=add, args=(10 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert memory.digest() == never_saw(range(40))


@contextmanager
def file_size_limit(most: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        memory = store.create("m", CONTRACT)
        memory.add(**people(range(30)))
        before = memory.digest()
        with file_size_limit(200_000), pytest.raises(StoreError, match="nothing was changed"):
            memory.add(np.random.default_rng(0).normal(size=(9000, 4)), np.zeros((9000, 2)))
        assert memory.digest() == before
        with Store(tmp_path / "s.db") as other:
            assert other.open("m").digest() == before
        memory.add(**people(range(30, 40)))
        assert memory.digest() == never_saw(range(40))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with 600 kB of room."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)],
        stderr=subprocess.DEVNULL,
    )
    if not mounted:
        pytest.skip("only root can make a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(200_000))
    with Store(small_disk / "s.db") as store:
        memory = store.create("m", CONTRACT)
        memory.add(**people(range(30)))
        with pytest.raises(StoreError, match="the disk is full; nothing was changed"):
            memory.add(np.random.default_rng(0).normal(size=(9000, 4)), np.zeros((9000, 2)))
        assert memory.digest() == never_saw(range(30))
        with Store(small_disk / "s.db") as other:
            assert other.open("m").digest() == memory.digest()
        filler.unlink()
        receipt = memory.forget(subject="person-000")
        assert (receipt.kind, receipt.purged) == ("forgotten", "done")
        assert memory.digest() == never_saw(range(3, 30))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can look into, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_read_only_folder(open_folder: Path) -> None:
    folder = open_folder / "archive"
    folder.mkdir()
    with Store(folder / "s.db") as store:
        store.create("m", CONTRACT).add(**people(range(30)))
    bytes_before = (folder / "s.db").read_bytes()
    (folder / "s.db").chmod(0o444)
    folder.chmod(0o555)
    with as_nobody():
        with pytest.raises(StoreError, match="needs to write the file and its folder"):
            Store(folder / "s.db")
        with pytest.raises(StoreError, match="needs to write the file and its folder"):
            Store(folder / "new.db")
    assert (folder / "s.db").read_bytes() == bytes_before
    folder.chmod(0o755)
    (folder / "s.db").chmod(0o644)
    with Store(folder / "s.db") as store:
        assert store.open("m").digest() == never_saw(range(30))


def test_a_store_that_is_locked_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svmemory.store.sqlite.WAIT", 0.2)
    with Store(tmp_path / "s.db") as one, Store(tmp_path / "s.db") as other:
        memory = one.create("m", CONTRACT)
        with other.database.writing():
            with pytest.raises(StoreError, match="locked for too long"):
                memory.add(**people(range(3)))
            assert len(memory) == 0  # reading goes on
        memory.add(**people(range(3)))
        assert len(memory) == 3
