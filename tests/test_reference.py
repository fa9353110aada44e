"""The reference solvers against enumeration in fractions, hand calculation and libsvm."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.svm import OneClassSVM

from exact import enumerated_optimum, violation
from svmemory import reference
from svmemory.contract import Contract
from svmemory.errors import ContractError, ConvergenceError, InputError
from svmemory.kernel import gaussian_kernel, kernel_units

ONE = 2**52
MASS = 2**39
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def matrix(kernel: Integers, ridge: int) -> list[list[Fraction]]:
    n = len(kernel)
    return [
        [Fraction(int(kernel[i, j]) + (ridge if i == j else 0), ONE) for j in range(n)]
        for i in range(n)
    ]


@st.composite
def problems(draw: st.DrawFn, largest: int) -> tuple[Floats, float, int, int]:
    """Keys on a small lattice (duplicates and ties abound) or nudged off it; gamma, ridge, mass."""
    n = draw(st.integers(1, largest))
    d = draw(st.integers(1, 2))
    point = st.tuples(*[st.integers(-2, 2)] * d)
    keys = np.array(draw(st.lists(point, min_size=n, max_size=n)), dtype=float)
    nudge = draw(st.sampled_from([0.0, 1e-7, 0.3]))
    keys += nudge * np.array(draw(st.lists(point, min_size=n, max_size=n)), dtype=float)
    gamma = draw(st.sampled_from([1e-6, 0.01, 0.3, 3.0, 1e3]))
    ridge = draw(st.sampled_from([450360, 45035996, ONE // 1000, ONE, 10**6 * ONE]))
    mass = draw(st.one_of(st.integers(1, n + 1).map(lambda k: k * MASS), st.integers(1, n * MASS)))
    return keys, gamma, ridge, mass


@given(problems(largest=5))
@settings(max_examples=150)
def test_exact_optimum_is_the_one_enumeration_finds(case: tuple[Floats, float, int, int]) -> None:
    keys, gamma, ridge, mass = case
    kernel = kernel_units(keys, keys, gamma)
    total = min(Fraction(mass, MASS), Fraction(len(keys)))
    assert reference.exact_optimum(kernel, ridge, mass) == enumerated_optimum(
        matrix(kernel, ridge), total
    )


@given(problems(largest=14), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_exact_optimum_has_no_violation_and_no_memory_of_its_start(case, random) -> None:  # type: ignore[no-untyped-def]
    keys, gamma, ridge, mass = case
    n = len(keys)
    kernel = kernel_units(keys, keys, gamma)
    b, mu = reference.exact_optimum(kernel, ridge, mass)
    assert sum(b) == min(Fraction(mass, MASS), n)
    assert violation(matrix(kernel, ridge), b, mu) == 0
    start = np.array([random.choice([-1.0, 0.0, 0.5, random.random(), 1.0, 7.0]) for _ in range(n)])
    order = random.sample(range(n), n)
    again, same_mu = reference.exact_optimum(kernel[np.ix_(order, order)], ridge, mass, start)
    assert (again, same_mu) == ([b[i] for i in order], mu)


def test_forty_margin_rows() -> None:
    keys = np.random.default_rng(3).normal(size=(40, 6))
    kernel = kernel_units(keys, keys, 3.0)
    b, mu = reference.exact_optimum(kernel, ONE // 10**8, 16 * MASS)
    assert all(0 < x < 1 for x in b)
    assert violation(matrix(kernel, ONE // 10**8), b, mu) == 0


def test_masses_are_rounded_to_the_grid_then_to_float64_half_even() -> None:
    grid = Fraction(1, 2**112)
    assert reference._rounded(grid / 2) == 0.0
    assert reference._rounded(grid * 3 / 2) == float(2 * grid)
    assert reference._rounded(grid / 2 + Fraction(1, 2**300)) == float(grid)
    # The grid comes first: just above a float64 tie, by less than the grid can hold, is the tie.
    tie = 1 + Fraction(1, 2**53)
    assert reference._rounded(tie + Fraction(1, 2**120)) == 1.0
    assert reference._rounded(tie + grid) == 1.0 + 2.0**-52
    assert reference._rounded(1 - Fraction(1, 2**55)) == 1.0


def test_labels_come_from_the_rounded_masses() -> None:
    # Two far rows; a ridge of 2**-52 units cannot separate them, but a mass of 2 - 2**-39 leaves
    # each 1 - 2**-40: margin, not error.
    b, mu, labels = reference.canonical(np.eye(2, dtype=np.int64) * ONE, ONE, 2 * MASS - 1)
    assert (b.tolist(), mu, labels) == ([1 - 2.0**-40] * 2, 2 - 2.0**-39, "SS")


def test_empty_margin_takes_the_largest_error_row_whatever_the_reserve() -> None:
    keys = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5]])
    kernel = kernel_units(keys, keys, 0.04)
    full = reference.canonical(kernel, 45035996, 2 * MASS)
    pruned = reference.canonical(kernel[:2, :2], 45035996, 2 * MASS)
    assert full[2] == "EER"
    assert pruned[2] == "EE"
    assert full[1] == pruned[1] == float(Fraction(int(kernel[0, 1]) + ONE + 45035996, ONE))


def test_no_rows() -> None:
    b, mu, labels = reference.canonical(np.zeros((0, 0), dtype=np.int64), 1, MASS)
    assert (b.shape, mu, labels) == ((0,), 0.0, "")


@pytest.mark.parametrize("ridge", [0, -1])
def test_exact_needs_a_ridge(ridge: int) -> None:
    with pytest.raises(ContractError, match="ridge > 0"):
        reference.canonical(np.full((1, 1), ONE), ridge, MASS)


def test_exact_needs_a_mass() -> None:
    with pytest.raises(ContractError, match="mass > 0"):
        reference.canonical(np.full((1, 1), ONE), 1, 0)


def test_exact_refuses_an_indefinite_matrix() -> None:
    kernel = np.array([[ONE, ONE + 5], [ONE + 5, ONE]])
    with pytest.raises(ContractError, match="not positive definite"):
        reference.canonical(kernel, 1, MASS, start=np.array([0.5, 0.5]))


@pytest.mark.parametrize(
    ("kernel", "start"),
    [
        (np.full((1, 2), ONE), None),
        (np.array([[ONE, 1], [2, ONE]]), None),
        (np.array([[ONE, 1], [1, ONE - 1]]), None),
        (np.eye(2, dtype=np.int64) * ONE, np.zeros(3)),
        (np.eye(2, dtype=np.int64) * ONE, np.array([0.5, np.nan])),
    ],
    ids=["not-square", "not-symmetric", "diagonal", "start-too-long", "start-nan"],
)
def test_exact_refuses_bad_arrays(kernel: Integers, start: Floats | None) -> None:
    with pytest.raises(InputError):
        reference.canonical(kernel, 1, MASS, start)


@given(problems(largest=14))
@settings(max_examples=150)
def test_float_solver_agrees_with_the_exact_one(case: tuple[Floats, float, int, int]) -> None:
    keys, gamma, ridge, mass = case
    contract = Contract(gamma, mass / MASS, ridge / ONE)
    exact = reference.from_keys(keys, contract)
    kernel = gaussian_kernel(keys, keys, contract.gamma)
    solution = reference.solve(kernel, contract.ridge, contract.mass)
    assert np.abs(solution.weights - exact.weights).max() <= 1e-13 + 1e-14 / contract.ridge
    assert abs(solution.offset - exact.offset) <= 1e-13 * (1 + contract.ridge)
    assert exact.residual <= 2.0**-50 * (1 + contract.ridge)


@given(problems(largest=5))
@settings(max_examples=100)
def test_without_a_ridge_the_scores_are_those_of_enumeration(
    case: tuple[Floats, float, int, int],
) -> None:
    keys, gamma, _, mass = case
    kernel = kernel_units(keys, keys, gamma)
    total = min(Fraction(mass, MASS), Fraction(len(keys)))
    b, mu = enumerated_optimum(matrix(kernel, 0), total)
    solution = reference.solve(kernel / ONE, 0.0, mass / MASS)
    h = np.array([[float(x) for x in row] for row in matrix(kernel, 0)])
    assert solution.residual <= 2.0**-46
    # The optimal image K^(1/2) b is unique; its distance is bounded by the root of a residual.
    assert np.abs(h @ solution.masses - h @ np.array([float(x) for x in b])).max() <= 3e-7
    assert abs(solution.mu - float(mu)) <= 3e-7


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("seed", range(5))
def test_without_a_ridge_duplicates_do_not_stop_the_solver(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    keys = np.repeat(rng.normal(size=(8, 3)), 6, axis=0) + noise * rng.normal(size=(48, 3))
    solution = reference.solve(gaussian_kernel(keys, keys, 0.25), 0.0, 19.2)
    assert solution.residual <= 2.0**-46
    assert abs(solution.masses.sum() - 19.2) <= 1e-13


def test_without_a_ridge_the_solver_agrees_with_libsvm() -> None:
    keys = np.random.default_rng(0).normal(size=(60, 4))
    solution = reference.solve(gaussian_kernel(keys, keys, 0.25), 0.0, 24.0)
    theirs = OneClassSVM(nu=0.4, gamma=0.25, tol=1e-12).fit(keys)
    # libsvm: weights sum to m = 24, decision = sum alpha k - rho.
    points = np.random.default_rng(1).normal(size=(40, 4)) * 2
    values = 2.0 * gaussian_kernel(points, keys, 0.25) @ solution.weights - (1 - solution.offset)
    assert np.abs(values * 12.0 - theirs.decision_function(points)).max() <= 1e-5


@pytest.mark.parametrize(
    ("ridge", "mass", "kernel", "error"),
    [
        (-1.0, 1.0, np.eye(2), ContractError),
        (0.0, 0.0, np.eye(2), ContractError),
        (0.0, np.nan, np.eye(2), ContractError),
        (0.0, 1.0, np.ones((2, 3)), InputError),
        (0.0, 1.0, np.ones((0, 0)), InputError),
        (0.0, 1.0, np.array([[1.0, np.nan], [np.nan, 1.0]]), InputError),
    ],
)
def test_float_solver_refuses_bad_input(
    ridge: float, mass: float, kernel: Floats, error: type[Exception]
) -> None:
    with pytest.raises(error):
        reference.solve(kernel, ridge, mass)


def test_float_solver_says_when_float64_is_not_enough() -> None:
    # Values of 1e12 cannot be balanced to 1e-14 in float64.
    kernel = np.diag([1e12, 3e12, 7e12]) + 0.1
    with pytest.raises(ConvergenceError, match="residual"):
        reference.solve(kernel, 0.0, 2.3)


def test_warm_up_shares_equally() -> None:
    keys = np.random.default_rng(0).normal(size=(3, 2))
    for ridge in (0.0, 1e-8):
        solution = reference.from_keys(keys, Contract(0.5, 10.0, ridge))
        assert solution.labels == "EEE"
        assert solution.weights.tolist() == [1 / 3] * 3
        q = (gaussian_kernel(keys, keys, 0.5).sum(axis=1) + ridge) / 3
        assert solution.offset == pytest.approx(1 + ridge - 2 * q.max(), abs=1e-15)
