"""The pruning benchmark runs on real streams, and no proof is wrong there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "pruning_icu.py"


def run(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SVMEMORY_DATA": str(data), "COLUMNS": "200"}
    command = [sys.executable, str(SCRIPT), "--quick", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)


def test_no_proof_is_wrong_on_hourly_vitals(data_dir: Path, tmp_path: Path) -> None:
    if not (data_dir / "physionet2019").is_dir():
        pytest.skip("no physionet2019 in the folder of data sets (docs/how-to/data.md)")
    done = run(data_dir, "--json", str(tmp_path / "result.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert [check["passed"] for check in result["checks"]] == [True, True, True]
    stays, arrivals, departures, plans = result["tables"]
    for row in stays["rows"]:
        plain, proved, equal = row[3:]
        assert plain <= proved <= equal
    for table in (arrivals, departures):
        assert len(table["rows"]) == len(stays["rows"])
        for row in table["rows"]:
            proved, equal = (float("inf") if cell == "all" else int(cell) for cell in row[4:])
            assert proved <= equal
    for k, simple, threshold, droppable, reserve in plans["rows"]:
        assert 0 < threshold < simple
        assert droppable <= reserve
        assert k > 0


def test_without_data_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path / "nowhere")
    assert done.returncode == 2
    assert "does not exist" in done.stderr
