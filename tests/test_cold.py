"""The cold tier: rows on disk, the same memory to the bit, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svmemory import SupportVectorMemory
from svmemory.space import RowSpace

KEYS = np.random.default_rng(0).normal(size=(400, 3)).round(1)


def pair(folder, **options):
    arguments = {"gamma": 0.4, "C": 1 / 12.5, **options}
    return SupportVectorMemory(**arguments), SupportVectorMemory(**arguments, cold=folder)


def same(warm, cold):
    assert cold.ids == warm.ids
    assert cold.digest() == warm.digest()
    assert (cold.weights == warm.weights).all()
    if len(warm):
        assert (cold.keys == warm.keys).all()
        assert (cold.values == warm.values).all()
        points = KEYS[:9, : warm.dimension]
        assert (cold.read(points) == warm.read(points)).all()
        assert (cold.score(points) == warm.score(points)).all()


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "forget", "prune", "digest"]), st.integers(0, 399)))
)
def test_never_differs_from_the_memory_in_ram(tmp_path_factory, history):
    folder = tmp_path_factory.mktemp("cold")
    memories = pair(folder)
    for verb, number in history:
        for m in memories:
            if verb == "add" and number not in m:
                m.add(KEYS[[number]], KEYS[[number], :1], ids=[number])
            elif verb == "forget":
                m.forget(ids=number, missing="ignore")
            elif verb == "prune":
                m.prune()
            elif verb == "digest":
                m.digest()
    same(*memories)
    assert os.listdir(folder) == []


def test_large_adds_and_deletions_and_copies(tmp_path):
    warm, cold = pair(tmp_path)
    for m in (warm, cold):
        m.add(KEYS, KEYS[:, :2], subjects=[i % 9 for i in range(400)])
        m.forget(subject=3)
    same(warm, cold)
    twin = cold.copy()
    twin.forget(subject=4)
    same(warm, cold)
    warm.forget(subject=4)
    same(warm, twin)
    for m in (warm, twin):
        m.forget(ids=m.ids)
        m.add(KEYS[:30, :2], KEYS[:30, 0])
    same(warm, twin)


def test_files_are_the_same_and_load_into_either_tier(tmp_path):
    warm, cold = pair(tmp_path / "cold")
    for m in (warm, cold):
        m.add(KEYS, KEYS[:, :2])
    warm.save(tmp_path / "warm.svm")
    cold.save(tmp_path / "cold.svm")
    assert (tmp_path / "warm.svm").read_bytes() == (tmp_path / "cold.svm").read_bytes()
    loaded = SupportVectorMemory.load(tmp_path / "warm.svm", cold=tmp_path / "cold")
    assert loaded.digest() == cold.digest()
    assert os.listdir(tmp_path / "cold") == []


def test_forgotten_keys_and_values_are_overwritten_on_disk(tmp_path):
    _, cold = pair(tmp_path)
    cold.add(KEYS, KEYS[:, :2] + 7)
    cold.forget(ids=[17])
    spaces = (cold._held.engine._space, cold._held.table._values)
    for space, row in zip(spaces, (KEYS[17], KEYS[17, :2] + 7), strict=True):
        on_disk = os.pread(space._file, 10**7, 0)
        others = [i for i in range(400) if i != 17 and (KEYS[i] == KEYS[17]).all()]
        assert others == []
        assert row.tobytes() not in on_disk
        assert (KEYS[18].tobytes() if space.width == 3 else (KEYS[18, :2] + 7).tobytes()) in on_disk


def test_nothing_stays_after_a_kill(tmp_path):
    script = textwrap.dedent(
        f"""
        import numpy as np, os, signal
        from svmemory import SupportVectorMemory
        m = SupportVectorMemory(gamma=0.4, C=0.08, cold={str(tmp_path)!r})
        keys = np.random.default_rng(0).normal(size=(400, 3))
        m.add(keys, keys)
        print("held", len(m), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == -signal.SIGKILL
    assert result.stdout == "held 400\n"
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path, monkeypatch):
    _, cold = pair(tmp_path)
    cold.add(KEYS[:40], KEYS[:40, :1])
    digest = cold.digest()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space"):
            cold.add(KEYS[40:], KEYS[40:, :1])
    assert cold.digest() == digest
    cold.add(KEYS[40:], KEYS[40:, :1])
    assert len(cold) == 400


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    memory = SupportVectorMemory(gamma=0.4, C=0.1, cold=tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        memory.add(KEYS)
    assert len(memory) == 0


@pytest.mark.parametrize("on_disk", [False, True])
def test_space_keeps_its_rows_while_it_grows(tmp_path, on_disk):
    space = RowSpace(3, tmp_path if on_disk else None)
    for rows in (10, 65, 1000, 1001, 20_000):
        array = space.ensure(rows)
        assert len(array) >= rows
        array[rows - 1] = rows
        space.let_go()
    for rows in (10, 65, 1000, 1001, 20_000):
        assert (space.array[rows - 1] == rows).all()
    twin = space.copy()
    twin.array[9] = -1.0
    assert (space.array[9] == 10).all()
    assert (twin.array[999] == 1000).all()
