"""Small folders of made-up stays in the formats that hospitals' data are published in."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

COLUMNS = ("HR", "O2Sat", "Temp", "SBP", "MAP", "DBP", "Resp")
TYPICAL = np.array([80.0, 97.0, 37.0, 120.0, 80.0, 65.0, 18.0])
SPREAD = np.array([8.0, 1.0, 0.3, 10.0, 8.0, 6.0, 2.0])


def made_up(seed: int, hours: int) -> np.ndarray:
    """(hours, 7) in the order of COLUMNS, rounded to tenths, a fifth missing."""
    rng = np.random.default_rng(seed)
    values = np.round(TYPICAL + SPREAD * rng.standard_normal((hours, 7)), 1)
    values[:, 1] = np.minimum(values[:, 1], 100.0)
    values[hours // 2, [0, 3]] = 150.0, 85.0  # an eventful hour, and a desaturation later on
    values[hours // 2 + 3, 1] = 84.0
    hidden = rng.random((hours, 7)) < 0.2
    hidden[[0, hours // 2, hours // 2 + 3]] = False
    return np.where(hidden, np.nan, values)


def physionet_npz(data: Path, stays: int, hours: int = 30) -> list[np.ndarray]:
    """Write ``physionet2019/vitals_setA_part1.npz``; every second stay is septic at its end."""
    vitals = [made_up(i, hours) for i in range(stays)]
    rows = np.concatenate(vitals)
    label = np.zeros((stays, hours), np.uint8)
    label[::2, -6:] = 1
    folder = data / "physionet2019"
    folder.mkdir(parents=True)
    np.savez(
        folder / "vitals_setA_part1.npz",
        x100=np.where(np.isnan(rows), -1, np.round(rows * 100)).astype(np.int16),
        columns=np.array(COLUMNS),
        patient=np.arange(stays) + 1000,
        ptr=np.arange(stays + 1) * hours,
        sepsis=label.ravel(),
    )
    return vitals


def mimic_tables(
    icu: Path, charted: list[tuple[int, str, int, float]], suffix: str = ".gz"
) -> None:
    """Write ``chartevents.csv`` and ``icustays.csv`` of stays 1 (30 h) and 2 (3 h)."""
    icu.mkdir(parents=True, exist_ok=True)
    events = ["subject_id,hadm_id,stay_id,caregiver_id,charttime,storetime,itemid,value,valuenum"]
    events += [f'9,9,{s},7,{t},{t},{i},"{v}, noted",{v}' for s, t, i, v in charted]
    events.append("9,9,1,7,2150-01-01 10:00:00,2150-01-01 10:00:00,220045,refused,")
    stays = [
        "subject_id,hadm_id,stay_id,first_careunit,last_careunit,intime,outtime,los",
        "9,9,1,MICU,MICU,2150-01-01 00:30:00,2150-01-02 06:30:00,1.25",
        "9,9,2,MICU,MICU,2150-03-01 00:00:00,2150-03-01 03:00:00,0.125",
    ]
    for name, lines in (("chartevents", events), ("icustays", stays)):
        text = ("\n".join(lines) + "\n").encode()
        packed = gzip.compress(text) if suffix else text
        (icu / f"{name}.csv{suffix}").write_bytes(packed)


CHARTED_STAY = [
    (1, f"2150-01-0{1 + (h + 1) // 24} {(h + 1) % 24:02d}:00:00", item, value + 2 * (h % 5))
    for h in range(29)
    for item, value in (
        (220045, 140.0 if h == 9 else 80.0), (220179, 120.0), (220180, 60.0), (220210, 15.0),
        (220277, 80.0 if h == 12 else 90.0), (223762, 36.0),
    )
]  # fmt: skip
"""Rows for :func:`mimic_tables`: stay 1 with every channel in every hour and two events."""


def demo_table(data: Path, stays: int) -> Path:
    """Write ``mimic3_demo/vitals_hourly.csv.gz``: so many stays of 30 hours, two a patient."""
    path = data / "mimic3_demo" / "vitals_hourly.csv.gz"
    path.parent.mkdir(parents=True)
    lines = ["subject_id,hadm_id,icustay_id,hour,HR,SpO2,Resp,SBP,MAP,DBP,Temp"]
    for stay in range(stays):
        for hour, row in enumerate(made_up(stay, 30)):
            values = ["" if np.isnan(v) else f"{v:g}" for v in row]
            hr, o2sat, temp, sbp, mean, dbp, resp = values
            told = [stay // 2, 5, stay, hour, hr, o2sat, resp, sbp, mean, dbp, temp]
            lines.append(",".join(map(str, told)))
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")
    return path
