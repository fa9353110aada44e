"""Intensive-care stays with their hourly vital signs as they were measured, gaps left open."""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..audit.vitals import CHANNELS
from .settings import MissingError, Settings, reading

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_HOURS = 24
PHYSIONET = "PhysioNet 2019 set A"
_ARCHIVES = ("vitals_setA_part1.npz", "vitals_setA_part2.npz")
_PSV = {"HR": "hr", "SBP": "sbp", "DBP": "dbp", "Resp": "resp", "O2Sat": "o2sat", "Temp": "temp"}
_DEMO = {**_PSV, "SpO2": "o2sat"}


@dataclass(frozen=True, eq=False)
class Stay:
    """One stay.

    Attributes
    ----------
    name : str
    vitals : (hours, 6) array
        Heart rate, systolic and diastolic pressure, respiratory rate, oxygen saturation,
        temperature (Celsius); NaN where nothing was measured in the hour.
    sepsis : (hours,) array or None
        PhysioNet's label of the hour.
    patient : str or None
        Whose stay it is; None where every stay is another patient's.
    """

    name: str
    vitals: Floats
    sepsis: Bools | None = None
    patient: str | None = None

    @property
    def usable(self) -> bool:
        """Whether it lasts a day and every channel was measured at least once."""
        long_enough = len(self.vitals) >= LEAST_HOURS
        return long_enough and not bool(np.isnan(self.vitals).all(axis=0).any())


@dataclass(frozen=True, eq=False)
class Cohort:
    """Usable stays of one source, in the source's order.

    Attributes
    ----------
    name : str
        For a table.
    stays : sequence of Stay
    """

    name: str
    stays: Sequence[Stay]

    @property
    def hours(self) -> int:
        """Hours of all stays."""
        return sum(len(stay.vitals) for stay in self.stays)

    @classmethod
    def of_usable(cls, name: str, stays: Iterable[Stay], source: Path) -> Cohort:
        """Those of the stays that are usable.

        Raises
        ------
        MissingError
            If none is.
        """
        chosen = [stay for stay in stays if stay.usable]
        if not chosen:
            raise MissingError(
                f"found no stay of at least {LEAST_HOURS} hours with every channel measured in "
                f"{source}"
            )
        return cls(name, chosen)

    def mark(self) -> str:
        """Hash of all names and numbers: what a result computed from them depends on."""
        seal = hashlib.sha256()
        for stay in self.stays:
            seal.update(f"{stay.name} {stay.vitals.shape}".encode())
            seal.update(np.ascontiguousarray(stay.vitals).tobytes())
            if stay.sepsis is not None:
                seal.update(stay.sepsis.tobytes())
        return seal.hexdigest()[:16]

    def sample(self, most: int, seed: int, septic: bool = False) -> Cohort:
        """At most so many of its stays, at random; ``septic`` takes those with a labelled hour."""
        stays = [
            stay
            for stay in self.stays
            if not septic or (stay.sepsis is not None and 0 < stay.sepsis.sum() < len(stay.sepsis))
        ]
        chosen = np.sort(np.random.default_rng(seed).permutation(len(stays))[:most])
        return Cohort(self.name, [stays[i] for i in chosen])


def physionet(settings: Settings) -> Cohort:
    """Usable stays of the PhysioNet 2019 Challenge's training set A.

    Raises
    ------
    MissingError
        As :func:`set_a`, or if no stay is usable.
    """
    return Cohort.of_usable(PHYSIONET, set_a(settings), settings.data / "physionet2019")


def set_a(settings: Settings) -> Iterator[Stay]:
    """Every stay of training set A in its order, from the ``.npz`` parts or the ``.psv`` files.

    A file is read when its first stay is asked for: who takes the first stays needs no more of
    them.

    Raises
    ------
    MissingError
        If ``physionet2019`` is not in the data folder or holds neither, or, in full size, one of
        the two parts only.
    """
    folder = settings.file("physionet2019")
    if parts := sorted(folder.glob("vitals_setA_part*.npz")):
        if not settings.quick:
            parts = [settings.file("physionet2019", name) for name in _ARCHIVES]
        for part in parts:
            yield from _archive(part)
        return
    inner = folder / "training_setA"
    files = sorted((inner if inner.is_dir() else folder).rglob("*.psv"))
    if not files:
        raise MissingError(
            "found neither vitals_setA_part*.npz nor .psv files in physionet2019/ of the data "
            "folder: docs/how-to/data.md says where to get them"
        )
    for file in files:
        yield _psv(file)


def mimic3_demo(settings: Settings) -> Cohort:
    """The MIMIC-III demo's stays, from its hourly table.

    Raises
    ------
    MissingError
        If the table is not in the data folder, or no stay is usable.
    """
    path = settings.file("mimic3_demo", "vitals_hourly.csv.gz")
    found: dict[str, dict[int, list[float]]] = {}
    patient: dict[str, str] = {}
    with reading(path), gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            named = {_DEMO[name]: value for name, value in row.items() if name in _DEMO}
            values = [float(named[c]) if named[c] else np.nan for c in CHANNELS]
            found.setdefault(row["icustay_id"], {})[int(row["hour"])] = values
            patient[row["icustay_id"]] = row["subject_id"]
    stays = [Stay(name, by_hour(hours), patient=patient[name]) for name, hours in found.items()]
    return Cohort.of_usable("MIMIC-III demo", stays, path)


def by_hour(found: dict[int, list[float]]) -> Floats:
    """Rows in order of their hours (>= 0), NaN in hours without one."""
    vitals = np.full((max(found) + 1, len(CHANNELS)), np.nan)
    for hour, values in found.items():
        vitals[hour] = values
    return vitals


def _archive(file: Path) -> list[Stay]:
    """Stays of an archive: ``x100`` holds hundredths, -1 where missing; ``ptr`` first rows."""
    with reading(file), file.open("rb") as source, np.load(source, allow_pickle=False) as archive:
        names = [_PSV.get(str(name), "") for name in archive["columns"]]
        hundredths = archive["x100"][:, [names.index(channel) for channel in CHANNELS]]
        sepsis = archive["sepsis"].astype(bool)
        patients, ends = archive["patient"], archive["ptr"]
        if not len(hundredths) == len(sepsis) == ends[-1] or len(patients) != len(ends) - 1:
            raise ValueError("its arrays are of different lengths")
    vitals = np.where(hundredths == -1, np.nan, hundredths / 100.0)
    return [
        Stay(str(patient), vitals[start:stop], sepsis[start:stop])
        for patient, start, stop in zip(patients, ends[:-1], ends[1:], strict=True)
    ]


def _psv(file: Path) -> Stay:
    """A stay as the Challenge publishes it."""
    with reading(file):
        table = pl.read_csv(
            file,
            separator="|",
            columns=[*_PSV, "SepsisLabel"],
            null_values=["NaN"],
            schema_overrides={**dict.fromkeys(_PSV, pl.Float64), "SepsisLabel": pl.Int64},
        )
    by_channel = {channel: name for name, channel in _PSV.items()}
    vitals = table.select([by_channel[c] for c in CHANNELS]).cast(pl.Float64).to_numpy()
    return Stay(file.stem, np.array(vitals), table["SepsisLabel"].to_numpy() == 1)
