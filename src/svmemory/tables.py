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

from .cells import as_labels, as_names, as_numbers, fault
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
        held = self.columns
        for spec in specs:
            parts = [spec] if spec in held else spec.split(",")
            # A name may have blanks of its own: the header line "id, HR" names a column " HR".
            names += [part if part in held else part.strip() for part in parts if part.strip()]
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
        for j, name in enumerate(columns):  # a null becomes NaN
            result[:, j] = as_numbers(self.column(name), self.path.name).to_numpy()
        bad = ~np.isfinite(result)
        if bad.any():
            i, j = (int(k) for k in np.argwhere(bad)[0])
            what = fault(self.frame[columns[j]][i], float(result[i, j]))
            more = f" ({int(bad.sum()) - 1} more such cells)" if bad.sum() > 1 else ""
            raise InputError(f"{self.place(i, columns[j], id_column)}: {what}{more}")
        return result

    def place(self, i: int, column: str, id_column: str | None) -> str:
        """Where record ``i``'s cell of a column is, for messages: file, row, id, column."""
        owner = self.frame[id_column][i] if id_column in self.frame.columns else None
        named = "" if owner is None else f" (id {str(owner)!r})"
        return f"{self.path.name}: row {self.rows[i]}{named}, column {column!r}"

    def ids(self, column: str) -> list[str]:
        """A column of identifiers as text; an empty or a repeated one is an error."""
        texts = as_names(self.column(column), self.path.name)
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
        return as_names(self.column(column), self.path.name)

    def labels(self, column: str) -> list[str | None]:
        """A column as text, to name rows in a result; it may have gaps and repeats."""
        return as_labels(self.column(column), self.path.name)

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
