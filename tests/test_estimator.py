"""OneClassSVDD: scikit-learn's manners, and rows that come and go without a trace."""

from __future__ import annotations

import math
import pickle

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from svmemory import SupportVectorMemory
from svmemory.errors import EmptyMemoryError
from svmemory.estimator import OneClassSVDD

Floats = NDArray[np.float64]


@pytest.fixture
def rows() -> Floats:
    return np.random.default_rng(5).standard_normal((40, 3))


def never_saw(model: OneClassSVDD, X: Floats, numbers: list[int]) -> str:
    """Digest of a memory that was only ever given these rows, last row first."""
    memory = SupportVectorMemory.from_contract(model.memory_.contract)
    memory.add(X[numbers[::-1]], ids=numbers[::-1])
    return memory.digest()


# nu = 0.5 as well: with so large a share the error rows outnumber the margin rows.
@parametrize_with_checks([OneClassSVDD(), OneClassSVDD(nu=0.5, gamma="auto"), OneClassSVDD(C=0.3)])
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


# --- the contract is fixed by the first batch ---------------------------------------------------


def test_nu_and_gamma_are_used_once(rows: Floats) -> None:
    model = OneClassSVDD(nu=0.25, gamma="scale").fit(rows)
    assert model.memory_.contract.C == 1 / (0.25 * 40)
    assert model.memory_.contract.gamma == 1 / (3 * rows.var())
    before = model.memory_.contract
    model.partial_fit(100.0 * rows).unlearn([0, 1, 41])
    assert model.memory_.contract == before


@pytest.mark.parametrize(
    ("gamma", "expected"), [("auto", 1 / 3), (0.7, 0.7), ("scale", 1.0)], ids=str
)
def test_gamma_of_a_constant_batch(gamma: float | str, expected: float) -> None:
    model = OneClassSVDD(gamma=gamma).fit(np.full((10, 3), 0.1))  # its mean is off by rounding
    assert model.memory_.contract.gamma == expected


def test_C_overrides_nu(rows: Floats) -> None:
    assert OneClassSVDD(nu=0.25, C=0.125).fit(rows).memory_.contract.C == 0.125


# --- values against formulas and other sources --------------------------------------------------


def test_two_rows_by_hand() -> None:
    # Both weights are 1/2 by symmetry, so a row scores 2 (1 + k) / 2; the ridge adds itself.
    k = math.exp(-0.5 * 4)
    model = OneClassSVDD(C=1.0, gamma=0.5, ridge=2.0**-20).fit([[0.0], [2.0]])
    np.testing.assert_allclose(model.dual_coef_, [[0.5, 0.5]], rtol=1e-15)
    assert model.offset_ == pytest.approx(1 + k + 2.0**-20, rel=1e-15)
    np.testing.assert_allclose(model.score_samples([[0.0], [2.0]]), 1 + k, rtol=1e-15)
    np.testing.assert_allclose(model.decision_function([[0.0]]), -(2.0**-20), rtol=1e-9)
    assert model.predict([[1.0], [0.0]]).tolist() == [1, -1]


def test_reserve_row_wakes_up_as_in_the_paper() -> None:
    model = OneClassSVDD(C=1.0, gamma=1 / 25, ridge=0.0).fit([[-1, 0], [1, 0], [0, 0.9]])
    assert model.support_.tolist() == [0, 1]
    model.partial_fit([[0, -10]])
    weights = dict(zip(model.support_, model.dual_coef_[0], strict=True))
    assert weights[2] == pytest.approx(0.03327001, abs=5e-9)


def test_attributes_reproduce_the_decision_function(rows: Floats) -> None:
    model = OneClassSVDD(nu=0.4, gamma=0.3).fit(rows).unlearn([0, 7])
    np.testing.assert_array_equal(model.support_vectors_, rows[model.support_])
    assert model.support_.tolist() == sorted(set(model.support_.tolist()) - {0, 7})
    assert model.dual_coef_.shape == (1, len(model.support_))
    assert model.dual_coef_.sum() == pytest.approx(1, abs=1e-14)
    assert isinstance(model.offset_, float)
    points = rows + 0.25
    squares = ((points[:, None] - model.support_vectors_[None]) ** 2).sum(axis=2)
    scores = 2 * np.exp(-0.3 * squares) @ model.dual_coef_[0]
    np.testing.assert_allclose(model.score_samples(points), scores, rtol=1e-12)
    np.testing.assert_allclose(
        model.decision_function(points), scores - model.offset_, rtol=0, atol=1e-13
    )


def test_scikit_learn_decision_values_are_half_the_mass_times_ours(rows: Floats) -> None:
    nu, mass = 0.31, 0.31 * 40
    theirs = OneClassSVM(nu=nu, gamma=0.3, tol=1e-12).fit(rows)
    ours = OneClassSVDD(nu=nu, gamma=0.3, ridge=0.0).fit(rows)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_ * mass, theirs.dual_coef_, atol=1e-5)
    points = rows + 0.25
    np.testing.assert_allclose(
        ours.decision_function(points) * mass / 2, theirs.decision_function(points), atol=1e-6
    )


