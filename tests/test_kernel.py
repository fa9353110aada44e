"""The Gaussian kernel: right, on the integer grid, symmetric, and the same bits compiled or not."""

from __future__ import annotations

import decimal
import itertools
import platform
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from svmemory.kernel import exp_negative, fill_kernel, gaussian_kernel, kernel_units
from svmemory.problem import gaussian_error

Floats = NDArray[np.float64]
UNIT = 2.0**-52

TINY = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e-200]
USUAL = [1e-8, 1.0, 1.0 + UNIT, -1.0, 3.7, 1e8]
HUGE = [1e154, 1e200, -1e200, 1.7e308, -1.7e308]
EXTREME_KEYS = np.array([*TINY, *USUAL, *HUGE])
GAMMAS = [5e-324, 1e-300, 1e-12, 0.04, 1.0, 36.7, 1e6, 1e300, 1.7e308]


def compiled(x: Floats, y: Floats, gamma: float) -> Floats:
    """The matrix of :func:`gaussian_kernel`, by the engine's routine."""
    out = np.full((len(x), len(y)), np.nan)
    column = np.empty(len(x))
    for j, key in enumerate(y):
        fill_kernel(np.ascontiguousarray(x.T), len(x), key, gamma, column)
        out[:, j] = column
    return out


def truth(x: Floats, y: Floats, gamma: float) -> Decimal:
    """``exp(-gamma |x - y|^2)`` of the float64 numbers given, to 60 digits."""
    with decimal.localcontext(decimal.Context(prec=60, Emin=-(10**6), Emax=10**6)):
        square = sum(
            ((Decimal(a) - Decimal(b)) ** 2 for a, b in zip(x, y, strict=True)), Decimal(0)
        )
        return (-Decimal(gamma) * square).exp()


@pytest.mark.parametrize("d", [1, 2, 6, 40])
@pytest.mark.parametrize("gamma", [1e-9, 0.01, 0.25, 3.0])
def test_values_are_right_to_the_documented_error(d: int, gamma: float) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(12, d)), rng.normal(size=(12, d)) * 2
    values = gaussian_kernel(x, y, gamma)
    for i, j in itertools.product(range(12), range(12)):
        error = abs(Decimal(float(values[i, j])) - truth(x[i].tolist(), y[j].tolist(), gamma))
        assert error <= Decimal(gaussian_error(d))


def test_exponential_is_right_to_one_unit_over_its_whole_range() -> None:
    # One dimension, y = 0, gamma = t and x = 1: the exponent is t itself, without a rounding.
    for t in np.concatenate([np.linspace(0.0, 44.0, 700), np.geomspace(1e-17, 1.0, 100)]).tolist():
        value = float(gaussian_kernel(np.ones((1, 1)), np.zeros((1, 1)), t)[0, 0]) if t else 1.0
        with decimal.localcontext(decimal.Context(prec=60)):
            assert abs(Decimal(value) - (-Decimal(t)).exp()) <= Decimal(UNIT)


def test_exponential_works_in_place_on_the_first_n() -> None:
    x = np.array([0.0, 1.0, 44.0, 7.0])
    exp_negative(x, 3)
    assert x[0] == 1.0
    assert x[1:3] == pytest.approx(np.exp([-1.0, -44.0]), rel=1e-15)
    assert x[3] == 7.0


@pytest.mark.parametrize("gamma", GAMMAS)
def test_extreme_keys_compile_to_the_same_bits(gamma: float) -> None:
    x = np.array(list(itertools.product(EXTREME_KEYS, EXTREME_KEYS[::4])))
    plain = gaussian_kernel(x, x, gamma)
    assert plain.tobytes() == compiled(x, x, gamma).tobytes()
    assert plain.tobytes() == plain.T.copy().tobytes()
    assert np.all(np.diagonal(plain) == 1.0)
    assert np.all((plain >= 0.0) & (plain <= 1.0))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.floats(-9, 9), st.floats(-9, 3))
def test_random_keys_compile_to_the_same_bits(seed: int, d: int, scale: float, g: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 17, d)) * 10.0**scale
    y[::5] = x[::5]  # equal keys
    y[1::5] = x[1::5] * (1.0 + 4.0 * UNIT)  # nearly equal keys
    gamma = 10.0**g
    plain = gaussian_kernel(x, y, gamma)
    assert plain.tobytes() == compiled(x, y, gamma).tobytes()
    assert plain.tobytes() == gaussian_kernel(y, x, gamma).T.copy().tobytes()
    assert np.all(np.diagonal(plain)[::5] == 1.0)
    units = kernel_units(x, y, gamma)
    assert units.dtype == np.int64
    assert np.array_equal(units * UNIT, plain)  # whole multiples of 2**-52, exactly


def test_small_values_flush_to_zero_and_stay_there() -> None:
    t = np.linspace(36.0, 60.0, 24_001)
    units = kernel_units(np.sqrt(t)[:, None], np.zeros((1, 1)), 1.0)[:, 0]
    assert np.all(np.diff(units) <= 0)
    half_a_unit = 53 * np.log(2.0)  # below 2**-53 the nearest multiple is zero
    assert np.all(units[t < half_a_unit - 1e-9] >= 1)
    assert np.all(units[t > half_a_unit + 1e-9] == 0)
    far = gaussian_kernel(np.array([[0.0]]), np.array([[1e3], [1e200], [1.7e308]]), 1.0)
    assert far.tolist() == [[0.0, 0.0, 0.0]]


def test_only_the_first_rows_are_filled() -> None:
    out = np.full(5, np.nan)
    columns = np.full((2, 5), np.nan)
    columns[:, :3] = [[0.0, 1.0, 2.0], [0.0, 0.0, 1.0]]
    fill_kernel(columns, 3, np.array([0.0, 0.0]), 0.5, out)
    assert out[:3] == pytest.approx(np.exp([0.0, -0.5, -2.5]), abs=UNIT)
    assert np.isnan(out[3:]).all()


def test_no_operation_is_fused() -> None:
    # Compiled afresh: code that comes from the cache cannot be inspected.
    exponential, fill = njit(exp_negative.py_func), njit(fill_kernel.py_func)
    exponential(np.zeros(9), 9)
    fill(np.zeros((1, 9)), 9, np.zeros(1), 1.0, np.zeros(9))
    multiply = "mulpd" if platform.machine().lower() in ("x86_64", "amd64") else "fmul"
    for function in (exponential, fill):
        (assembly,) = function.inspect_asm().values()
        assert multiply in assembly  # it is the code we think it is
        for fused in ("fmadd", "fmsub", "fnmadd", "fnmsub", "fmla", "fmls"):
            assert fused not in assembly
