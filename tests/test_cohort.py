"""One memory for each group: right, complete, and the same however it is run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config

from svmemory import Contract, InputError, SupportVectorMemory, reference
from svmemory.cohort import CohortResult, Group, build_cohort, split
from svmemory.errors import ContractError

GAMMA, NU = 0.3, 0.3


def cohort(count: int = 40) -> list[Group]:
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 30, count)
    return [
        Group(f"g{i}", rng.standard_normal((n, 3)), rng.standard_normal(n), extra=i)
        for i, n in enumerate(sizes.tolist())
    ]


def build(groups, **options) -> list[CohortResult]:
    options = {"gamma": GAMMA, "nu": NU, "n_jobs": 1, **options}
    return list(build_cohort(groups, **options))


def by_name(results: list[CohortResult]) -> dict[str, CohortResult]:
    names = {result.name: result for result in results}
    assert len(names) == len(results)
    return names


def digests(results: list[CohortResult]) -> dict[str, str | None]:
    return {name: result.digest for name, result in by_name(results).items()}


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    """Digests of memories made by hand, last row first."""
    made = {}
    for group in cohort():
        memory = SupportVectorMemory.from_nu(NU, len(group.keys), gamma=GAMMA)
        for row in reversed(range(len(group.keys))):
            memory.add(group.keys[[row]], group.values[[row]], [row])
        made[group.name] = memory.digest()
    return made


# -- what is built ------------------------------------------------------------------------------


def test_each_memory_is_the_one_made_by_hand(expected):
    results = build(cohort())
    assert digests(results) == expected
    assert [r.index for r in results] == list(range(40))  # one job: in order
    for result, group in zip(results, cohort(), strict=True):
        assert (result.ok, result.status, result.error) == (True, "done", None)
        assert result.rows == len(group.keys)
        memory = result.memory()
        assert memory.digest() == result.digest
        assert memory.header == {"group": group.name}


def test_weights_are_those_of_the_rational_solve():
    for result in build(cohort(6)):
        memory = result.memory()
        contract = Contract.from_nu(NU, result.rows, GAMMA)  # n0 is the group's own size
        assert memory.contract == contract
        solution = reference.from_keys(memory.keys, contract)
        assert memory.masses.tolist() == solution.masses.tolist()
        assert memory.mu == solution.mu


def test_ids_subjects_values_and_header_arrive(tmp_path):
    group = Group(5, [[0.0], [1.0], [5.0]], [[1.0, 2.0]] * 3, ["a", "b", 3], ["s", None, "t"])
    (result,) = build([group], header={"unit": "mmHg"})
    result.save(tmp_path / "five.svm")
    memory = SupportVectorMemory.load(tmp_path / "five.svm")
    assert result.name == "5"
    assert (memory.ids, memory.subjects) == (["3", "a", "b"], ["t", "s", None])  # in id order
    assert memory.keys.tolist() == [[5.0], [0.0], [1.0]]
    assert memory.values.tolist() == [[1.0, 2.0]] * 3
    assert memory.header == {"unit": "mmHg", "group": "5"}
    assert (tmp_path / "five.svm").read_bytes() == result.data


def test_a_cap_is_the_same_for_all_groups():
    results = build({"a": [[0.0], [1.0]], 2: [[0.0], [1.0], [2.0]]}, nu=None, C=0.5)
    assert {r.name: r.memory().contract.C for r in results} == {"a": 0.5, "2": 0.5}


def test_ridge_zero_has_no_digest():
    (result,) = build({"a": [[0.0], [1.0]]}, ridge=0)
    assert (result.ok, result.digest, result.memory().contract.ridge) == (True, None, 0.0)


def test_apply_gets_the_canonical_memory_and_the_group():
    def novelty(memory, group):
        memory.forget(ids=[0])  # the result's figures are of the memory as it was built
        return group.extra, memory.score([[9.0, 9.0, 9.0]]).tolist()

    plain = by_name(build(cohort(5)))
    for result in build(cohort(5), apply=novelty):
        twin = plain[result.name].memory()
        assert (result.rows, result.digest) == (len(twin), twin.digest())
        number, score = result.output
        assert f"g{number}" == result.name
        twin.forget(ids=[0])
        assert score == twin.score([[9.0, 9.0, 9.0]]).tolist()
        with pytest.raises(InputError, match=r"apply was given.*\.output"):
            result.memory()


# -- however it is run --------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_digests_do_not_depend_on_backend_and_jobs(backend, expected):
    with parallel_config(backend=backend):
        results = build(iter(cohort()), n_jobs=2)
    assert digests(results) == expected
    assert sorted(r.index for r in results) == list(range(40))


def test_real_work_is_done_in_other_processes():
    pids = {r.output for r in build(cohort(8), apply=lambda m, g: os.getpid(), n_jobs=2)}
    assert os.getpid() not in pids


def test_backend_is_the_one_at_the_time_of_the_call():
    with parallel_config(backend="threading", n_jobs=2):
        results = build_cohort(
            cohort(4), gamma=GAMMA, nu=NU, n_jobs=None, apply=lambda m, g: os.getpid()
        )
    assert {r.output for r in results} == {os.getpid()}


@pytest.mark.parametrize("sized", [True, False])
def test_progress(sized):
    calls: list[tuple[int, int]] = []
    groups = cohort(12) if sized else iter(cohort(12))
    build(groups, n_jobs=2, progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == list(range(1, 13))
    totals = [total for _, total in calls]
    assert totals[-1] == 12
    assert totals == sorted(totals)
    assert not sized or set(totals) == {12}


def test_groups_are_read_as_needed():
    read: list[int] = []

    def endless() -> Iterator[Group]:
        for number in range(10**9):
            read.append(number)
            yield Group(number, [[float(number)]])

    with closing(build_cohort(endless(), gamma=GAMMA, nu=NU, n_jobs=2)) as results:
        names = {next(results).name for _ in range(3)}
    assert names <= set(map(str, read))
    before = len(read)
    time.sleep(0.2)
    assert len(read) == before < 10**6


def test_memories_that_fail_later_runs_do_not_notice():
    """A pool whose call was closed serves the next one."""
    for _ in range(2):
        with closing(build_cohort(cohort(), gamma=GAMMA, nu=NU, n_jobs=2)) as results:
            next(results)
    assert len(build(cohort(), n_jobs=2)) == 40


# -- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_bad_groups_are_named_and_the_rest_go_on(jobs):
    good = cohort(10)
    bad = [
        Group("nan", [[0.0], [float("nan")]]),
        Group("empty", np.zeros((0, 2))),
        Group("ragged", [[1.0], [1.0, 2.0]]),
        Group("twice", [[0.0], [1.0]], ids=["a", "a"]),
        Group("short", [[0.0], [1.0]], values=[1.0]),
        Group("lock", [[0.0]], extra=threading.Lock()),
        Group("g3", [[0.0]]),
        Group("", [[0.0]]),
        "no group",
    ]
    results = build([*good[:5], *bad, *good[5:]], n_jobs=jobs)
    assert sorted(r.index for r in results) == list(range(19))
    failed = {r.index - 5: r for r in results if not r.ok}
    assert {r.status for r in failed.values()} == {"failed"}
    expected = (
        ("nan", "InputError: keys row 1, column 0 is nan"),
        ("empty", "InputError: no rows were given"),
        ("ragged", "InputError: keys must be a rectangular"),
        ("twice", "DuplicateIdError: id 'a' is given twice"),
        ("short", "InputError: 1 values were given for 2 keys"),
        ("lock", "TypeError: cannot pickle"),
        ("g3", "DuplicateIdError: group 'g3' was already given as item 3"),
        ("item 12", "InputError: group name of row 12 is empty"),
        ("item 13", "InputError: item 13 is no Group but str"),
    )
    assert [failed[i].name for i in range(9)] == [name for name, _ in expected]
    for i, (_, start) in enumerate(expected):
        assert failed[i].error.startswith(start)
        assert (failed[i].rows, failed[i].digest, failed[i].data) == (0, None, None)
        with pytest.raises(InputError, match="is failed"):
            failed[i].memory()
    assert "as_matrix" in failed[0].trace


class Unreadable:
    """Packs in the worker, cannot be opened in this process."""

    def __reduce__(self):
        return refuse, (os.getpid(),)


def refuse(pid):
    if pid != os.getpid():
        raise RuntimeError("not here")
    return "never looked at"


def troublesome(memory, group):
    match group.extra:
        case 1:
            raise KeyError("seven")
        case 2:
            sys.exit("enough")
        case 3:
            return threading.Lock()
        case 4:
            return Unreadable()
    return "fine"


@pytest.mark.parametrize("jobs", [1, 2])
def test_trouble_in_apply_is_that_groups_alone(jobs):
    results = by_name(build(cohort(12), apply=troublesome, n_jobs=jobs))
    assert results["g1"].error == "KeyError: 'seven'"
    assert "troublesome" in results["g1"].trace
    assert results["g2"].error == "SystemExit: enough"
    assert results["g3"].error.startswith("TypeError: cannot pickle")
    if jobs == 2:
        assert results["g4"].error == "RuntimeError: not here"
    rest = [r for name, r in results.items() if name not in ("g1", "g2", "g3", "g4")]
    assert len(rest) == 8
    assert {r.output for r in rest} == {"fine"}


def test_a_failing_iterator_fails_after_what_it_gave():
    def groups() -> Iterator[Group]:
        yield from cohort(5)
        raise OSError("the table ends here")

    results = build_cohort(groups(), gamma=GAMMA, nu=NU, n_jobs=2)
    done: list[CohortResult] = []
    with pytest.raises(OSError, match="the table ends here"):
        done.extend(results)
    assert {r.name for r in done if r.ok} == {f"g{i}" for i in range(5)}


def test_bad_arguments_are_refused_at_once():
    for options, message in (
        ({"C": 0.5}, "exactly one of C and nu"),
        ({"nu": None}, "exactly one of C and nu"),
        ({"nu": 2.0}, r"nu must be in \(0, 1\]"),
        ({"gamma": -1.0}, "gamma must be > 0"),
        ({"ridge": 1e-12}, "ridge must be 0 or from"),
    ):
        with pytest.raises(ContractError, match=message):
            build_cohort([], **{"gamma": GAMMA, "nu": NU, **options})
    for options, message in (
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"header": {"lock": threading.Lock()}}, "header cannot be written as JSON"),
        ({"apply": threading.Lock().acquire}, "apply cannot be sent to a worker"),
    ):
        with pytest.raises(InputError, match=message):
            build_cohort([], gamma=GAMMA, nu=NU, **options)
    with pytest.raises(InputError, match="iterable of Group"):
        build_cohort(Group("a", [[0.0]]), gamma=GAMMA, nu=NU)
    assert build([]) == []


# -- killed workers -----------------------------------------------------------------------------


def kill_always(memory, group):
    if group.extra == 17:
        os.kill(os.getpid(), signal.SIGKILL)
    return group.extra


def test_a_group_that_kills_its_worker_is_lost_and_no_other(expected):
    results = by_name(build(cohort(), apply=kill_always, n_jobs=2))
    assert {name for name, r in results.items() if r.ok} == set(expected) - {"g17"}
    assert results["g17"].status == "lost"
    assert results["g17"].error.startswith("TerminatedWorkerError")
    assert results["g17"].index == 17
    assert all(r.digest == expected[name] for name, r in results.items() if r.ok)


def test_a_worker_killed_once_costs_no_group(tmp_path, expected):
    mark = tmp_path / "killed"

    def kill_once(memory, group):
        if group.extra >= 10 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    assert digests(build(cohort(), apply=kill_once, n_jobs=2)) == expected
    assert mark.exists()


def test_without_retries_a_death_alone_is_final(tmp_path):
    deaths = tmp_path / "deaths"

    def kill_thrice(memory, group):
        if group.extra == 1:
            count = len(deaths.read_text()) if deaths.exists() else 0
            deaths.write_text("x" * (count + 1))
            if count < 3:  # in the stream, one a worker, alone
                os.kill(os.getpid(), signal.SIGKILL)

    results = by_name(build(cohort(4), apply=kill_thrice, n_jobs=2, retries=0))
    assert {name: r.status for name, r in results.items() if not r.ok} == {"g1": "lost"}
    deaths.unlink()
    assert all(r.ok for r in build(cohort(4), apply=kill_thrice, n_jobs=2, retries=1))


# -- Ctrl-C -------------------------------------------------------------------------------------

INTERRUPTED = """
import os, time
from svmemory.cohort import build_cohort

