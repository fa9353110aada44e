"""Keys, values, ids and subjects in the forms that users have them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from svmemory import InputError, SupportVectorMemory
from svmemory.inputs import as_labels, as_matrix, as_points, as_subjects, as_values

X = np.random.default_rng(0).normal(size=(7, 3))


class Stream:
    """Arrow data and nothing else, as a database's cursor offers it."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


class NullableFrame:
    """A pandas frame of numbers that may be missing, in what matters here."""

    class Float64:
        kind = "f"

    dtypes = (Float64, Float64)

    def __array__(self, dtype=None, copy=None):
        return np.array([[1.0, 2.0], [3.0, None]], object)

    def to_numpy(self, dtype, na_value):
        return np.array([[1.0, 2.0], [3.0, na_value]], dtype)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


# -- matrices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [X.copy(), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[::-1], read_only(X)],
    ids=["C", "Fortran", "strided", "backwards", "read-only"],
)
def test_float64_is_not_copied(given):
    assert np.shares_memory(as_matrix(given, "keys", 3), given)
    assert np.shares_memory(as_values(given, 7, 3, []), given)


def test_a_column_of_values_is_not_copied():
    values = X[:, 1]
    columns = as_values(values, 7, None, [])
    assert columns.shape == (7, 1)
    assert np.shares_memory(columns, values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_negative_zeros_become_zeros_in_a_copy(dtype, order):
    given = np.array([[1.0, -0.0], [-2.0, 0.0]], dtype, order=order)
    result = as_matrix(given, "keys", 2)
    assert not np.signbit(result[0, 1])
    assert result.tolist() == given.tolist()
    assert np.signbit(given[0, 1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e151, -1e151])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_bad_number_is_found(bad, order):
    given = X.copy(order=order)
    given[5, 2] = bad
    with pytest.raises(InputError, match="keys row 5, column 2 is "):
        as_matrix(given, "keys", 3)


def test_the_largest_magnitude_is_accepted():
    assert as_matrix([[1e150, -1e150]], "keys", 2).tolist() == [[1e150, -1e150]]


@pytest.mark.parametrize(
    "given", [X.copy(), np.asfortranarray(X), X[::-1], read_only(X), X.astype(np.float32)]
)
def test_points_have_the_layout_that_compiled_code_expects(given):
    points = as_points(given, "points", 3)
    assert points.flags.c_contiguous
    assert points.flags.writeable
    assert points.dtype == np.float64
    assert points.tolist() == given.tolist()


FRAME = pl.DataFrame(X, schema=["a", "b", "c"])


@pytest.mark.parametrize("wrap", [lambda frame: frame, Stream], ids=["polars", "Arrow stream"])
class TestFrames:
    def test_numbers_come_through(self, wrap):
        assert as_matrix(wrap(FRAME), "keys", 3).tolist() == X.tolist()
        single = FRAME.cast(pl.Float32)
        assert as_matrix(wrap(single), "keys", 3).tolist() == X.astype(np.float32).tolist()
        assert as_values(wrap(FRAME), 7, None, []).tolist() == X.tolist()

    def test_whole_numbers_come_through(self, wrap):
        mixed = pl.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
        assert as_matrix(wrap(mixed), "keys", 2).tolist() == [[1.0, 0.5], [2.0, 1.5]]

    def test_a_missing_number_is_named(self, wrap):
        gap = pl.DataFrame({"a": [1.0, 2.0], "b": [3, None]})
        with pytest.raises(InputError, match="row 1, column 1 is nan"):
            as_matrix(wrap(gap), "keys", 2)

    def test_text_is_refused(self, wrap):
        with pytest.raises(InputError, match="mixed types are no array of numbers"):
            as_matrix(wrap(pl.DataFrame({"a": ["1"], "b": [3.0]})), "keys", 2)


def test_frames_with_gaps_are_read_as_numbers():
    with pytest.raises(InputError, match="row 1, column 1 is nan"):
        as_matrix(NullableFrame(), "keys", 2)


def same_memory(keys, values, ids):
    expected = SupportVectorMemory(gamma=0.5, C=0.3)
    expected.add(X, X[:, 0], ids=list("abcdefg"))
    memory = SupportVectorMemory(gamma=0.5, C=0.3)
    memory.add(keys, values, ids=ids)
    assert memory.digest() == expected.digest()
    assert memory.score(keys).tolist() == expected.score(X).tolist()


@pytest.mark.parametrize("order", ["C", "F"])
def test_memories_of_arrays_are_the_same(order):
    given = read_only(np.asarray(X, order=order))
    same_memory(given, given[:, 0], np.array(list("abcdefg")))


def test_memories_of_polars_are_the_same():
    same_memory(FRAME, FRAME["a"], pl.Series(list("abcdefg")))
    same_memory(Stream(FRAME), FRAME["a"], pl.Series(list("abcdefg")))


def test_memories_of_pandas_are_the_same():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    same_memory(frame, frame["a"], pd.Series(list("abcdefg")))
    same_memory(frame.astype("Float64"), frame["a"].astype("Float64"), pd.Index(list("abcdefg")))
    frame.loc[4, "b"] = np.nan
    with pytest.raises(InputError, match="row 4, column 1 is nan"):
        as_matrix(frame, "keys", 3)


def test_memories_of_arrow_are_the_same():
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    table = pa.table({name: X[:, i] for i, name in enumerate("abc")})
    same_memory(table, table["a"], pa.array(list("abcdefg")).to_pylist())
    same_memory(table.to_batches()[0], table["a"].combine_chunks(), list("abcdefg"))


# -- ids and subjects -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2],
        (3, 1, 2),
        np.array([3, 1, 2]),
        np.array([3, 1, 2], np.uint8),
        ["3", 1, np.int8(2)],
    ],
)
def test_whole_numbers_are_written_in_decimal(ids):
    assert as_labels(ids, "id", 3) == ["3", "1", "2"]
    assert as_subjects(ids, 3) == ["3", "1", "2"]


def test_texts_stay_as_they_are():
    given = ["a", "é", "007"]
    labels = as_labels(given, "id", 3)
    assert labels == given
    assert labels is not given
    assert as_labels(np.array(given), "id", 3) == given
    assert as_labels(pl.Series(given), "id", 3) == given
    assert as_labels((x for x in given), "id", 3) == given


@pytest.mark.parametrize("check", [as_labels, lambda x, what, n: as_subjects(x, n)])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 0, True], "subject of row 2 is a truth value"),  # although True == 1
        (["a", "b", ""], "subject of row 2 is empty"),
        (["a", "b", "\ud83d"], "subject of row 2 is not valid Unicode"),
        (["\ud83d", "\ude00", "b"], "subject of row 0 is not valid Unicode"),  # not one emoji
        (["a", "b", 1.0], "subject of row 2 must be a string or a whole number, got float"),
        ([1, 2, 10**5000], "subject of row 2 has too many digits"),
        ([b"a", "b", "c"], "subject of row 0 must be a string or a whole number, got bytes"),
    ],
)
def test_the_label_at_fault_is_named(check, labels, message):
    with pytest.raises(InputError, match=message):
        check(labels, "subject", 3)


def test_none_is_a_subject_but_no_id():
    assert as_subjects([None, "a", None, 5], 4) == [None, "a", None, "5"]
    with pytest.raises(InputError, match="id of row 0"):
        as_labels([None], "id", 1)
