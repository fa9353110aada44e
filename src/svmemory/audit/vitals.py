"""Hourly vital signs of intensive-care stays, read from the formats they are published in.

Six channels in this order: heart rate, systolic and diastolic pressure, respiratory rate, oxygen
saturation, temperature. A missing hour keeps the channel's last value of the same stay; what is
missing before the first value stays NaN and is settled by :func:`standardised`.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

Floats = NDArray[np.float64]

CHANNELS = ("hr", "sbp", "dbp", "resp", "o2sat", "temp")
_WHERE = (
    "give a CSV file or the folder of the PhysioNet 2019 Challenge"
    " (https://doi.org/10.13026/v64v-d857) with --data, or set SVMEMORY_DATA to the folder that"
    " holds it as physionet2019 (docs/how-to/data.md)"
)
_OTHER_NAMES = {"spo2": "o2sat", "rr": "resp"}
_STAY_NAMES = ("stay", "stay_id", "icustay_id", "patient")
_HOUR_NAMES = ("hour", "iculos")
_MOST_FILES = 1000  # the full Challenge folder has 20,000 files; an audit draws a few hundred stays


@dataclass(frozen=True)
class Vitals:
    """Stays read from ``source``, each an (hours, 6) array, hours in order, carried forward."""

    source: str
    stays: tuple[Floats, ...]


def default_path() -> Path:
    """Folder of the PhysioNet 2019 files: under ``SVMEMORY_DATA``, else ``../shared/data``."""
    return Path(os.environ.get("SVMEMORY_DATA", "../shared/data")) / "physionet2019"


def read_vitals(path: str | Path | None = None) -> Vitals:
    """Read hourly vitals from a file or a folder.

    Parameters
    ----------
    path : str or Path, optional
        A ``.csv`` or ``.csv.gz`` table with the columns stay (or patient), hour (or ICULOS) and the
        six channels (HR, SBP, DBP, Resp, O2Sat or SpO2, Temp), one row an hour, empty = missing; an
        ``.npz`` of the PhysioNet 2019 stays (``x100``, ``columns``, ``ptr``); or a folder with
        ``stays300_vitals.csv.gz``, else such ``.npz`` files, else the Challenge's own ``.psv``
        files (one a stay, the first 1,000 by name). Default: :func:`default_path`.

    Raises
    ------
    InputError
        If there is no such path, or it holds no stay, or a value is not a number.
    """
    place = default_path() if path is None else Path(path)
    if not place.exists():
        raise InputError(
            f"the icu regime needs hourly vitals, and {place} does not exist: {_WHERE}"
        )
    try:
        stays = [carried_forward(stay) for stay in _stays(place) if len(stay)]
    except (OSError, EOFError, UnicodeError, KeyError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read vitals from {place}: {error}") from error
    if not stays:
        raise InputError(f"{place} holds no hourly vitals: {_WHERE}")
    return Vitals(str(place), tuple(stays))


def carried_forward(stay: Floats) -> Floats:
    """Fill each channel's gaps with its last value; NaN remains before the first value."""
    hours = np.arange(len(stay))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(stay), 0, hours), axis=0)
    return np.take_along_axis(stay, last, axis=0)


def standardised(rows: Floats) -> Floats:
    """Channels to mean 0 and standard deviation 1 over these rows; still missing = the mean, 0.

    A channel without spread, or without any value, becomes 0 everywhere.
    """
    known = ~np.isnan(rows)
    count = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, rows - np.where(known, rows, 0.0).sum(axis=0) / count, 0.0)
    spread = np.sqrt((centred * centred).sum(axis=0) / count)
    # A constant column's mean is off by rounding; that must not be blown up to unit spread.
    lowest = np.where(known, rows, np.inf).min(axis=0)
    highest = np.where(known, rows, -np.inf).max(axis=0)
    flat = highest <= lowest
    return np.where(flat, 0.0, centred / np.where(flat, 1.0, spread))


def _stays(place: Path) -> list[Floats]:
    if place.is_dir():
        return _folder(place)
    if place.suffix == ".npz":
        return _archive(place)
    opener = gzip.open if place.suffix == ".gz" else open
    with opener(place, "rt", encoding="utf-8", newline="") as lines:
        return _table(place, csv.DictReader(lines))


def _folder(folder: Path) -> list[Floats]:
    chosen = folder / "stays300_vitals.csv.gz"
    if chosen.exists():
        return _stays(chosen)
    if archives := sorted(folder.glob("*.npz")):
        return [stay for archive in archives for stay in _archive(archive)]
    stays = []
    for file in sorted(folder.glob("**/*.psv"))[:_MOST_FILES]:
        rows = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")), delimiter="|")
        stays += _table(file, rows, stay=file.stem)
    return stays


def _archive(file: Path) -> list[Floats]:
    with np.load(file, allow_pickle=False) as archive:
        names = [_channel(str(name)) for name in archive["columns"]]
        hundredths = archive["x100"][:, [names.index(channel) for channel in CHANNELS]]
        ends = archive["ptr"]
    values = np.where(hundredths == -1, np.nan, hundredths / 100.0)  # -1 marks a missing hour
    return [values[start:stop] for start, stop in pairwise(ends)]


def _table(
    file: Path, table: csv.DictReader[str] | Iterable[Mapping[str, str]], stay: str | None = None
) -> list[Floats]:
    """Group a table's rows by stay and put each stay's hours in order."""
    stays: dict[str, list[tuple[float, list[float]]]] = {}
    for number, raw in enumerate(table, start=2):  # line 1 is the header
        row = {_channel(name): value for name, value in raw.items() if name is not None}
        key = stay if stay is not None else _first(row, _STAY_NAMES, "stay", file)
        hour = _number(_first(row, _HOUR_NAMES, "hour", file), file, number)
        values = [_number(_first(row, (c,), c, file), file, number) for c in CHANNELS]
        stays.setdefault(key, []).append((hour, values))
    return [
        np.array([values for _, values in sorted(rows, key=lambda row: row[0])])
        for rows in stays.values()
    ]


def _channel(name: str) -> str:
    plain = name.strip().lower()
    return _OTHER_NAMES.get(plain, plain)


def _first(row: Mapping[str, str], names: tuple[str, ...], meaning: str, file: Path) -> str:
    for name in names:
        if name in row:
            return row[name] or ""
    raise InputError(f"{file} has no column for {meaning} (looked for {', '.join(names)})")


def _number(text: str, file: Path, line: int) -> float:
    if text.strip() == "":
        return float("nan")
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{file}, line {line}: {text!r} is not a number") from None
