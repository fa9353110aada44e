"""The memory on cases from 60-digit arithmetic and on inputs that other solvers got wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from svmemory import SupportVectorMemory

CASES = Path(__file__).parent / "cases"
ORACLE = json.loads((CASES / "svdd_oracle.json").read_text())
FAULTS = json.loads((CASES / "known_faults.json").read_text())


def rows_of(partition, name):
    return sorted(int(i) for i in getattr(partition, name))


def check(memory, alpha, rho, interval, margin, error, tolerance):
    expected = np.array([float(a) for a in alpha])
    assert np.abs(memory.weights - expected).max() <= tolerance
    if interval is not None:
        rho = interval[1]  # the rule: the upper end
    assert abs(memory.offset - float(rho)) <= 10 * tolerance
    assert rows_of(memory.partition, "margin") == sorted(margin)
    assert rows_of(memory.partition, "error") == sorted(error)


@pytest.mark.parametrize("case", ORACLE, ids=lambda c: c["name"])
def test_oracle_before_and_after_forgetting(case):
    memory = SupportVectorMemory(case["gamma"], case["C"], case["ridge"])
    memory.add(case["keys"])
    fast = memory.copy()
    memory.canonicalise()
    check(
        memory,
        case["alpha"],
        case["rho"],
        case["rho_interval"],
        case["margin"],
        case["error"],
        case["tolerance"],
    )
    for m in (memory, fast):  # from the canonical state and from the fast path's
        result = m.forget(ids=case["forget"])
        assert result.refits == 0
        m.canonicalise()
        assert m.ids == [str(i) for i in case["retained"]]
        check(
            m,
            case["alpha_retained"],
            case["rho_retained"],
            case["rho_retained_interval"],
            case["margin_retained"],
            case["error_retained"],
            case["tolerance"],
        )


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c["name"])
def test_known_fault(case):
    memory = SupportVectorMemory(case["gamma"], case["C"], case["ridge"])
    memory.add(case["keys"])
    if case["ridge"] > 0:
        memory.canonicalise()
    check(
        memory,
        case["alpha"],
        case["rho"],
        case["rho_interval"],
        case["margin"],
        case["error"],
        1e-12 if case["ridge"] > 0 else 1e-9,
    )


def test_every_case_is_there():
    assert len(ORACLE) == 60
    assert len(FAULTS) == 15
