"""A cohort on a local Dask cluster of two workers, some of which are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config

from svmemory import SupportVectorMemory
from svmemory.cohort import CohortResult, Group, build_cohort

distributed = pytest.importorskip("distributed", reason="Dask is not installed: extra 'cluster'")

GAMMA, NU = 0.3, 0.3
COUNT = 60


@contextmanager
def cluster(**settings: Any) -> Iterator[Any]:
    """A cluster of two worker processes as a joblib backend."""
    from dask import config

    # A killed worker is back after seconds; a local cluster takes it off its list if it is away at
    # the wrong moment.
    settings = {"distributed.deploy.lost-worker-timeout": "120s", **settings}
    with (
        config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as machines,
        distributed.Client(machines),
        parallel_config(backend="dask", wait_for_workers_timeout=2),
    ):
        yield machines


def cohort() -> list[Group]:
    rng = np.random.default_rng(7)
    return [Group(f"g{i}", rng.standard_normal((15, 3)), extra=i) for i in range(COUNT)]


def build(apply=None, groups=None) -> dict[str, CohortResult]:
    results = list(build_cohort(groups or cohort(), gamma=GAMMA, nu=NU, apply=apply))
    names = {result.name: result for result in results}
    assert len(names) == len(results)
    return names


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    made = {}
    for group in cohort():
        memory = SupportVectorMemory.from_nu(NU, 15, gamma=GAMMA)
        memory.add(group.keys[::-1], ids=range(14, -1, -1))
        made[group.name] = memory.digest()
    return made


def test_digests_are_those_of_one_process(expected):
    def whereabouts(memory, group):
        time.sleep(0.03)  # long enough that one worker cannot take all groups
        return os.getpid()

    with cluster():
        results = build()
        assert {name: r.digest for name, r in results.items()} == expected
        pids = {r.output for r in build(whereabouts).values()}
    assert len(pids) == 2
    assert os.getpid() not in pids
    memory = results["g7"].memory()
    assert memory.digest() == expected["g7"]


def test_what_cannot_travel_is_that_groups_failure():
    """joblib's own Dask backend waits forever for each of these two."""

    def troublesome(memory, group):
        return threading.Lock() if group.extra == 5 else group.extra

    groups = cohort()
    groups[9] = Group("g9", groups[9].keys, extra=threading.Lock())
    with cluster():
        results = build(troublesome, groups)
    failed = {name: r.error for name, r in results.items() if not r.ok}
    assert set(failed) == {"g5", "g9"}
    assert all(error.startswith("TypeError: cannot pickle") for error in failed.values())
    assert len(results) == COUNT


def test_a_killed_worker_costs_no_group(tmp_path, expected):
    mark = tmp_path / "killed"

    def kill_once(memory, group):
        if group.extra >= 20 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    with cluster():
        results = build(kill_once)
    assert mark.exists()
    assert {name: r.digest for name, r in results.items()} == expected


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_group_that_kills_workers_is_lost_and_no_other(allowed, expected):
    """Dask blames whatever was on the dead worker; the groups are told apart afterwards."""

    def kill_always(memory, group):
        if group.extra == 17:
            os.kill(os.getpid(), signal.SIGKILL)

    with cluster(**{"distributed.scheduler.allowed-failures": allowed}):
        results = build(kill_always)
    assert {name for name, r in results.items() if not r.ok} == {"g17"}
    assert results["g17"].status == "lost"
    assert results["g17"].error.startswith("KilledWorker")
    assert all(r.digest == expected[name] for name, r in results.items() if r.ok)


def test_workers_that_cannot_begin_are_an_error(monkeypatch):
    """As where svmemory is not installed on them: said at once, not group by group."""

    def dies(work):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("svmemory.cohort.delivery.ready", dies)
    with (
        cluster(**{"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(distributed.scheduler.KilledWorker),
    ):
        build()


def test_a_cluster_without_workers_gives_up_and_says_so(monkeypatch, expected):
    monkeypatch.setattr("svmemory.cohort.dask.PATIENCE", 1.0)

    def slow(memory, group):
        time.sleep(0.2)

    with cluster() as machines:
        done: list[CohortResult] = []
        for result in build_cohort(cohort(), gamma=GAMMA, nu=NU, apply=slow):
            done.append(result)
            if len(done) == 3:
                machines.scale(0)
    assert sorted(r.index for r in done) == list(range(COUNT))
    status = [r.status for r in done]
    assert status[:3] == ["done"] * 3
    assert status[-1] == "lost"
    assert set(status) == {"done", "lost"}
    assert all("worker" in r.error for r in done if not r.ok)
    assert all(r.digest == expected[r.name] for r in done if r.ok)
