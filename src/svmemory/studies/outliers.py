"""ADBench's tables (Han et al. 2022), split for novelty detection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .settings import MissingError, Settings, reading

Floats = NDArray[np.float64]

_LEAST_NORMAL = 20  # rows of a table, of which half train


@dataclass(frozen=True)
class Table:
    """Normal rows (n, d) and anomalies (m, d)."""

    name: str
    normal: Floats
    anomalies: Floats


@dataclass(frozen=True)
class Split:
    """Rows to train on, all normal, and rows to test on with 1 for an anomaly.

    All are standardised by the training rows; columns that do not vary there are left out.
    """

    train: Floats
    points: Floats
    truth: NDArray[np.int64]


def table_names(settings: Settings) -> list[str]:
    """The tables that are there, in the order of their ADBench numbers.

    Raises
    ------
    MissingError
        If there is none.
    """
    folder = settings.file("adbench")
    names = [path.stem for path in folder.glob("*.npz")]
    if not names:
        raise MissingError(
            "needs tables in adbench/ of the data folder: "
            "docs/how-to/data.md says where to get them"
        )
    return sorted(names, key=lambda name: (not name.split("_")[0].isdigit(), _number(name), name))


def table(settings: Settings, name: str) -> Table:
    """Read one.

    Raises
    ------
    InputError
        If it is damaged, or has too few normal rows or no anomaly.
    """
    path = settings.file("adbench", f"{name}.npz")
    with reading(path), path.open("rb") as source, np.load(source, allow_pickle=False) as archive:
        rows, anomalous = archive["X"].astype(np.float64), archive["y"] != 0
        if rows.ndim != 2 or anomalous.shape != rows.shape[:1]:
            raise ValueError("X is not a table with one y a row")
        if not np.isfinite(rows).all():
            raise ValueError("X holds NaN or infinity")
        if (~anomalous).sum() < _LEAST_NORMAL or not anomalous.any():
            raise ValueError(
                f"{_LEAST_NORMAL} normal rows and an anomaly are the least, it has "
                f"{(~anomalous).sum()} and {anomalous.sum()}"
            )
    number, _, rest = name.partition("_")
    return Table(rest if number.isdigit() else name, rows[~anomalous], rows[anomalous])


def split(data: Table, most: int, seed: int) -> Split:
    """Half of the normal rows train, the other half and all anomalies test.

    Parameters
    ----------
    data : Table
    most : int
        Largest number of training rows, and of normal and of anomalous test rows; drawn at random.
    seed : int
    """
    rng = np.random.default_rng(seed)
    normal = rng.permutation(data.normal)
    anomalies = rng.permutation(data.anomalies)[:most]
    half = len(normal) // 2
    train, rest = normal[:half][:most], normal[half:][:most]
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    varies = deviation > 1e-12 * (1.0 + np.abs(mean))
    points = np.concatenate([rest, anomalies])
    truth = np.repeat([0, 1], [len(rest), len(anomalies)])

    def scaled(rows: Floats) -> Floats:
        out: Floats = (rows[:, varies] - mean[varies]) / deviation[varies]
        return out

    return Split(scaled(train), scaled(points), truth)


def _number(name: str) -> int:
    first = name.split("_")[0]
    return int(first) if first.isdigit() else 0
