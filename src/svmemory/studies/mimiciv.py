"""Hourly vital signs from MIMIC-IV's own tables, for whoever has access to them.

``icu/chartevents.csv.gz`` has 300 million rows, so it is read in blocks, and only rows of the
stays and items asked for are kept.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from ..audit.vitals import CHANNELS
from ..errors import InputError
from .settings import MissingError, Settings, reading
from .stays import LEAST_HOURS, Cohort, Stay, by_hour

NAME = "MIMIC-IV"
FAHRENHEIT = 223761
ITEMS = {
    220045: "hr",
    220050: "sbp",  # arterial line
    220179: "sbp",  # cuff
    225309: "sbp",  # second arterial line
    220051: "dbp",
    220180: "dbp",
    225310: "dbp",
    220210: "resp",
    224690: "resp",  # total, from the ventilator
    220277: "o2sat",
    FAHRENHEIT: "temp",
    223762: "temp",
}
"""Items of ``d_items`` and the channel of each."""

PLAUSIBLE = {
    "hr": (1.0, 300.0),
    "sbp": (1.0, 300.0),
    "dbp": (1.0, 250.0),
    "resp": (0.0, 80.0),
    "o2sat": (1.0, 100.0),
    "temp": (25.0, 45.0),
}
"""Values outside are typing errors or open lines, and are dropped."""

_BLOCK = 1 << 26  # bytes of text parsed at once
_TIME = "%Y-%m-%d %H:%M:%S"


def mimiciv(settings: Settings, most: int) -> Cohort:
    """MIMIC-IV's usable stays from ``mimiciv/icu`` or ``icu`` in the data folder.

    Parameters
    ----------
    settings : Settings
    most : int
        Stays of at least a day that are looked for, chosen at random.

    Raises
    ------
    MissingError
        If the tables are not in the data folder, or no stay is usable.
    """
    for folder in (settings.data / "mimiciv" / "icu", settings.data / "icu"):
        chart, stays = _table(folder, "chartevents"), _table(folder, "icustays")
        if chart is not None and stays is not None:
            return Cohort.of_usable(NAME, read(chart, stays, most, settings.seed), folder)
    raise MissingError(
        "needs chartevents.csv.gz and icustays.csv.gz in mimiciv/icu or icu of the data folder: "
        "docs/how-to/data.md says where to get them"
    )


def read(chart: Path, stays: Path, most: int | None = None, seed: int = 0) -> list[Stay]:
    """Stays with the hourly mean of each channel, hours counted from ``intime``.

    Parameters
    ----------
    chart : Path
        ``chartevents.csv`` or ``.csv.gz``: stay_id, charttime, itemid, valuenum.
    stays : Path
        ``icustays.csv`` or ``.csv.gz``: subject_id, stay_id (or icustay_id), intime, outtime.
    most : int, optional
        At most so many stays of at least a day, at random; all stays by default.
    seed : int

    Returns
    -------
    list of Stay
        Those with any value, in the order of the table of stays. A value counts for the hour in
        which it was charted, from ``intime`` to ``outtime``.

    Raises
    ------
    InputError
        If a table is damaged, or the first has no rows.
    """
    table = _stay_table(stays)
    if most is not None:
        table = table.filter(pl.col("hours") >= LEAST_HOURS)
        chosen = np.sort(np.random.default_rng(seed).permutation(len(table))[:most])
        table = table[chosen.tolist()]
    items = pl.DataFrame({"itemid": list(ITEMS), "channel": list(ITEMS.values())})
    wanted = table["stay_id"].implode()
    parts = [
        block.filter(pl.col("stay_id").is_in(wanted) & pl.col("valuenum").is_not_null()).join(
            items, on="itemid"
        )
        for block in _blocks(chart)
    ]
    if not parts:
        raise InputError(f"{chart} holds no measurements: get it anew")
    with reading(chart):
        hourly = _hourly(pl.concat(parts), table)
    found: dict[int, dict[int, list[float]]] = {}
    for stay, hour, *values in hourly.iter_rows():
        found.setdefault(stay, {})[hour] = [np.nan if v is None else v for v in values]
    return [
        Stay(str(stay), by_hour(found[stay]), patient=str(patient))
        for stay, patient in table.select("stay_id", "subject_id").iter_rows()
        if stay in found
    ]


def _table(folder: Path, name: str) -> Path | None:
    """A table of the folder, compressed or not."""
    return next(
        (p for p in (folder / f"{name}.csv.gz", folder / f"{name}.csv") if p.exists()), None
    )


def _stay_table(file: Path) -> pl.DataFrame:
    with reading(file):
        table = pl.read_csv(file)
        if "stay_id" not in table.columns:  # as MIMIC-III has it
            table = table.rename({"icustay_id": "stay_id"})
        return table.select(
            pl.col("stay_id", "subject_id").cast(pl.Int64),
            pl.col("intime", "outtime").str.to_datetime(_TIME),
        ).with_columns(hours=(pl.col("outtime") - pl.col("intime")).dt.total_seconds() / 3600.0)


def _blocks(file: Path) -> Iterator[pl.DataFrame]:
    """The columns needed, some million rows at a time."""
    opener = gzip.open if file.suffix == ".gz" else open
    with reading(file), opener(file, "rb") as lines:
        header = lines.readline()
        while block := lines.read(_BLOCK):
            yield pl.read_csv(
                header + block + lines.readline(),
                columns=["stay_id", "charttime", "itemid", "valuenum"],
                schema_overrides={
                    "stay_id": pl.Int64,
                    "charttime": pl.String,
                    "itemid": pl.Int64,
                    "valuenum": pl.Float64,
                },
            )


def _hourly(rows: pl.DataFrame, stays: pl.DataFrame) -> pl.DataFrame:
    """(stay_id, hour, the six channels) with the mean of each hour."""
    celsius = pl.when(pl.col("itemid") == FAHRENHEIT).then((pl.col("valuenum") - 32.0) / 1.8)
    ranges = pl.DataFrame(
        [(channel, *limits) for channel, limits in PLAUSIBLE.items()],
        schema=["channel", "least", "most"],
        orient="row",
    )
    since = pl.col("charttime").str.to_datetime(_TIME) - pl.col("intime")
    table = (
        rows.join(stays, on="stay_id")
        .join(ranges, on="channel")
        .with_columns(
            value=celsius.otherwise(pl.col("valuenum")),
            hour=since.dt.total_seconds().floordiv(3600),
        )
        .filter(
            pl.col("value").is_between("least", "most")
            & (pl.col("hour") >= 0)
            & (pl.col("hour") < pl.col("hours"))
        )
        .group_by("stay_id", "hour", "channel")
        .agg(pl.col("value").mean())
        .pivot(on="channel", index=["stay_id", "hour"], values="value")
        .sort("stay_id", "hour")
    )
    absent = [pl.lit(None, pl.Float64).alias(c) for c in CHANNELS if c not in table.columns]
    return table.with_columns(absent).select("stay_id", "hour", *CHANNELS)
