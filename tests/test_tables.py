"""Tables and scaling: what is read, and which cell an error names."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from svmemory.errors import DuplicateIdError, FileFormatError, InputError
from svmemory.scaling import Scaler, range_scaler, scale_gamma, standard_scaler
from svmemory.tables import csv_text, read_table, write_table

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_csv(text: str) -> Path:
        path = tmp_path / "t.csv"
        path.write_bytes(text.encode("utf-8"))
        return path

    return to_csv


def test_ids_stay_text_and_numbers_are_numbers(write: Write) -> None:
    table = read_table(write('id,who,x,y\n007,01,1.5, 2 \n08,,1e3,-0\n"a,b",x y,.5,+3\n'))
    assert table.ids("id") == ["007", "08", "a,b"]
    assert table.subjects("who") == ["01", None, "x y"]
    expected = [[1.5, 2.0], [1000.0, 0.0], [0.5, 3.0]]
    assert table.numbers(["x", "y"]).tolist() == expected
    assert table.numbers(["y", "x"]).tolist() == [row[::-1] for row in expected]


def test_numbers_keep_every_bit(write: Write) -> None:
    values = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    table = read_table(write("x\n" + "\n".join(repr(float(v)) for v in values) + "\n"))
    assert table.numbers(["x"])[:, 0].tolist() == values.tolist()


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("", "empty"),
        ('"  "', "empty"),
        ("nan", "NaN"),
        ("-inf", "infinite"),
        ("12a", "not a number ('12a')"),
        ('"3,5"', "not a number ('3,5')"),
        ("NA", "not a number ('NA')"),
    ],
)
def test_a_bad_cell_is_named_by_row_id_and_column(write: Write, cell: str, fault: str) -> None:
    # The blank line is skipped but counted: the bad cell is in the fifth line of the file.
    table = read_table(write(f"id,HR,SBP\np1,70,120\np2,71,121\n\np3,72,{cell}\np4,73,123\n"))
    with pytest.raises(InputError) as error:
        table.numbers(["HR", "SBP"], "id")
    assert str(error.value) == (
        f"t.csv: row 5 (id 'p3'), column 'SBP': {fault}; drop the row or fill it first"
    )


def test_further_bad_cells_are_counted(write: Write) -> None:
    table = read_table(write("x,y\n1,\n,2\n3,nan\n"))
    with pytest.raises(InputError, match=r"row 2, column 'y': empty.*\(2 more such cells\)"):
        table.numbers(["x", "y"])


def test_a_text_column_asks_for_one_hot_columns(write: Write) -> None:
    table = read_table(write("id,sex\n1,F\n2,M\n"))
    with pytest.raises(InputError, match=r"column 'sex' holds text \('F'\).*one-hot"):
        table.numbers(["sex"], "id")


def test_a_missing_column_lists_the_others_and_suggests_one(write: Write) -> None:
    table = read_table(write("id,HR,SBP\n1,2,3\n"))
    with pytest.raises(InputError) as error:
        table.numbers(["HR", "sbq"])
    assert str(error.value) == (
        "t.csv has no column 'sbq' (did you mean 'SBP'?); its columns are: id, HR, SBP"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("id,x\n", "no rows"),
        ("id,x\n,\n", "no rows"),
        ("id,x,x\n1,2,3\n", "two columns are named 'x'"),
        ("id,x\n1,2,3\n", "more cells than the header"),
        ('id,x\n"1,2\n3,4\n', "cannot be read as csv"),
    ],
)
def test_unusable_files(write: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(write(text))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "id,x\n1,2\n".encode("utf-16"), "not UTF-8"),
        ("t.csv", b"id,x\n\xe9,2\n", "not UTF-8"),
        ("t.parquet", b"id,x\n1,2\n", "cannot be read as parquet"),
        ("t.xlsx", b"id,x\n1,2\n", "unknown kind of table '.xlsx'"),
        ("table", b"id,x\n1,2\n", "no extension"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="not a file"):
        read_table(tmp_path / "folder.csv")


def test_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfid,x\r\n1,2\r\n\r\n")
    table = read_table(tmp_path / "t.csv")
    assert (table.columns, table.ids("id"), table.rows) == (["id", "x"], ["1"], (2,))


def test_semicolons_are_pointed_out(write: Write) -> None:
    with pytest.raises(InputError, match="separator must be a comma"):
        read_table(write("id;x\n1;2\n")).column("x")


def test_repeated_and_empty_ids_name_their_rows(write: Write) -> None:
    with pytest.raises(DuplicateIdError, match=r"row 4.*'a' is already used in row 2"):
        read_table(write("id,x\na,1\nb,2\na,3\n")).ids("id")
    with pytest.raises(InputError, match="row 3, column 'id': empty id"):
        read_table(write("id,x\na,1\n,2\n")).ids("id")


def test_column_lists(write: Write) -> None:
    table = read_table(write('"a, b",c,d\n1,2,3\n'))
    assert table.resolve(["c, d"]) == ["c", "d"]
    assert table.resolve(["a, b", "d"]) == ["a, b", "d"]
    with pytest.raises(InputError, match="named twice"):
        table.resolve(["c,d", "c"])
    with pytest.raises(InputError, match="no column 'e'"):
        table.resolve(["c,e"])


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame(
        {"id": [7, 8], "who": ["01", None], "x": [1.5, None], "ok": [True, False], "f": [1.0, 2.0]}
    )
    frame.write_parquet(path)
    table = read_table(path)
    assert table.ids("id") == ["7", "8"]
    assert table.subjects("who") == ["01", None]
    assert table.numbers(["ok"]).tolist() == [[1.0], [0.0]]
    with pytest.raises(InputError, match=r"row 2 \(id '8'\), column 'x': empty"):
        table.numbers(["x"], "id")
    with pytest.raises(InputError, match="floating-point"):
        table.ids("f")  # 1.0 would never match a request for "1"


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_results_round_trip_with_every_digit(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"r{suffix}"
    records = {"id": ["007", 'a"b,c'], "x": [0.1 + 0.2, -1e-300]}
    write_table(records, path)
    if suffix == ".json":
        assert json.loads(path.read_text()) == [
            {"id": "007", "x": 0.1 + 0.2},
            {"id": 'a"b,c', "x": -1e-300},
        ]
    else:
        table = read_table(path)
        assert table.ids("id") == records["id"]
        assert table.numbers(["x"])[:, 0].tolist() == records["x"]


def test_results_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"use \.csv, \.parquet or \.json"):
        write_table({"x": [1.0]}, tmp_path / "r.txt")
    assert csv_text({"x": [1.0], "y": ["a"]}) == "x,y\n1.0,a\n"


# -- scaling ------------------------------------------------------------------------------------


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
        ("HR=0:300,SBP=5:5", "LOW < HIGH"),
        ("HR=0:300,SBP=5", "COLUMN=LOW:HIGH"),
        ("HR=0:300,SBP=a:b", "COLUMN=LOW:HIGH"),
        ("HR=0:inf,SBP=0:1", "LOW < HIGH"),
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
    ]
    for stored in damaged:
        with pytest.raises(FileFormatError, match="scaler in the file's header"):
            Scaler.from_header(stored, 2)
