"""Read records from CSV and Parquet, and say exactly which cell is wrong when one is.

CSV cells are read as text first and turned into numbers column by column, so that an id such as
``007`` stays ``007`` and a bad cell can be named by its row, id and column.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .errors import DuplicateIdError, InputError

Floats = NDArray[np.float64]

EXTENSIONS = (".csv", ".parquet")
_LISTED = 40  # column names listed in an error


@dataclass(frozen=True)
class Table:
    """A table as read from a file.

    Attributes
    ----------
    path : Path
    frame : polars.DataFrame
        Its rows; every column of a CSV file is text.
    rows : tuple of int
        Row number of each record in the file: in CSV the header is row 1, as spreadsheets count; in
        Parquet the first record is row 1.
    """

    path: Path
    frame: pl.DataFrame
    rows: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> list[str]:
        """Column names in file order."""
        return list(self.frame.columns)

    def column(self, name: str) -> pl.Series:
        """One column; ``InputError`` lists the available ones when it is missing."""
        if name not in self.frame.columns:
            raise InputError(f"{self.path.name} has no column {name!r}{self._hint(name)}")
        return self.frame[name]

    def resolve(self, specs: Sequence[str]) -> list[str]:
        """Column names from comma-separated lists, each checked, in the order given.

        A whole string that is a column name is taken as it stands, so that a name with a comma in
        it can be given by repeating the option.
        """
        names: list[str] = []
        for spec in specs:
            parts = [spec] if spec in self.frame.columns else [p.strip() for p in spec.split(",")]
            names += [part for part in parts if part]
        for name in names:
            self.column(name)
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InputError(f"column {repeated[0]!r} is named twice in {', '.join(specs)}")
        return names

    def numbers(self, columns: Sequence[str], id_column: str | None = None) -> Floats:
        """Columns as a (rows, columns) float64 array.

        Raises
        ------
        InputError
            If a column is missing or a cell is empty, NaN, infinite or not a number; the message
            names its row, its id (when ``id_column`` is given) and its column.
        """
        result = np.empty((len(self), len(columns)))
        for j, name in enumerate(columns):
            number = self._as_numbers(name).to_numpy()  # a null becomes NaN
            result[:, j] = number
        bad = ~np.isfinite(result)
        if bad.any():
            i, j = (int(k) for k in np.argwhere(bad)[0])
            raise InputError(self._bad_cell(i, columns[j], id_column, int(bad.sum())))
        return result

    def ids(self, column: str) -> list[str]:
        """A column of identifiers as text; an empty or a repeated one is an error."""
        texts = self._texts(column)
        seen: dict[str, int] = {}
        result = []
        for row, text in zip(self.rows, texts, strict=True):
            if text is None:
                raise InputError(f"{self.path.name}: row {row}, column {column!r}: empty id")
            if text in seen:
                raise DuplicateIdError(
                    f"{self.path.name}: row {row}, column {column!r}: id {text!r} is already used"
                    f" in row {seen[text]}; ids must be unique"
                )
            seen[text] = row
            result.append(text)
        return result

    def subjects(self, column: str) -> list[str | None]:
        """A column of subjects as text; an empty cell is None (no subject)."""
        return self._texts(column)

    def labels(self, column: str) -> list[str | None]:
        """A column as text, to name rows in a result; it may have gaps and repeats."""
        return [text or None for text in self.column(column).cast(pl.String).to_list()]

    def _texts(self, column: str) -> list[str | None]:
        series = self.column(column)
        if series.dtype.is_float():
            # 7.0 would become the text "7.0", which no later request for "7" would find.
            raise InputError(
                f"{self.path.name}: column {column!r} holds floating-point numbers; ids and"
                " subjects must be text or whole numbers (an integer column with gaps often turns"
                " into floats: save it as text)"
            )
        return [text if text else None for text in series.cast(pl.String).to_list()]

    def _as_numbers(self, name: str) -> pl.Series:
        series = self.column(name)
        if series.dtype in (pl.String, pl.Categorical, pl.Enum):
            text = series.cast(pl.String).str.strip_chars()
            number = text.cast(pl.Float64, strict=False)
            filled = text.is_not_null() & (text != "")
            if filled.any() and not (filled & number.is_not_null()).any():
                example = text.filter(filled)[0]
                raise InputError(
                    f"{self.path.name}: column {name!r} holds text ({example!r}), not numbers;"
                    " encode it as numbers first (categories as one-hot columns)"
                )
            return number
        if series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
            return series.cast(pl.Float64)
        raise InputError(
            f"{self.path.name}: column {name!r} holds {series.dtype} values, not numbers"
        )

    def _bad_cell(self, i: int, column: str, id_column: str | None, count: int) -> str:
        raw = self.frame[column][i]
        text = "" if raw is None else str(raw).strip()
        if not text:
            fault = "empty"
        elif text.lstrip("+-").lower() == "nan":
            fault = "NaN"
        elif text.lstrip("+-").lower() in ("inf", "infinity"):
            fault = "infinite"
        else:
            fault = f"not a number ({text!r})"
        owner = self.frame[id_column][i] if id_column in self.frame.columns else None
        named = "" if owner is None else f" (id {str(owner)!r})"
        more = f" ({count - 1} more such cells)" if count > 1 else ""
        return (
            f"{self.path.name}: row {self.rows[i]}{named}, column {column!r}: {fault};"
            f" drop the row or fill it first{more}"
        )

    def _hint(self, name: str) -> str:
        columns = self.columns
        folded = {column.casefold(): column for column in columns}
        near = difflib.get_close_matches(name.casefold(), folded, n=1)
        hint = f" (did you mean {folded[near[0]]!r}?)" if near else ""
        listed = ", ".join(columns[:_LISTED]) + (", ..." if len(columns) > _LISTED else "")
        hint += f"; its columns are: {listed}"
        if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|"):
            hint += " (the separator must be a comma)"
        return hint


def read_table(path: Path) -> Table:
    """Read a ``.csv`` (UTF-8, comma-separated, one header row) or ``.parquet`` file.

    Rows in which every cell is empty are skipped.

    Raises
    ------
    InputError
        If the file is missing, unreadable, of another kind, without rows, or has two columns of the
        same name.
    """
    suffix = path.suffix.lower()
    if suffix not in EXTENSIONS:
        raise InputError(
            f"{path.name}: unknown kind of table {suffix or '(no extension)'!r};"
            f" use {' or '.join(EXTENSIONS)}"
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    try:
        frame = _read_csv(path) if suffix == ".csv" else pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "more fields" in reason:
            reason = "a row has more cells than the header; quote cells that contain commas"
        elif "utf-8" in reason:
            reason = "it is not UTF-8 text"
        raise InputError(f"{path.name}: cannot be read as {suffix[1:]} ({reason})") from error
    first = 2 if suffix == ".csv" else 1
    empty = pl.all_horizontal(pl.all().is_null())
    filled = (~frame.select(empty).to_series()).to_numpy() if frame.height else np.zeros(0, bool)
    rows = tuple(int(i) + first for i in np.flatnonzero(filled))
    if not rows:
        raise InputError(f"{path.name}: no rows")
    return Table(path, frame.filter(pl.Series(filled)), rows)


def _read_csv(path: Path) -> pl.DataFrame:
    """All columns as text; the header is checked before polars renames its duplicates."""
    try:
        header = pl.read_csv(path, has_header=False, n_rows=1, infer_schema=False).row(0)
    except pl.exceptions.NoDataError:
        raise InputError(f"{path.name}: no rows (the file is empty)") from None
    names = [name for name in header if name]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{path.name}: two columns are named {repeated[0]!r}; rename one of them")
    return pl.read_csv(path, infer_schema=False)


def csv_text(records: Mapping[str, Sequence[Any]]) -> str:
    """Columns as CSV text; numbers keep every digit."""
    return pl.DataFrame(dict(records)).write_csv()


def write_table(records: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Write columns to ``.csv``, ``.parquet`` or ``.json`` (a list of records)."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        rows = [dict(zip(records, row, strict=True)) for row in zip(*records.values(), strict=True)]
        path.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    elif suffix == ".csv":
        path.write_text(csv_text(records), encoding="utf-8")
    elif suffix == ".parquet":
        pl.DataFrame(dict(records)).write_parquet(path)
    else:
        raise InputError(
            f"{path.name}: unknown kind of table {suffix or '(no extension)'!r};"
            " use .csv, .parquet or .json"
        )
