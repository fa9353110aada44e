"""The demonstration on real patients, and the decay baseline that it shows."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from svmemory import SupportVectorMemory
from svmemory.decay import decayed_read, decayed_score, decayed_weights
from svmemory.demo import load_patients, paper_example, run_demo
from svmemory.errors import ContractError, EmptyMemoryError, InputError, UnknownIdError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def report(folder: Path) -> Any:
    """What ``svmemory demo --json`` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "svmemory", "demo", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_demo_proves_what_it_says(report: Any, folder: Path) -> None:
    assert report["passed"]
    assert all(check["passed"] for check in report["checks"])
    assert len(report["checks"]) == 7
    assert report["digest_after"] == report["digest_never_saw"] != report["digest_with"]
    assert report["score_deviation"] == report["readout_deviation"] == 0.0
    assert report["decay_score_deviation"] > 1e-4
    assert report["forgotten_weight"] > 0
    assert report["refits"] == 0
    # A floor that a broken readout misses: 56 of the 100 patients who are read are benign.
    assert report["accuracy"] >= 0.93
    assert (folder / "svmemory-demo.png").read_bytes()[:4] == b"\x89PNG"


def test_demo_repeats_itself(report: Any, tmp_path: Path) -> None:
    rows = []
    again = run_demo(tmp_path / "a.png", progress=lambda done, total: rows.append((done, total)))
    assert again.digest_after == report["digest_after"]
    assert again.forgotten == report["forgotten"]
    assert rows[-1] == (400, 400)


def test_patients_are_split_without_overlap_and_scaled_by_the_others() -> None:
    held, read = load_patients()
    assert (held.keys.shape, read.keys.shape) == ((400, 30), (100, 30))
    assert len({*held.ids, *read.ids}) == 500
    table = load_breast_cancer()
    used = {int(name.removeprefix("patient-")) - 1 for name in (*held.ids, *read.ids)}
    scaling = table.data[[row for row in range(569) if row not in used]]
    row = int(read.ids[0].removeprefix("patient-")) - 1
    expected = (table.data[row] - scaling.mean(axis=0)) / scaling.std(axis=0)
    assert np.abs(read.keys[0] - expected).max() < 1e-9
    assert read.values[0].tolist() == [1.0 - table.target[row], table.target[row]]


def test_paper_example_to_its_printed_digits() -> None:
    weight, difference = paper_example()
    assert f"{weight:.8f}" == "0.03327001"
    assert f"{difference:.5e}" == "4.07857e-03"


# -- decay --------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> SupportVectorMemory:
    """Two rows at distance 2 in warm-up: weights 1/2 each, whatever the solver."""
    memory = SupportVectorMemory(gamma=0.25, C=0.5)
    memory.add([[0.0], [2.0]], [1.0, 3.0], ids=["a", "b"])
    return memory


def test_decayed_weights_by_hand(pair: SupportVectorMemory) -> None:
    assert decayed_weights(pair, ["b"], 0.25).tolist() == [0.8, 0.2]
    assert decayed_weights(pair, ["b", "b"], 0.25).tolist() == [0.8, 0.2]
    assert decayed_weights(pair, ["a", "b"], 0.25).tolist() == [0.5, 0.5]
    assert decayed_weights(pair, [], 0.25).tolist() == [0.5, 0.5]
    assert decayed_weights(pair, ["b"], 0.0).tolist() == [1.0, 0.0]
    assert pair.weights.tolist() == [0.5, 0.5]


def test_decayed_score_and_readout_by_hand(pair: SupportVectorMemory) -> None:
    at_a = 0.8 * 1.0 + 0.2 * math.exp(-1.0)
    score = decayed_score(pair, ["b"], [[0.0], [1.0]], factor=0.25)
    expected = [2 * at_a - pair.offset, 2 * math.exp(-0.25) - pair.offset]
    assert score == pytest.approx(expected, abs=1e-15)
    readout = decayed_read(pair, ["b"], [[0.0], [1.0]], factor=0.25)
    assert readout.shape == (2, 1)
    assert readout[0, 0] == pytest.approx((0.8 + 0.2 * math.exp(-1.0) * 3) / at_a, abs=1e-15)
    assert readout[1, 0] == pytest.approx(0.8 * 1 + 0.2 * 3, abs=1e-15)


def test_decay_by_one_is_the_memory_itself() -> None:
    random = np.random.default_rng(8)
    memory = SupportVectorMemory.from_nu(0.4, 30, gamma=0.3)
    memory.add(random.normal(size=(30, 4)), random.normal(size=(30, 2)), ids=range(30))
    points = random.normal(size=(50, 4))
    assert decayed_score(memory, [3], points, 1.0) == pytest.approx(memory.score(points), abs=1e-14)
    assert decayed_read(memory, [3], points, 1.0) == pytest.approx(memory.read(points), abs=1e-13)


def test_decay_far_from_all_keys_does_not_underflow(pair: SupportVectorMemory) -> None:
    # At 1000 the log-ratio of the two kernel values is (1000^2 - 998^2) / 4 = 999: only b counts.
    assert decayed_read(pair, ["b"], [[1000.0]], factor=0.01).tolist() == [[3.0]]


def test_decay_refusals(pair: SupportVectorMemory) -> None:
    for factor in (-0.1, 1.1, math.nan):
        with pytest.raises(ContractError, match="from 0 to 1"):
            decayed_weights(pair, ["a"], factor)
    with pytest.raises(UnknownIdError, match="'c'"):
        decayed_weights(pair, ["c"])
    with pytest.raises(EmptyMemoryError, match="no weight"):
        decayed_weights(pair, ["a", "b"], 0.0)
    with pytest.raises(InputError, match="shape"):
        decayed_score(pair, ["a"], [[1.0, 2.0]])
    without_values = SupportVectorMemory(gamma=0.25, C=0.5)
    without_values.add([[0.0]], ids=["a"])
    with pytest.raises(EmptyMemoryError, match="no values"):
        decayed_read(without_values, [], [[0.0]])
