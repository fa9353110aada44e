"""Canonical form against vectors from rational arithmetic, and the exact arithmetic beneath it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svmemory.engine import canonical
from svmemory.engine.fixed import FRACTION, ExactProduct, grid_to_float, to_fixed, to_grid
from svmemory.errors import ContractError

VECTORS = json.loads((Path(__file__).parent / "cases" / "canonical_vectors.json").read_text())


def vector_id(index: int) -> str:
    return f"{VECTORS[index]['name']}-{index}"


@pytest.mark.parametrize("index", range(len(VECTORS)), ids=vector_id)
def test_vector_bit_for_bit_from_permuted_rows_and_three_starts(index):
    case = VECTORS[index]
    kernel = np.array(case["kernel"], np.int64)
    b = np.array([float.fromhex(w) for w in case["weights"]])
    n = len(b)
    rng = np.random.default_rng(index)
    one_hot = np.zeros(n)
    one_hot[0] = 1.0
    starts = [None, rng.random(n), one_hot, b + 1e-9 * rng.normal(size=n)]
    for start in starts:
        p = rng.permutation(n)
        got, mu, labels = canonical(
            kernel[np.ix_(p, p)],
            case["ridge"],
            case["mass"],
            start=None if start is None else start[p],
        )
        assert got.tobytes() == b[p].tobytes()
        assert mu == float.fromhex(case["mu"])
        assert labels == "".join(case["labels"][i] for i in p)


def test_all_two_hundred_vectors_are_there():
    assert len(VECTORS) == 200
    assert sum("S" not in case["labels"] for case in VECTORS) == 36
    assert sum(case["weakly_active"] > 0 for case in VECTORS) == 7


def test_no_rows():
    b, mu, labels = canonical(np.zeros((0, 0), np.int64), 1, 1)
    assert (len(b), mu, labels) == (0, 0.0, "")


ONE = 2**52


@pytest.mark.parametrize(
    ("kernel", "ridge", "mass", "start", "message"),
    [
        (np.ones((2, 3), np.int64), 1, 1, None, "square"),
        (np.eye(2), 1, 1, None, "integer"),
        (np.eye(2, dtype=np.int64), 1, 1, None, "diagonal"),
        (np.array([[ONE, 5], [6, ONE]]), 1, 1, None, "symmetric"),
        (np.array([[ONE, -5], [-5, ONE]]), 1, 1, None, r"\[0, 2"),
        (np.array([[ONE]]), 0, 1, None, "ridge > 0"),
        (np.array([[ONE]]), 1, 0, None, "mass"),
        (np.array([[ONE]]), 1, 1, np.array([np.nan]), "finite"),
        (np.array([[ONE]]), 1, 1, np.ones(2), "1 finite"),
    ],
)
def test_bad_problem_is_refused(kernel, ridge, mass, start, message):
    with pytest.raises(ContractError, match=message):
        canonical(kernel, ridge, mass, start=start)


@pytest.mark.parametrize("columns", [1, 7, 1024, 1025, 2500])
def test_exact_product_equals_integer_arithmetic(columns):
    rng = np.random.default_rng(columns)
    units = rng.integers(0, ONE, size=(3, columns), endpoint=True)
    units[0] = ONE  # the largest sums
    vector = [int(x) << 120 for x in rng.integers(-(2**60), 2**60, size=columns)]
    vector[0] = (1 << (FRACTION + 31)) - 1
    vector[-1] = -(1 << (FRACTION + 31))
    expected = [sum(int(k) * x for k, x in zip(row, vector, strict=True)) for row in units]
    assert ExactProduct(units / 2.0**52) @ vector == expected


@given(st.fractions(min_value=-2, max_value=2))
def test_rounding_to_the_grid_is_half_even_then_nearest(x):
    fixed = round(x * 2**FRACTION)
    on_grid = round(x * 2**112)  # Fraction rounds halves to even
    assert to_grid(fixed) == on_grid
    value = grid_to_float(on_grid)
    exact = Fraction(on_grid, 2**112)
    for other in (np.nextafter(value, -9), np.nextafter(value, 9)):
        assert abs(Fraction(value) - exact) <= abs(Fraction(float(other)) - exact)


@pytest.mark.parametrize("k", [-3, -1, 1, 3, 5])
def test_ties_go_to_even_even_with_refinement_noise(k):
    tie = k << (FRACTION - 113)  # k halves of a grid step, k odd
    even = round(Fraction(k, 2))
    for noise in (-(1 << 15), 0, 1 << 15):
        assert to_grid(tie + noise) == even


@given(st.floats(min_value=-1e6, max_value=1e6))
def test_fixed_point_of_a_float_is_nearest(x):
    (fixed,) = to_fixed(np.array([x]))
    assert abs(Fraction(fixed, 2**FRACTION) - Fraction(x)) <= Fraction(1, 2 ** (FRACTION + 1))
