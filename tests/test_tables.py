"""Tables: what is read, and which cell an error names."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from svmemory.errors import DuplicateIdError, InputError
from svmemory.scaling import range_scaler
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
        ("true", "not a number ('true')"),
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


@pytest.mark.parametrize("cell", ["1e400", "-1e309"])
def test_a_number_beyond_the_largest_is_called_too_large(write: Write, cell: str) -> None:
    with pytest.raises(InputError, match=f"row 3, column 'x': '{cell}' is too large for a number"):
        read_table(write(f"x\n1\n{cell}\n")).numbers(["x"])


def test_truth_values_are_1_and_0_in_csv_as_in_parquet(write: Write, tmp_path: Path) -> None:
    table = read_table(write("id,a,b,c\n1,true,True,FALSE\n2,false, False ,TRUE\n3,true,,maybe\n"))
    assert table.numbers(["a"]).ravel().tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(InputError, match=r"row 4 \(id '3'\), column 'b': empty"):
        table.numbers(["b"], "id")
    with pytest.raises(InputError, match=r"row 4 \(id '3'\), column 'c': not a number \('maybe'\)"):
        table.numbers(["c"], "id")
    pl.DataFrame({"a": [True, False, True]}).write_parquet(tmp_path / "t.parquet")
    parquet = read_table(tmp_path / "t.parquet")
    assert parquet.numbers(["a"]).tolist() == table.numbers(["a"]).tolist()


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
    assert table.resolve([" c ", "d ,"]) == ["c", "d"]
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


def test_blanks_in_a_header_line_are_part_of_the_names(write: Write) -> None:
    table = read_table(write("id, HR, SBP\na,1,2\n"))
    assert table.resolve(["id, HR", " SBP"]) == ["id", " HR", " SBP"]
    scaler = range_scaler([" HR=0:1, SBP=0:2"], [" HR", " SBP"])
    assert scaler.scale == (1.0, 2.0)


@pytest.mark.parametrize(
    "cells",
    [
        pl.Series([["a"], ["b"]]),
        pl.Series([["a"], ["b"]], dtype=pl.Array(pl.String, 1)),
        pl.Series([{"a": 1}, {"a": 2}]),
        pl.Series([b"\xff", b"a"]),
        pl.Series([dt.timedelta(1), dt.timedelta(2)]),
        pl.Series([dt.date(2020, 1, 1), dt.date(2020, 1, 2)]),
        pl.Series([True, False]),
        pl.Series([1, 2]).cast(pl.Decimal(10, 2)),
    ],
    ids=lambda cells: str(cells.dtype),
)
def test_ids_and_subjects_are_text_or_whole_numbers(tmp_path: Path, cells: pl.Series) -> None:
    pl.DataFrame({"c": cells}).write_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    for names in (table.ids, table.subjects):
        with pytest.raises(InputError, match=r"t\.parquet: column 'c' holds .* whole numbers"):
            names("c")


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (pl.Series([1.5, None]), ["1.5", None]),
        (pl.Series([dt.date(2020, 1, 1), None]), ["2020-01-01", None]),
        (pl.Series([["a"], ["b"]]), None),
        (pl.Series([b"\xff", b"a"]), None),
    ],
    ids=["float", "date", "list", "bytes"],
)
def test_rows_of_a_result_are_named_by_any_text(
    tmp_path: Path, cells: pl.Series, labels: list[str | None] | None
) -> None:
    pl.DataFrame({"c": cells, "x": [1.0, 2.0]}).write_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    if labels is not None:
        assert table.labels("c") == labels
        return
    with pytest.raises(InputError, match=r"t\.parquet: column 'c' holds .* cannot name rows"):
        table.labels("c")


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
