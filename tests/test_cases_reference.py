"""The shared cases of tests/cases against the reference solvers.

canonical_vectors.json holds integer problems solved in rational arithmetic, svdd_oracle.json
problems from keys solved with 60 digits, before and after rows are deleted, and known_faults.json
small inputs on which public one-class solvers were reported wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from svmemory import problem
from svmemory.contract import Contract
from svmemory.kernel import gaussian_kernel
from svmemory.reference import Solution, canonical, from_keys, solve

Case = dict[str, Any]
Floats = NDArray[np.float64]


def cases(name: str) -> list[Any]:
    text = (Path(__file__).parent / "cases" / f"{name}.json").read_text(encoding="utf-8")
    return [pytest.param(case, id=case["name"]) for case in json.loads(text)]


def numbers(texts: list[str]) -> Floats:
    return np.array([float(x) for x in texts])


def rows_labelled(solution: Solution, letter: str, rows: list[int]) -> list[int]:
    return [row for row, label in zip(rows, solution.labels, strict=True) if label == letter]


def check_interval(solution: Solution, kernel: Floats, interval: Any, tolerance: float) -> None:
    """With an empty margin rho is the upper end; the best reserve row gives the lower end."""
    assert ("S" in solution.labels) == (interval is None)
    if interval is None:
        return
    low, high = interval
    assert abs(solution.offset - float(high)) <= tolerance
    reserve = np.array([label == "R" for label in solution.labels])
    assert (low is None) == (not reserve.any())
    if low is not None:
        q = problem.product(kernel, solution.ridge, solution.weights)
        assert abs((1.0 + solution.ridge - 2.0 * q)[reserve].max() - float(low)) <= tolerance


@pytest.mark.parametrize("case", cases("canonical_vectors"))
def test_canonical_vector(case: Case) -> None:
    kernel = np.array(case["kernel"], dtype=np.int64)
    n = len(kernel)
    rng = np.random.default_rng(n)
    for start in (None, np.zeros(n), rng.random(n)):
        for order in (np.arange(n), rng.permutation(n)):
            shuffled = kernel[np.ix_(order, order)]
            b, mu, labels = canonical(shuffled, case["ridge"], case["mass"], start)
            expected = [float.fromhex(case["weights"][i]) for i in order]
            assert b.tobytes() == np.array(expected).tobytes()
            assert mu.hex() == float.fromhex(case["mu"]).hex()
            assert labels == "".join(case["labels"][i] for i in order)


@pytest.mark.parametrize("solver", ["exact", "float64"])
@pytest.mark.parametrize("case", cases("svdd_oracle"))
def test_oracle_before_and_after_deletion(case: Case, solver: str) -> None:
    contract = Contract.from_cap(case["gamma"], case["C"], case["ridge"])
    for suffix, rows in (("", list(range(len(case["keys"])))), ("_retained", case["retained"])):
        keys = np.array([case["keys"][i] for i in rows])
        kernel = gaussian_kernel(keys, keys, contract.gamma)
        if solver == "exact":
            solution = from_keys(keys, contract)
        else:
            solution = solve(kernel, contract.ridge, contract.mass)
        tolerance = case["tolerance"]
        assert np.abs(solution.weights - numbers(case[f"alpha{suffix}"])).max() <= tolerance
        assert abs(solution.offset - float(case[f"rho{suffix}"])) <= 10 * tolerance
        assert rows_labelled(solution, "S", rows) == case[f"margin{suffix}"]
        assert rows_labelled(solution, "E", rows) == case[f"error{suffix}"]
        interval = case[f"rho{suffix}_interval"]
        check_interval(solution, kernel, interval, 10 * tolerance)


def test_oracle_deletes_the_rows_it_says() -> None:
    for parameters in cases("svdd_oracle"):
        case = parameters.values[0]
        assert sorted(case["forget"] + case["retained"]) == list(range(len(case["keys"])))


@pytest.mark.parametrize("case", cases("known_faults"))
def test_known_fault(case: Case) -> None:
    contract = Contract.from_cap(case["gamma"], case["C"], case["ridge"])
    tolerance = 1e-12 if contract.ridge > 0 else 1e-9
    keys = np.array(case["keys"])
    solution = from_keys(keys, contract)
    rows = list(range(len(keys)))
    assert np.abs(solution.weights - numbers(case["alpha"])).max() <= tolerance
    assert abs(solution.offset - float(case["rho"])) <= tolerance
    assert rows_labelled(solution, "S", rows) == case["margin"]
    assert rows_labelled(solution, "E", rows) == case["error"]
    kernel = gaussian_kernel(keys, keys, contract.gamma)
    check_interval(solution, kernel, case["rho_interval"], tolerance)


def test_hard_margin_keeps_every_row_inside() -> None:
    """three-near-duplicates-tiny-nu: no training row has a positive residual g beyond roundings."""
    (case,) = (
        p.values[0] for p in cases("known_faults") if p.id == "three-near-duplicates-tiny-nu"
    )
    keys = np.array(case["keys"])
    solution = from_keys(keys, Contract.from_cap(case["gamma"], case["C"], case["ridge"]))
    kernel = gaussian_kernel(keys, keys, case["gamma"])
    q = problem.product(kernel, solution.ridge, solution.weights)
    assert problem.gradient(q, solution.ridge, solution.offset).min() >= -1e-15
