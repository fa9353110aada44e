"""A call that fails leaves the memory exactly as it was, wherever it fails."""

from __future__ import annotations

import copy
import signal
from contextlib import suppress

import numpy as np
import pytest

from svmemory import ConvergenceError, InputError, SupportVectorMemory
from svmemory.engine import engine, state
from svmemory.rows import RowTable

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


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Progress, and so a place to interrupt, after every row."""
    monkeypatch.setattr(engine, "CHUNK", 1)


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


def test_interrupted_forget_down_into_warm_up():
    memory = filled()
    before = memory.copy()
    with pytest.raises(KeyboardInterrupt):
        memory.forget(ids=[f"r{i}" for i in range(39)], progress=stop_at(38))
    same(memory, before)


@pytest.mark.parametrize("verb", ["add", "forget"])
@pytest.mark.parametrize("phase", [state.WALKING, state.SETTLING])
def test_failure_in_the_middle_of_an_operation(monkeypatch, verb, phase):
    memory = filled()
    before = memory.copy()
    name = {"add": "insert_rows", "forget": "remove_rows"}[verb]
    real = getattr(engine, name)
    calls = []

    def broken(s, slots, done):
        calls.append(None)
        if len(calls) == 1:
            real(s, slots[:3], done)
            s.tally[state.PHASE] = phase  # as if stopped there
            raise MemoryError
        return real(s, slots, done)

    with monkeypatch.context() as patch:
        patch.setattr(engine, name, broken)
        call = {
            "add": lambda: memory.add(3 * KEYS[40:], KEYS[40:, :1]),
            "forget": lambda: memory.forget(ids=[f"r{i}" for i in range(9)]),
        }[verb]
        with pytest.raises(MemoryError):
            call()
    same(memory, before)


@pytest.mark.parametrize("verb", ["add", "forget"])
def test_optimum_not_reached_in_a_build(monkeypatch, verb):
    memory = filled()
    before = memory.copy()
    monkeypatch.setattr(engine, "BULK", 1)
    monkeypatch.setattr(engine, "BULK_ACTIVE", 1)
    real = engine.proceed
    answers = [engine.LOST]
    with monkeypatch.context() as patch:
        patch.setattr(engine, "proceed", lambda s: answers.pop() if answers else real(s))
        call = {
            "add": lambda: memory.add(np.vstack([KEYS] * 2) * 3, np.ones(120)),
            "forget": lambda: memory.forget(ids=memory.partition.error[0]),
        }[verb]
        with pytest.raises(ConvergenceError):
            call()
    same(memory, before)


@pytest.mark.parametrize("call", ["digest", "copy", "canonicalise", "prune", "kkt"])
@pytest.mark.parametrize("verb", ["add", "forget"])
def test_no_call_sees_a_half_made_change(verb, call):
    memory = filled()
    before = memory.copy()
    change = {
        "add": lambda p: memory.add(KEYS[40:], KEYS[40:, :1], progress=p),
        "forget": lambda p: memory.forget(ids=["r3", "r4"], progress=p),
    }[verb]
    with pytest.raises(InputError, match="being changed"):
        change(lambda done, total: getattr(memory, call)())
    same(memory, before)


def test_ctrl_c_waits_for_a_safe_point(monkeypatch):
    memory = filled()
    before = memory.copy()
    real = engine.remove_rows

    def interrupted(s, slots, done):
        signal.raise_signal(signal.SIGINT)  # arrives between two lines of the engine
        return real(s, slots, done)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "remove_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            memory.forget(ids=["r3", "r4", "r5"])
    same(memory, before)


@pytest.mark.parametrize("verb", ["add", "forget", "prune"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(RowTable, "put_many"), (RowTable, "drop_many"), (engine.Engine, "_run")],
    ids=["table-put", "table-drop", "engine"],
)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_ctrl_c_at_any_part_leaves_all_or_nothing(monkeypatch, verb, owner, name, moment):
    memory = filled()
    before = set(memory.ids)
    real = getattr(owner, name)

    def interrupted(self, *arguments):
        if moment == "before":
            signal.raise_signal(signal.SIGINT)
        result = real(self, *arguments)
        if moment == "after":
            signal.raise_signal(signal.SIGINT)
        return result

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(owner, name, interrupted)
        if verb == "add":
            memory.add(KEYS[40:], KEYS[40:, :1])
        elif verb == "forget":
            memory.forget(ids=[f"r{i}" for i in range(9)])
        else:
            memory.prune()
    changed = before ^ set(memory.ids)
    assert len(changed) in {"add": (0, 20), "forget": (0, 9)}.get(verb, range(40))
    assert len(memory) == len(memory._held.engine)
    fresh = SupportVectorMemory.from_contract(memory.contract)
    fresh.add(memory.keys, memory.values, ids=memory.ids, subjects=memory.subjects)
    assert memory.digest() == fresh.digest()


def test_copy_dot_copy_is_a_copy():
    memory = filled()
    twin = copy.copy(memory)
    digest = memory.digest()
    twin.forget(ids="r3")
    assert memory.digest() == digest
    assert "r3" in memory
