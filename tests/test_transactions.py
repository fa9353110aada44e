"""A call that fails leaves the memory exactly as it was, wherever it fails."""

from __future__ import annotations

import numpy as np
import pytest

from svmemory import ConvergenceError, SupportVectorMemory
from svmemory.engine import engine

KEYS = np.random.default_rng(0).normal(size=(60, 3))


def filled(n=40):
    memory = SupportVectorMemory(gamma=0.4, C=1 / 12.5)
    memory.add(KEYS[:n], KEYS[:n, :1], ids=[f"r{i}" for i in range(n)], subjects=["x"] * n)
    return memory


def same(memory, before):
    assert memory.ids == before.ids
    assert memory.subjects == before.subjects
    assert (memory.keys == before.keys).all()
    assert (memory.values == before.values).all()
    assert memory.digest() == before.digest()
    # and it still works
    memory.add([[0.5, 0.5, 0.5]], [[1.0]], ids=["after"])
    before.add([[0.5, 0.5, 0.5]], [[1.0]], ids=["after"])
    memory.forget(ids=["r1", "r5"])
    before.forget(ids=["r1", "r5"])
    assert memory.digest() == before.digest()


def stop_at(limit):
    def progress(done, total):
        if done == limit:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("limit", [1, 7, 20])
def test_interrupted_add(limit):
    memory = filled()
    before = memory.copy()
    with pytest.raises(KeyboardInterrupt):
        memory.add(KEYS[40:], KEYS[40:, :1], progress=stop_at(limit))
    same(memory, before)


def test_interrupted_first_add():
    memory = SupportVectorMemory(gamma=0.4, C=1 / 12.5)
    with pytest.raises(KeyboardInterrupt):
        memory.add(KEYS, progress=stop_at(30))
    assert memory.status == "empty"
    memory.add(KEYS[:40, :2])  # even the width is free
    assert len(memory) == 40


@pytest.mark.parametrize("limit", [1, 5, 9])
def test_interrupted_forget(limit):
    memory = filled()
    before = memory.copy()
    with pytest.raises(KeyboardInterrupt):
        memory.forget(ids=[f"r{i}" for i in range(3, 13)], progress=stop_at(limit))
    same(memory, before)


def test_interrupted_forget_of_everything():
    memory = filled()
    before = memory.copy()
    with pytest.raises(KeyboardInterrupt):
        memory.forget(subject="x", progress=stop_at(39))
    same(memory, before)


@pytest.mark.parametrize("part", ["walk", "settle"])
@pytest.mark.parametrize("verb", ["add", "forget"])
def test_failure_in_the_middle_of_the_engine(monkeypatch, part, verb):
    memory = filled()
    before = memory.copy()
    real = getattr(engine, part)
    calls = []

    def broken(state):
        calls.append(None)
        if len(calls) == 3:
            raise MemoryError
        return real(state)

    with monkeypatch.context() as patch:
        patch.setattr(engine, part, broken)
        call = {
            "add": lambda: memory.add(3 * KEYS[40:], KEYS[40:, :1]),
            "forget": lambda: memory.forget(ids=memory.partition.margin),
        }[verb]
        with pytest.raises(MemoryError):
            call()
    same(memory, before)


def test_optimum_not_reached(monkeypatch):
    memory = filled()
    before = memory.copy()
    real = engine.settle
    answers = [engine.LOST]
    with monkeypatch.context() as patch:
        patch.setattr(engine, "settle", lambda s: answers.pop() if answers else real(s))
        with pytest.raises(ConvergenceError):
            memory.forget(ids=memory.partition.error[0])
    same(memory, before)