# --- rows come and go ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 7, 21, 39])
def test_unlearn_equals_never_having_seen_the_row(rows: Floats, number: int) -> None:
    model = OneClassSVDD(nu=0.4).fit(rows)
    assert model.unlearn(number) is model
    kept = [i for i in range(40) if i != number]
    assert model.memory_.digest() == never_saw(model, rows, kept)


@pytest.mark.parametrize("cuts", [[1], [20], [10, 11, 30]], ids=str)
def test_partial_fit_equals_one_fit(rows: Floats, cuts: list[int]) -> None:
    whole = OneClassSVDD(C=0.0625, gamma=0.3).fit(rows)
    parts = OneClassSVDD(C=0.0625, gamma=0.3)
    for batch in np.split(rows, cuts):
        assert parts.partial_fit(batch) is parts
    assert parts.memory_.digest() == whole.memory_.digest()
    assert parts.n_samples_seen_ == whole.n_samples_seen_ == 40


# Points of a small lattice: duplicates, equal distances and weakly active rows are the rule.
@given(
    X=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=12),
    cut=st.integers(1, 12),
    drop=st.sets(st.integers(0, 11), max_size=12),
    mass=st.sampled_from([1.0, 1.5, 2.0, 3.25, 5.0]),
)
def test_any_history_ends_in_the_memory_of_what_is_left(
    X: list[tuple[int, int]], cut: int, drop: set[int], mass: float
) -> None:
    keys = np.array(X, dtype=np.float64)
    early = sorted(i for i in drop if i < min(cut, len(X)))
    late = sorted(i for i in drop if min(cut, len(X)) <= i < len(X))
    model = OneClassSVDD(C=1 / mass, gamma=0.5).partial_fit(keys[:cut]).unlearn(early)
    if cut < len(X):
        model.partial_fit(keys[cut:])
    model.unlearn(late)
    kept = [i for i in range(len(X)) if i not in drop]
    assert model.memory_.ids == [str(i) for i in kept]
    if kept:
        assert model.memory_.digest() == never_saw(model, keys, kept)


def test_row_numbers_are_never_reused(rows: Floats) -> None:
    model = OneClassSVDD(C=0.2, gamma=0.3).fit(rows[:10]).unlearn([8, 9]).partial_fit(rows[10:12])
    assert model.memory_.ids == ["0", "1", "2", "3", "4", "5", "6", "7", "10", "11"]


def test_fit_starts_afresh(rows: Floats) -> None:
    model = OneClassSVDD(C=0.2, gamma=0.3).fit(rows).unlearn([1]).fit(rows[:6])
    assert model.memory_.digest() == OneClassSVDD(C=0.2, gamma=0.3).fit(rows[:6]).memory_.digest()
    assert model.n_samples_seen_ == 6


def test_a_row_number_given_twice_counts_once(rows: Floats) -> None:
    model = OneClassSVDD(nu=0.4).fit(rows).unlearn([2, 2])
    assert model.memory_.digest() == never_saw(model, rows, [i for i in range(40) if i != 2])


def test_unlearning_every_row(rows: Floats) -> None:
    model = OneClassSVDD(C=0.0625, gamma=0.3).fit(rows).unlearn(range(40))
    assert model.support_.shape == (0,)
    assert model.support_vectors_.shape == (0, 3)
    assert model.dual_coef_.shape == (1, 0)
    with pytest.raises(EmptyMemoryError):
        model.predict(rows)
    with pytest.raises(ValueError, match="2 features"):
        model.partial_fit(rows[:, :2])
    model.partial_fit(rows)
    memory = SupportVectorMemory.from_contract(model.memory_.contract)
    memory.add(rows, ids=range(40, 80))
    assert model.memory_.digest() == memory.digest()


# --- manners ------------------------------------------------------------------------------------


def test_pickle_keeps_the_memory_to_the_byte(rows: Floats) -> None:
    model = OneClassSVDD(nu=0.4).fit(rows)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.memory_.digest() == model.memory_.digest()
    copy.unlearn([5])
    assert copy.memory_.digest() == never_saw(model, rows, [i for i in range(40) if i != 5])
    assert len(model.memory_) == 40


def test_clone_copies_the_parameters_and_not_the_rows(rows: Floats) -> None:
    model = OneClassSVDD(nu=0.3, C=0.2, gamma="auto", ridge=1e-6).fit(rows)
    fresh = clone(model)
    assert fresh.get_params() == {"nu": 0.3, "C": 0.2, "gamma": "auto", "ridge": 1e-6}
    assert not hasattr(fresh, "memory_")


def test_column_names_are_kept_and_checked(rows: Floats) -> None:
    table = polars.DataFrame(rows, schema=["height", "weight", "age"], orient="row")
    model = OneClassSVDD().fit(table)
    assert model.feature_names_in_.tolist() == ["height", "weight", "age"]
    with pytest.raises(ValueError, match="same order"):
        model.predict(table.select("weight", "height", "age"))


def test_fit_predict_is_fit_then_predict(rows: Floats) -> None:
    labels = OneClassSVDD(nu=0.4).fit_predict(rows)
    np.testing.assert_array_equal(labels, OneClassSVDD(nu=0.4).fit(rows).predict(rows))
    assert set(labels.tolist()) == {-1, 1}
