"""The mathematics of problem.py: finite differences, scipy, and bounds against exact optima."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, minimize

from exact import enumerated_optimum, times
from svmemory import problem
from svmemory.errors import InputError
from svmemory.kernel import gaussian_kernel, kernel_units
from svmemory.reference import exact_optimum

ONE = 2**52
MASS = 2**39
Floats = NDArray[np.float64]
RIDGES = [450360, 45035996, ONE // 1000, ONE, 1000 * ONE]  # 1e-10 to 1000, in units of 2**-52


@dataclass(frozen=True)
class Known:
    """A problem, a feasible-up-to-rounding state, and the exact optimum as fractions."""

    keys: Floats
    gamma: float
    kernel: Floats
    ridge: float
    held: float
    a: Floats
    best: list[Fraction]  # weights a*
    rho: Fraction

    @property
    def n(self) -> int:
        return len(self.keys)

    @property
    def kernel_error(self) -> float:
        return problem.gaussian_error(self.keys.shape[1])

    @property
    def q(self) -> Floats:
        return problem.product(self.kernel, self.ridge, self.a)

    def matrix(self) -> list[list[Fraction]]:
        dense = self.kernel + 0.0
        return [
            [Fraction(float(dense[i, j])) + (Fraction(self.ridge) if i == j else 0) for j in
             range(self.n)]
            for i in range(self.n)
        ]  # fmt: skip

    def objective(self, a: list[Fraction]) -> Fraction:
        h = times(self.matrix(), a)
        linear = (1 + Fraction(self.ridge)) * sum(a)
        return sum((x * y for x, y in zip(a, h, strict=True)), Fraction(0)) - linear

    def difference(self) -> list[Fraction]:
        return [Fraction(float(x)) - y for x, y in zip(self.a, self.best, strict=True)]


def known(
    keys: Floats, gamma: float, ridge: int, mass: int, move: float, seed: int, miss: float = 0.0
) -> Known:
    """The optimum moved by ``move`` towards a random feasible point, its sum missed by ``miss``."""
    n = len(keys)
    units = kernel_units(keys, keys, gamma)
    total = min(Fraction(mass, MASS), Fraction(n))
    if ridge > 0:
        b, mu = exact_optimum(units, ridge, mass)
    else:
        q = [[Fraction(int(x), ONE) for x in row] for row in units]
        b, mu = enumerated_optimum(q, total)
    held = float(total)
    other = np.random.default_rng(seed).random(n)  # then in the box with the right sum
    share = held / n
    other = share + (other - other.mean()) * min(share, 1.0 - share)
    start = np.array([float(x) for x in b])
    a = ((1.0 - move) * start + move * other) / held
    a[0] += miss
    rho = 1 + Fraction(ridge, ONE) - 2 * mu / total
    best = [x / total for x in b]
    return Known(keys, gamma, units / ONE, ridge / ONE, held, a, best, rho)


@st.composite
def states(draw: st.DrawFn, ridges: list[int], largest: int) -> Known:
    n = draw(st.integers(1, largest))
    d = draw(st.integers(1, 2))
    point = st.tuples(*[st.integers(-2, 2)] * d)
    keys = np.array(draw(st.lists(point, min_size=n, max_size=n)), dtype=float)
    nudge = draw(st.sampled_from([0.0, 1e-6, 0.3]))
    keys += nudge * np.array(draw(st.lists(point, min_size=n, max_size=n)), dtype=float)
    gamma = draw(st.sampled_from([1e-6, 0.01, 0.3, 3.0]))
    mass = draw(st.one_of(st.integers(1, n + 1).map(lambda k: k * MASS), st.integers(1, n * MASS)))
    move = draw(st.sampled_from([0.0, 1e-14, 1e-11, 1e-8, 1e-4, 0.1, 1.0]))
    miss = draw(st.sampled_from([0.0, 0.0, 0.0, 1e-12, -1e-9, 0.1, 3.0]))
    ridge = draw(st.sampled_from(ridges))
    return known(keys, gamma, ridge, mass, move, draw(st.integers(0, 99)), miss)


def gaussian(seed: int, n: int, mass: float, ridge: int, move: float = 0.0) -> Known:
    keys = np.random.default_rng(seed).normal(size=(n, 3))
    return known(keys, 0.25, ridge, round(mass * MASS), move, seed)


def gap_of(state: Known) -> float:
    return problem.duality_gap(
        state.a, state.q, state.ridge, state.held, kernel_error=state.kernel_error
    )


def bound_of(state: Known, rho: float) -> problem.ScoreBound:
    gap, error = gap_of(state), state.kernel_error
    return problem.score_bound(gap, state.a, state.q, state.ridge, state.held, rho, error)


# -- objective and gradient ----------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 2.0])
def test_gradient_is_the_derivative_of_the_objective_plus_rho(ridge: float) -> None:
    rng = np.random.default_rng(0)
    keys = rng.normal(size=(7, 2))
    kernel = gaussian_kernel(keys, keys, 0.5)
    a = rng.random(7)

    def f(x: Floats) -> float:
        return problem.objective(x, problem.product(kernel, ridge, x), ridge)

    g = problem.gradient(problem.product(kernel, ridge, a), ridge, 0.75)
    assert g == pytest.approx(approx_fprime(a, f, 1e-7) + 0.75, abs=1e-6)


def test_objective_by_hand() -> None:
    # Q = [[1.5, .25], [.25, 1.5]], a = (.25, .75): a'Qa = 1.03125, diag(Q)'a = 1.5.
    kernel, a = np.array([[1.0, 0.25], [0.25, 1.0]]), np.array([0.25, 0.75])
    assert problem.objective(a, problem.product(kernel, 0.5, a), 0.5) == 1.03125 - 1.5


@pytest.mark.parametrize("seed", range(5))
def test_reference_optimum_is_the_minimum_scipy_finds(seed: int) -> None:
    state = gaussian(seed, 8, 3.3, ONE // 100)

    def f(x: Floats) -> float:
        return problem.objective(x, problem.product(state.kernel, state.ridge, x), state.ridge)

    def slope(x: Floats) -> Floats:
        return problem.gradient(problem.product(state.kernel, state.ridge, x), state.ridge, 0.0)

    found = minimize(
        f,
        np.full(8, 1 / 8),
        jac=slope,
        bounds=[(0.0, 1.0 / state.held)] * 8,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert found.x == pytest.approx(state.a, abs=1e-6)
    assert f(state.a) <= found.fun + 1e-15


# -- offset and KKT residual ---------------------------------------------------------------------


def test_offset_is_the_margin_value_then_the_largest_error_row() -> None:
    q = np.array([0.3, 0.5, 0.9])
    assert problem.offset(np.array([0.5, 0.3, 0.2]), q, 0.25, 2.0) == 1.25 - 2 * 0.7
    assert problem.offset(np.array([0.5, 0.5, 0.0]), q, 0.25, 2.0) == 0.25
    assert problem.offset_from_mu(0.5 * 2.0, 0.25, 2.0) == 0.25
    with pytest.raises(InputError, match="no offset"):
        problem.offset(np.zeros(3), q, 0.25, 2.0)


@pytest.mark.parametrize("mass", [1.0, 2.5, 4.0, 9.0])
def test_exact_optimum_has_residual_of_a_rounding(mass: float) -> None:
    state = gaussian(1, 9, mass, 45035996)
    rho = problem.offset(state.a, state.q, state.ridge, state.held)
    assert rho == pytest.approx(float(state.rho), abs=1e-15)
    assert problem.kkt_residual(state.a, state.q, state.ridge, state.held, rho) <= 1e-15


@pytest.mark.parametrize(
    ("a", "q", "expected"),
    [
        # rho = 0.5, ridge 0: g = 2 q - 0.5, zero at q = 0.25; cap 0.5
        ([0.5, 0.25, 0.25, 0.0], [0.2, 0.25, 0.25, 0.3], 0.0),
        ([0.5, 0.25, 0.25, 0.0], [0.2, 0.375, 0.25, 0.3], 0.25),  # margin, above
        ([0.5, 0.25, 0.25, 0.0], [0.2, 0.125, 0.25, 0.3], 0.25),  # margin, below
        ([0.5, 0.25, 0.25, 0.0], [0.5, 0.25, 0.25, 0.3], 0.5),  # error row inside
        ([0.5, 0.25, 0.25, 0.0], [0.2, 0.25, 0.25, 0.0], 0.5),  # reserve row outside
        ([0.5, 0.25, 0.375, 0.0], [0.2, 0.25, 0.25, 0.3], 0.125),  # sum
        ([0.75, 0.25, 0.25, -0.25], [0.2, 0.25, 0.25, 0.3], 0.25),  # box
    ],
)
def test_residual_reports_each_violation(
    a: list[float], q: list[float], expected: float
) -> None:  # fmt: skip
    assert problem.kkt_residual(np.array(a), np.array(q), 0.0, 2.0, 0.5) == expected


def test_no_rows_have_no_residual_and_no_gap() -> None:
    nothing = np.zeros(0)
    assert problem.kkt_residual(nothing, nothing, 0.1, 0.0, 0.0) == 0.0
    assert problem.duality_gap(nothing, nothing, 0.1, 0.0, 1e-16) == 0.0


# -- the duality gap -----------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [1.0, 2.5, 3.0, 7.9])
def test_gap_is_the_frank_wolfe_gap(mass: float) -> None:
    state = gaussian(2, 8, mass, ONE // 1000, move=0.5)
    slope = problem.gradient(state.q, state.ridge, 0.0)
    # The linear minimum over the capped simplex: fill the smallest slopes up to the cap.
    cap, left, smallest = 1.0 / state.held, 1.0, 0.0
    for value in sorted(slope):
        smallest += value * min(cap, left)
        left -= min(cap, left)
    assert gap_of(state) == pytest.approx(slope @ state.a - smallest, abs=1e-13)
    assert gap_of(state) > 1e-4


@given(states(RIDGES, largest=9))
@settings(max_examples=200)
def test_gap_bounds_the_exact_gap_and_distance(state: Known) -> None:
    gap, difference = Fraction(gap_of(state)), state.difference()
    reached = state.objective([Fraction(float(x)) for x in state.a])
    assert gap >= reached - state.objective(state.best)
    moved = times(state.matrix(), difference)
    square = sum((x * y for x, y in zip(difference, moved, strict=True)), Fraction(0))
    assert gap / 2 >= square


@given(states([0], largest=4))
@settings(max_examples=100)
def test_gap_without_a_ridge(state: Known) -> None:
    reached = state.objective([Fraction(float(x)) for x in state.a])
    assert Fraction(gap_of(state)) >= reached - state.objective(state.best)


# -- the rigorous bounds -------------------------------------------------------------------------


def check_bounds(state: Known, rho: float) -> None:
    bound, difference = bound_of(state, rho), state.difference()
    assert Fraction(bound.offset_low) <= state.rho <= Fraction(bound.offset_high)
    if math.isfinite(bound.weight):
        assert Fraction(bound.weight) >= max(abs(x) for x in difference)
    square = sum(
        (x * y for x, y in zip(difference, times(state.matrix(), difference), strict=True)),
        Fraction(0),
    ) - Fraction(state.ridge) * sum(x * x for x in difference)
    assert Fraction(bound.distance) ** 2 >= square
    # Scores at the rows, near them and far from them, exactly as fractions.
    points = np.concatenate([state.keys, state.keys * 0.9 + 0.1, state.keys + 40.0])
    for row in gaussian_kernel(points, state.keys, state.gamma):
        moved = sum((Fraction(float(k)) * x for k, x in zip(row, difference, strict=True)))
        assert Fraction(bound.score) >= abs(2 * moved - (Fraction(rho) - state.rho))


@given(states(RIDGES, largest=9), st.sampled_from([0.0, 1e-12, 1e-3]))
@settings(max_examples=200)
def test_no_bound_is_ever_broken(state: Known, off: float) -> None:
    rho = problem.offset(state.a, state.q, state.ridge, state.held) + off
    check_bounds(state, rho)


@given(states([0], largest=4))
@settings(max_examples=100)
def test_no_bound_is_ever_broken_without_a_ridge(state: Known) -> None:
    assert bound_of(state, 0.0).weight == math.inf
    check_bounds(state, problem.offset(state.a, state.q, state.ridge, state.held))


def test_bounds_count_a_product_as_wrong_as_it_is_said_to_be() -> None:
    state = gaussian(3, 9, 3.5, ONE // 1000)
    wrong = state.q + 1e-6 * np.random.default_rng(0).uniform(-1, 1, 9)
    shape = (state.a, wrong, state.ridge, state.held)
    gap = problem.duality_gap(*shape, state.kernel_error, error=1e-6)
    bound = problem.score_bound(gap, *shape, 0.0, state.kernel_error, error=1e-6)
    assert Fraction(bound.offset_low) <= state.rho <= Fraction(bound.offset_high)
    assert bound.distance >= 1e-6


@pytest.mark.parametrize("mass", [1.0, 2.5, 4.0, 8.7, 20.0])
@pytest.mark.parametrize(("ridge", "tight"), [(45035996, 1e-8), (ONE // 1000, 1e-11)])
def test_bound_at_the_optimum_is_near_the_roundings(mass: float, ridge: int, tight: float) -> None:
    state = gaussian(4, 20, mass, ridge)
    bound = bound_of(state, float(state.rho))
    assert bound.score <= tight
    assert bound.offset_high - bound.offset_low <= tight


def test_empty_margin_is_bounded_as_tightly_as_any() -> None:
    """No row is on the margin, and the offset is still known: by the k-th smallest (Q a)_i."""
    state = gaussian(5, 6, 6.0, 45035996)
    assert np.all(state.a == 1.0 / 6.0)
    bound = bound_of(state, float(state.rho))
    assert bound.offset_high - bound.offset_low <= 1e-13
    assert bound.score <= 1e-13


def test_bound_is_within_a_small_factor_of_the_error() -> None:
    state = gaussian(6, 12, 4.5, ONE // 10, move=0.05)
    bound = bound_of(state, float(state.rho))
    scores = 2.0 * state.kernel @ np.array([float(x) for x in state.difference()])
    assert np.abs(scores).max() <= bound.score <= 20.0 * np.abs(scores).max()


def test_without_a_ridge_the_bound_is_the_root_of_the_gap() -> None:
    state = gaussian(7, 5, 2.5, 0)
    bound = bound_of(state, float(state.rho))
    assert bound.weight == math.inf
    assert bound.score <= 1e-6
