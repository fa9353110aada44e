"""OneClassSVDD when something is wrong: the message, and an estimator that is what it was."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import polars
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from svmemory import SupportVectorMemory
from svmemory.errors import ContractError, InputError, UnknownIdError
from svmemory.estimator import OneClassSVDD

Floats = NDArray[np.float64]


@pytest.fixture
def rows() -> Floats:
    return np.random.default_rng(5).standard_normal((40, 3))


@pytest.mark.parametrize(
    ("size", "what"), [(1e160, "large"), (1e-60, "small"), (1e-170, "small")], ids=str
)
def test_gamma_scale_out_of_range_says_so(rows: Floats, size: float, what: str) -> None:
    with pytest.raises(ContractError, match=rf"gamma='scale' is .*X\.var\(\) is .*, too {what}"):
        OneClassSVDD().fit(size * rows)


@pytest.mark.parametrize(
    ("refit", "error"),
    [
        (lambda model: model.set_params(nu=7).fit(np.ones((5, 2))), ContractError),
        (
            lambda model: model.fit(polars.DataFrame({"a": [1.0, 1e200], "b": [1.0, 2.0]})),
            ValueError,
        ),
        (lambda model: model.set_params(gamma=1.0).fit(np.full((5, 2), 1e200)), InputError),
        (lambda model: model.fit([[np.nan, 1.0]]), ValueError),
    ],
    ids=["contract", "names", "keys", "rows"],
)
def test_a_failed_fit_leaves_the_estimator_as_it_was(
    rows: Floats, refit: Callable[[OneClassSVDD], object], error: type[Exception]
) -> None:
    model = OneClassSVDD().fit(polars.DataFrame(rows, schema=["x", "y", "z"], orient="row"))
    table = polars.DataFrame(rows + 0.5, schema=["x", "y", "z"], orient="row")
    labels = model.predict(table)
    with pytest.raises(error):
        refit(model)
    assert (model.n_features_in_, model.n_samples_seen_) == (3, 40)
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(model.predict(table), labels)


def test_a_failed_first_fit_leaves_the_estimator_unfitted(rows: Floats) -> None:
    model = OneClassSVDD(nu=7)
    for first in (model.fit, model.partial_fit):
        with pytest.raises(ContractError):
            first(rows)
        assert vars(model) == {"nu": 7, "C": None, "gamma": "scale", "ridge": 1e-8}


def test_an_interrupted_fit_changes_nothing(rows: Floats, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OneClassSVDD().fit(rows)
    before = vars(model).copy()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SupportVectorMemory, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows[:, :2])
    assert vars(model) == before


@pytest.mark.parametrize("unknown", [[40], [-1], [0, 40], [3]], ids=str)
def test_unlearning_an_unknown_row_changes_nothing(rows: Floats, unknown: list[int]) -> None:
    model = OneClassSVDD(nu=0.4).fit(rows).unlearn([3])
    before = model.memory_.digest()
    with pytest.raises(UnknownIdError, match=f"{unknown[-1]}"):
        model.unlearn(unknown)
    assert model.memory_.digest() == before
    assert len(model.memory_) == 39


@pytest.mark.parametrize(
    "indices",
    [np.arange(40) > 8, [1.0], ["1"], [[1, 2]], [[1], [2, 3]], {1, 2}, slice(3), None],
    ids=["mask", "float", "str", "2d", "ragged", "set", "slice", "none"],
)
def test_indices_must_be_row_numbers(rows: Floats, indices: object) -> None:
    model = OneClassSVDD().fit(rows)
    with pytest.raises(InputError, match=r"whole row numbers in one dimension, got an? ") as error:
        model.unlearn(indices)
    assert len(str(error.value)) < 120  # a mask of a million rows is not printed
    assert len(model.memory_) == 40


def test_a_mask_is_told_how_to_become_row_numbers(rows: Floats) -> None:
    model, mask = OneClassSVDD(nu=0.4).fit(rows), rows[:, 0] > 1
    with pytest.raises(InputError, match=r"a boolean mask: use numpy\.flatnonzero\(mask\)"):
        model.unlearn(mask)
    model.unlearn(np.flatnonzero(mask))
    assert model.memory_.ids == [str(i) for i in range(40) if rows[i, 0] <= 1]


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        ([0, 3], "row 3 is unlearned already; no row was removed"),
        ([40], "row 40 was never given: rows are numbered from 0 to 39; no row was removed"),
        ([-1, 3, 0], r"row -1 was never given.*\(1 more rows are not held either\)"),
    ],
    ids=str,
)
def test_an_unknown_row_is_told_from_an_unlearned_one(
    rows: Floats, unknown: list[int], message: str
) -> None:
    model = OneClassSVDD(nu=0.4).fit(rows).unlearn([3])
    with pytest.raises(UnknownIdError, match=message) as error:
        model.unlearn(unknown)
    assert "missing" not in str(error.value)  # an argument of the memory's, not of this method


def test_unlearn_needs_a_fitted_model() -> None:
    with pytest.raises(NotFittedError):
        OneClassSVDD().unlearn([0])


@pytest.mark.parametrize(
    "bad",
    [
        {"nu": 0.0},
        {"nu": 1.5},
        {"nu": math.nan},
        {"C": -1.0},
        {"C": 0.0},
        {"gamma": 0.0},
        {"gamma": "wide"},
        {"ridge": -1e-3},
    ],
    ids=str,
)
def test_bad_parameters_are_refused_at_fit(rows: Floats, bad: dict[str, float]) -> None:
    with pytest.raises(ContractError, match=next(iter(bad))):
        OneClassSVDD(**bad).fit(rows)


def test_sparse_rows_are_refused_by_name(rows: Floats) -> None:
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        OneClassSVDD().fit(csr_array(rows))