def slow(memory, group):
    time.sleep(0.05)
    return os.getpid()

groups = {number: [[float(number)]] for number in range(2000)}
for result in build_cohort(groups, gamma=0.3, nu=0.3, apply=slow, n_jobs=2):
    if result.index == 3:
        print(result.output, flush=True)
"""


def test_interrupt_ends_the_workers_too():
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    worker = int(child.stdout.readline())
    start = time.monotonic()
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does it
    _, errors = child.communicate(timeout=60)
    assert time.monotonic() - start < 30
    assert child.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.1)
    pytest.fail("a worker outlived the interrupt")


# -- groups from columns ------------------------------------------------------------------------


def test_split_keeps_order_and_types():
    groups = split(
        np.array(["b", "a", "b"]),
        np.arange(6.0).reshape(3, 2),
        values=[1.0, 2.0, 3.0],
        ids=[1, "x", 2],
        subjects=["p", None, "q"],
    )
    assert [g.name for g in groups] == ["b", "a"]
    assert groups[0].keys.tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert groups[0].values.tolist() == [1.0, 3.0]
    assert list(groups[0].ids) == [1, 2]
    assert list(groups[1].subjects) == [None]
    assert groups[1].ids[0] == "x"
    assert all(r.ok for r in build(groups))


def test_split_takes_data_frames():
    import polars

    frame = polars.DataFrame({"stay": [1, 2, 1], "hr": [60.0, 70.0, 80.0]})
    groups = split(frame["stay"], frame[["hr"]], ids=frame["hr"].cast(polars.Int64))
    assert [(g.name, g.keys.tolist(), list(g.ids)) for g in groups] == [
        ("1", [[60.0], [80.0]], [60, 80]),
        ("2", [[70.0]], [70]),
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"by": "ab", "keys": [[0.0]] * 2}, "got one string"),
        ({"by": ["a", None], "keys": [[0.0]] * 2}, "group of row 1 must be a string"),
        ({"by": ["a"], "keys": [[0.0]] * 2}, r"keys have shape \(2, 1\), but 1 group labels"),
        ({"by": ["a"], "keys": [[0.0]], "ids": [1, 2]}, r"ids have shape \(2,\)"),
        ({"by": ["a", "b"], "keys": [[0.0], [1.0, 2.0]]}, "rows differ in length"),
        ({"by": ["a"], "keys": 3.0}, r"keys have shape \(\)"),
    ],
)
def test_split_refuses(columns, message):
    with pytest.raises(InputError, match=message):
        split(**columns)


# -- what it costs ------------------------------------------------------------------------------


def test_import_svmemory_does_not_load_joblib():
    code = "import svmemory, sys; print({'joblib', 'cloudpickle'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_stays_of_a_ward(data_dir):
    """Real stays, as the benchmark runs them: every memory is built and proved optimal."""
    from svmemory.audit.vitals import read_vitals, standardised

    path = data_dir / "physionet2019" / "vitals_setA_part1.npz"
    if not path.exists():
        pytest.skip(f"no {path.name}: docs/how-to/data.md says where it comes from")
    stays = [standardised(stay) for stay in read_vitals(path).stays[:30]]
    results = by_name(build(dict(enumerate(stays)), gamma=1 / 9, n_jobs=2))
    assert len(results) == 30
    for number, keys in enumerate(stays):
        result = results[str(number)]
        memory = result.memory()
        assert result.rows == len(keys)
        assert memory.masses.sum() == pytest.approx(NU * len(keys), rel=1e-12)
        assert memory.kkt().residual < 1e-12
