"""Data files that are cut off, empty, of another layout or useless: each is named in the error."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from stay_tables import CHARTED_STAY, demo_table, mimic_tables, physionet_npz
from svmemory.errors import InputError
from svmemory.studies import mimiciv, novelty
from svmemory.studies.corpora import synthea, tofu
from svmemory.studies.outliers import table
from svmemory.studies.settings import MissingError, Settings
from svmemory.studies.stays import mimic3_demo, physionet


def settings_of(data: Path) -> Settings:
    return Settings(data / "out", data, quick=True)


def cut(path: Path) -> None:
    """Lose the second half of a file."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize("how", ["cut", "empty", "array"])
def test_a_damaged_archive_is_named(tmp_path: Path, how: str) -> None:
    physionet_npz(tmp_path, 4)
    path = tmp_path / "physionet2019" / "vitals_setA_part1.npz"
    if how == "cut":
        cut(path)
    elif how == "empty":
        path.write_bytes(b"")
    else:
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        np.savez(path, **{**arrays, "sepsis": arrays["sepsis"][:-1]})
    with pytest.raises(InputError, match=r"vitals_setA_part1\.npz cannot be read"):
        physionet(settings_of(tmp_path))


@pytest.mark.parametrize("text", ["", "HR|SBP\n80|120\n", "HR|O2Sat|Temp|SBP|DBP|Resp|SepsisLabel\n"
                                  "a|97|36|120|65|18|0\n"])  # fmt: skip
def test_a_damaged_psv_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "physionet2019").mkdir()
    (tmp_path / "physionet2019" / "p000001.psv").write_text(text)
    with pytest.raises(InputError, match=r"p000001\.psv cannot be read"):
        physionet(settings_of(tmp_path))


def test_a_damaged_demo_table_is_named(tmp_path: Path) -> None:
    path = demo_table(tmp_path, 2)
    cut(path)
    with pytest.raises(InputError, match=r"vitals_hourly\.csv\.gz cannot be read \(EOFError"):
        mimic3_demo(settings_of(tmp_path))
    path.write_bytes(gzip.compress(b"stay,hour,HR\n1,0,80\n"))
    with pytest.raises(InputError, match=r"vitals_hourly\.csv\.gz cannot be read \(KeyError"):
        mimic3_demo(settings_of(tmp_path))
    path.write_bytes(b"")
    with pytest.raises(MissingError, match="no stay of at least 24 hours"):
        mimic3_demo(settings_of(tmp_path))


def test_damaged_mimic_iv_tables_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "icu"
    mimic_tables(folder, CHARTED_STAY)
    chart, table = (folder / f"{name}.csv.gz" for name in ("chartevents", "icustays"))
    whole = gzip.decompress(chart.read_bytes())
    cut(chart)
    with pytest.raises(InputError, match=r"chartevents\.csv\.gz cannot be read"):
        mimiciv.read(chart, table)
    chart.write_bytes(gzip.compress(whole.splitlines(keepends=True)[0]))
    with pytest.raises(InputError, match="holds no measurements"):
        mimiciv.read(chart, table)
    chart.write_bytes(gzip.compress(whole.replace(b"2150-01-0", b"1.Jan. ")))
    with pytest.raises(InputError, match=r"chartevents\.csv\.gz cannot be read"):
        mimiciv.read(chart, table)
    table.write_bytes(gzip.compress(b"stay_id,intime\n1,2150-01-01 00:30:00\n"))
    with pytest.raises(InputError, match=r"icustays\.csv\.gz cannot be read"):
        mimiciv.read(chart, table)


def test_stays_that_are_all_too_short_are_missing(tmp_path: Path) -> None:
    physionet_npz(tmp_path, 3, hours=20)
    with pytest.raises(MissingError, match="no stay of at least 24 hours with every channel"):
        physionet(settings_of(tmp_path))
    mimic_tables(tmp_path / "icu", CHARTED_STAY[:4])
    with pytest.raises(MissingError, match="no stay of at least 24 hours"):
        mimiciv.mimiciv(settings_of(tmp_path), 5)


def test_the_full_size_takes_both_parts(tmp_path: Path) -> None:
    physionet_npz(tmp_path, 3)
    with pytest.raises(MissingError, match=r"vitals_setA_part2\.npz"):
        physionet(Settings(tmp_path / "out", tmp_path))


# -- tables of ADBench ----------------------------------------------------------------------------


def adbench(data: Path, name: str, rows: np.ndarray, y: np.ndarray) -> Path:
    path = data / "adbench" / f"{name}.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, X=rows, y=y)
    return path


@pytest.mark.parametrize(
    ("y", "why"),
    [
        (np.zeros(60), "it has 60 and 0"),
        (np.ones(60), "it has 0 and 60"),
        (np.zeros(59), "one y a row"),
    ],
)
def test_a_table_without_normal_rows_or_anomalies_is_named(
    tmp_path: Path, y: np.ndarray, why: str
) -> None:
    adbench(tmp_path, "45_wine", np.ones((60, 3)), y)
    with pytest.raises(InputError, match=rf"45_wine\.npz cannot be read .*{why}"):
        novelty.run(settings_of(tmp_path))


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    odd = np.arange(60) % 2
    path = adbench(tmp_path, "45_wine", np.full((60, 3), np.nan), odd)
    with pytest.raises(InputError, match=r"45_wine\.npz cannot be read .*NaN"):
        table(settings_of(tmp_path), "45_wine")
    cut(path)
    with pytest.raises(InputError, match=r"45_wine\.npz cannot be read"):
        table(settings_of(tmp_path), "45_wine")
    np.savez(path, data=odd)
    with pytest.raises(InputError, match=r"45_wine\.npz cannot be read \(KeyError"):
        table(settings_of(tmp_path), "45_wine")


def test_the_quick_size_names_its_tables_if_none_is_there(tmp_path: Path) -> None:
    adbench(tmp_path, "32_shuttle", np.ones((60, 3)), np.arange(60) % 2)
    with pytest.raises(MissingError, match=r"45_wine, 4_breastw .*--full"):
        novelty.run(settings_of(tmp_path))


# -- texts ----------------------------------------------------------------------------------------


def test_damaged_texts_are_named(tmp_path: Path) -> None:
    path = tmp_path / "synthea" / "patient_sentences.jsonl.gz"
    path.parent.mkdir()
    for whole in (b"", gzip.compress(b"{}\n"), gzip.compress(b"[1,"), gzip.compress(b"a" * 99)[:9]):
        path.write_bytes(whole)
        with pytest.raises(InputError, match=r"patient_sentences\.jsonl\.gz cannot be read"):
            synthea(settings_of(tmp_path), 5)
    path.write_bytes(gzip.compress(b'{"patient": "a", "sentences": ["A was born."]}\n'))
    with pytest.raises(MissingError, match=r"needs 5 patients with sentences, .* has 1"):
        synthea(settings_of(tmp_path), 5)
    (tmp_path / "tofu").mkdir()
    row = '{"task_id": "1", "question": "Who?", "answer": "A."}'
    for name in ("forget01", "forget05", "forget10", "retain10"):
        with pytest.raises(MissingError, match=rf"tofu/{name}\.json in .*docs/how-to/data\.md"):
            tofu(settings_of(tmp_path), whole=True)
        (tmp_path / "tofu" / f"{name}.json").write_text(row)
    (tmp_path / "tofu" / "forget05.json").write_text(row.replace("Who", "What"))
    with pytest.raises(InputError, match=r"forget05\.json cannot be read \(KeyError"):
        tofu(settings_of(tmp_path), whole=True)
