"""What the audits draw: regimes, vitals in every format, and planned histories."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from svmemory.audit import draw_keys, paper_rows, read_vitals
from svmemory.audit.drain import plan_drain
from svmemory.audit.regimes import trial_generator
from svmemory.audit.sequence import plan_sequence
from svmemory.audit.vitals import carried_forward, standardised
from svmemory.errors import InputError

SYNTHETIC = ("gaussian", "redundant", "duplicate")
HEADER = "patient,ICULOS,HR,O2Sat,Temp,SBP,MAP,DBP,Resp\n"


@pytest.fixture
def vitals_csv(tmp_path: Path) -> Path:
    """Three stays of 30 hours that drift, with gaps; hours written backwards."""
    rng = np.random.default_rng(5)
    lines = [HEADER]
    for patient in (7, 8, 9):
        walk = np.array([80, 97, 37, 120, 80, 60, 16]) + rng.standard_normal((30, 7)).cumsum(axis=0)
        for hour in reversed(range(30)):
            cells = [f"{x:.1f}" if rng.random() < 0.8 else "" for x in walk[hour]]
            lines.append(f"{patient},{hour + 1}," + ",".join(cells) + "\n")
    path = tmp_path / "vitals.csv"
    path.write_text("".join(lines))
    return path


# --- what the regimes draw ---------------------------------------------------------------------


@pytest.mark.parametrize("rows", [24, 64])
def test_duplicate_regime_is_eight_points_in_equal_numbers(rows: int) -> None:
    keys = draw_keys("duplicate", np.random.default_rng(0), rows)
    points, copies = np.unique(keys, axis=0, return_counts=True)
    assert points.shape == (8, 6)
    assert copies.tolist() == [rows // 8] * 8


def test_redundant_regime_is_four_tight_groups_of_distinct_keys() -> None:
    keys = draw_keys("redundant", np.random.default_rng(0), 24)
    assert len(np.unique(keys, axis=0)) == 24
    distance = np.sqrt(((keys[:, None] - keys[None]) ** 2).sum(axis=2))
    near = distance < 0.5  # noise 0.02 in 6 dimensions: within 0.1; centres lie several units apart
    assert near.sum(axis=1).tolist() == [6] * 24
    assert distance[near].max() < 0.2


def test_gaussian_regime_has_unit_spread() -> None:
    keys = draw_keys("gaussian", np.random.default_rng(0), 1024)
    assert keys.shape == (1024, 6)
    assert abs(keys.mean()) < 0.05  # standard error 0.013
    assert abs(keys.std() - 1) < 0.05


@pytest.mark.parametrize("regime", SYNTHETIC)
def test_a_trial_depends_on_seed_regime_and_number_alone(regime: str) -> None:
    first = draw_keys(regime, trial_generator(regime, 3, 11), 24)
    assert np.array_equal(first, draw_keys(regime, trial_generator(regime, 3, 11), 24))
    assert not np.array_equal(first, draw_keys(regime, trial_generator(regime, 3, 12), 24))
    assert not np.array_equal(first, draw_keys(regime, trial_generator(regime, 4, 11), 24))


def test_spare_keys_follow_the_same_centres() -> None:
    keys = draw_keys("duplicate", np.random.default_rng(1), 24, 16)
    assert keys.shape == (40, 6)
    assert len(np.unique(keys, axis=0)) == 8


def test_paper_sizes() -> None:
    assert [paper_rows(r) for r in (*SYNTHETIC, "icu")] == [24, 24, 24, 40]


# --- vitals ------------------------------------------------------------------------------------


def test_gaps_keep_the_last_value_of_the_channel() -> None:
    nan = float("nan")
    stay = np.array([[nan, 1.0], [5.0, nan], [nan, nan], [7.0, 2.0]])
    expected = np.array([[nan, 1.0], [5.0, 1.0], [5.0, 1.0], [7.0, 2.0]])
    assert np.array_equal(carried_forward(stay), expected, equal_nan=True)


def test_standardised_channels_and_what_is_missing_becomes_the_mean() -> None:
    nan = float("nan")
    rows = np.array([[1.0, 0.1, nan, nan], [3.0, 0.1, nan, 2.0], [5.0, 0.1, nan, 4.0]])
    root = np.sqrt(1.5)  # deviations -2, 0, 2 over a standard deviation of sqrt(8/3)
    expected = np.array([[-root, 0, 0, 0], [0, 0, 0, -1], [root, 0, 0, 1]])
    assert np.allclose(standardised(rows), expected, rtol=0, atol=1e-15)


def test_csv_hours_are_put_in_order_and_channels_in_ours(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + "a,2,82,98,,122,90,62,18\na,1,81,97,37.5,121,91,61,17\n")
    (stay,) = read_vitals(path).stays
    assert stay.tolist() == [[81, 121, 61, 17, 97, 37.5], [82, 122, 62, 18, 98, 37.5]]


def test_other_names_for_stay_hour_and_oxygen(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("stay,hour,HR,SBP,DBP,RR,SpO2,Temp\nx,0,81,121,61,17,97,37.5\n")
    assert read_vitals(path).stays[0].tolist() == [[81, 121, 61, 17, 97, 37.5]]


def test_the_formats_agree(vitals_csv: Path, tmp_path: Path) -> None:
    expected = read_vitals(vitals_csv).stays
    assert [stay.shape for stay in expected] == [(30, 6)] * 3

    packed = tmp_path / "vitals.csv.gz"
    packed.write_bytes(gzip.compress(vitals_csv.read_bytes()))
    columns, *lines = (line.split(",") for line in vitals_csv.read_text().splitlines())
    table = [dict(zip(columns, line, strict=True)) for line in lines]
    table.sort(key=lambda row: (row["patient"], int(row["ICULOS"])))
    hundredths = [[round(float(r[c] or "-0.01") * 100) for c in columns[2:]] for r in table]
    archive = tmp_path / "npz" / "stays.npz"
    archive.parent.mkdir()
    np.savez(
        archive,
        x100=np.array(hundredths, dtype=np.int16),
        columns=np.array(columns[2:]),
        ptr=np.array([0, 30, 60, 90]),
    )
    folder = tmp_path / "psv"
    folder.mkdir()
    for patient in "789":
        rows = [r for r in table if r["patient"] == patient]
        lines = ["|".join(r[c] or "NaN" for c in columns[1:]) for r in rows]
        (folder / f"p{patient}.psv").write_text("|".join(columns[1:]) + "\n" + "\n".join(lines))
    for path in (packed, archive, archive.parent, folder):
        stays = read_vitals(path).stays
        assert len(stays) == 3
        for stay, other in zip(stays, expected, strict=True):
            assert np.array_equal(stay, other, equal_nan=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "a,1,81,97,hot,121,91,61,17\n", "line 2: 'hot' is not a number"),
        ("patient,ICULOS,HR\na,1,80\n", "no column for sbp"),
        (HEADER, "holds no hourly vitals"),
        ("a\x00b", "v.csv"),
    ],
)
def test_damaged_vitals_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "v.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_vitals(path)


def test_icu_reads_a_stay_from_its_first_hour_and_goes_on_with_others(vitals_csv: Path) -> None:
    vitals = read_vitals(vitals_csv)
    keys = draw_keys("icu", np.random.default_rng(0), 24, 0, vitals)
    starts = [standardised(stay[:24]) for stay in vitals.stays]
    assert sum(np.array_equal(keys, start) for start in starts) == 1
    assert draw_keys("icu", np.random.default_rng(0), 64, 0, vitals).shape == (64, 6)
    with pytest.raises(InputError, match="has 90 hours, and a trial needs 91"):
        draw_keys("icu", np.random.default_rng(0), 90, 1, vitals)


# --- plans -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1])
def test_sequence_plans_are_possible_histories(number: int) -> None:
    moves = plan_sequence(np.random.default_rng(2), number, 8, 200)
    held, seen, returned = set(range(8)), set(range(8)), 0
    for move in moves:
        if move.verb == "forget":
            held.remove(move.row)  # KeyError: it was not there
        else:
            assert move.row not in held
            returned += move.row in seen
            held.add(move.row)
            seen.add(move.row)
    assert len(moves) == 200
    assert returned > 20  # about half of the additions are of rows removed before
    assert max(seen) < 8 + 200
    if number == 0:
        assert [move.verb for move in moves] == ["forget", "add"] * 100


def test_drain_plans_remove_every_row_once() -> None:
    moves = plan_drain(np.random.default_rng(2), 0, 12, 12)
    assert sorted(move.row for move in moves) == list(range(12))
    assert {move.verb for move in moves} == {"forget"}
