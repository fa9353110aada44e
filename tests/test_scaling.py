"""Scaling: numbers by hand, exact at any size, and ranges that cannot be used."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from svmemory.errors import FileFormatError, InputError
from svmemory.scaling import Scaler, range_scaler, scale_gamma, standard_scaler


def test_standard_scaler_by_hand() -> None:
    scaler = standard_scaler(np.array([[1.0, 10.0], [3.0, 10.0]]))
    assert scaler == Scaler("standard", (2.0, 10.0), (1.0, 1.0))  # a constant column is centred
    assert scaler.apply(np.array([[4.0, 11.0]])).tolist() == [[2.0, 1.0]]


def test_a_constant_column_is_constant_even_if_its_mean_rounds() -> None:
    scaler = standard_scaler(np.full((3, 1), 0.1))
    assert (scaler.mean, scaler.scale) == ((0.1,), (1.0,))


def test_scaling_does_not_depend_on_the_order_of_rows() -> None:
    random = np.random.default_rng(1)
    keys = random.normal(size=(501, 3)) * 10.0 ** random.integers(-6, 6, size=(501, 1))
    shuffled = random.permutation(keys)
    assert standard_scaler(keys) == standard_scaler(shuffled)
    assert scale_gamma(keys) == scale_gamma(shuffled)
    assert scale_gamma(keys) == pytest.approx(1.0 / (3 * keys.var()), rel=1e-12)


@pytest.mark.parametrize("power", [-960, -600, 0, 600, 1000])
def test_scaling_follows_the_unit_exactly_at_any_size(power: int) -> None:
    keys = np.random.default_rng(2).normal(size=(40, 2))
    scaled, usual = standard_scaler(np.ldexp(keys, power)), standard_scaler(keys)
    assert scaled.mean == tuple(math.ldexp(x, power) for x in usual.mean)
    assert scaled.scale == tuple(math.ldexp(x, power) for x in usual.scale)
    assert usual.mean == pytest.approx(keys.mean(axis=0), abs=1e-15)
    assert usual.scale == pytest.approx(keys.std(axis=0), rel=1e-14)


def test_columns_of_zeros_of_either_sign_have_one_scaler() -> None:
    signs = [standard_scaler(np.array([[a], [b]])).mean for a, b in [(0.0, -0.0), (-0.0, 0.0)]]
    assert [math.copysign(1.0, *mean) for mean in signs] == [1.0, 1.0]


def test_a_column_that_varies_too_little_to_scale_is_named() -> None:
    keys = np.array([[1.0, 1e-320], [2.0, 2e-320]])
    with pytest.raises(
        InputError, match=r"key column 'y' has standard deviation 5e-321, too small"
    ):
        standard_scaler(keys, columns=["x", "y"])


def test_keys_beyond_what_a_scaler_can_hold_become_infinite() -> None:
    scaler = range_scaler(["x=0:1e-300"], ["x"])
    assert scaler.apply(np.array([[1e9], [2e-300]])).tolist() == [[math.inf], [2.0]]


@pytest.mark.parametrize(
    ("size", "what"), [(1e-60, "1e-60: too small"), (1e200, "1e.200: too large")]
)
def test_gamma_scale_out_of_range_says_so(size: float, what: str) -> None:
    with pytest.raises(InputError, match=f"gamma 'scale' is 1 / .* standard deviation {what}"):
        scale_gamma(np.array([[-size], [size]]))
    # 1 / (1 column * variance 4e-100): a contract takes up to 1e100.
    assert scale_gamma(np.array([[-2e-50], [2e-50]])) == pytest.approx(2.5e99, rel=1e-15)


def test_gamma_scale_needs_varying_keys() -> None:
    with pytest.raises(InputError, match="keys that vary"):
        scale_gamma(np.ones((4, 2)))


def test_ranges() -> None:
    scaler = range_scaler(["HR=0:300", " SBP = -50:250 "], ["SBP", "HR"])
    assert scaler == Scaler("fixed-range", (-50.0, 0.0), (300.0, 300.0))
    assert scaler.apply(np.array([[100.0, 150.0]])).tolist() == [[0.5, 0.5]]
    assert range_scaler(["a,b=0:1", "c=0:2,d=1:3"], ["a,b", "c", "d"]).scale == (1.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("HR=0:300", "no range is given for key column 'SBP'"),
        ("HR=0:300,SBP=5:5", "'SBP=5:5': LOW must be less than HIGH"),
        ("HR=300:0,SBP=0:1", "'HR=300:0': LOW must be less than HIGH"),
        ("HR=0:300,SBP=5", "COLUMN=LOW:HIGH"),
        ("HR=0:300,SBP=a:b", "COLUMN=LOW:HIGH"),
        ("HR=0:inf,SBP=0:1", "must be finite, got 0 and inf"),
        ("HR=nan:1,SBP=0:1", "must be finite, got nan and 1"),
        ("HR=0:1e400,SBP=0:1", "must be finite, got 0 and inf"),
        ("HR=-1e308:1e308,SBP=0:1", r"'HR=-1e308:1e308' is too long: HIGH - LOW is more than 1\.8"),
        ("HR=1e-320:2e-320,SBP=0:1", "'HR=1e-320:2e-320' is too short: HIGH - LOW is less than 2"),
        ("=0:1", "expected COLUMN=LOW:HIGH"),
        ("HR=0:1,SBP=0:1,HR=0:2", "two ranges"),
        ("HR=0:1,SBP=0:1,DBP=0:2", "'DBP', which is not a key column"),
    ],
)
def test_bad_ranges(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        range_scaler([spec], ["HR", "SBP"])


def test_scaler_in_a_header() -> None:
    scaler = Scaler("standard", (0.1, 1 / 3), (1e-9, 7.0))
    assert Scaler.from_header(json.loads(json.dumps(scaler.to_header())), 2) == scaler
    assert Scaler.from_header(None, 2) is None
    damaged = [
        {"kind": "standard", "mean": [0.0]},
        {"kind": "standard", "mean": [0.0, 0.0], "scale": [1.0, 0.0]},
        {"kind": "standard", "mean": [0.0, math.nan], "scale": [1.0, 1.0]},
        {"kind": "other", "mean": [0.0, 0.0], "scale": [1.0, 1.0]},
        {"kind": "standard", "mean": [0.0], "scale": [1.0]},
        {"kind": "standard", "mean": 3, "scale": [1.0, 1.0]},
        {"kind": "standard", "mean": [0.0, 10**400], "scale": [1.0, 1.0]},
    ]
    for stored in damaged:
        with pytest.raises(FileFormatError, match="scaler in the file's header"):
            Scaler.from_header(stored, 2)
