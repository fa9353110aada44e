"""The comparison of what stays in files: ours leave nothing, and absent peers are named."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "byte_scan_peers.py"


def test_ours_leave_nothing_and_what_is_not_installed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(path.read_text())
    assert result["passed"] is True
    table, _ = result["tables"]
    rows = {(row[0], row[1]): row[2:] for row in table["rows"]}
    for ours in ("svmemory file", "svmemory store"):
        assert rows[ours, "write"][:3] == [100, 100, "yes"]
        assert rows[ours, "delete"][:3] == [0, 0, "yes"]
    for name, module in {
        "chromadb": "chromadb",
        "sqlite-vec": "sqlite_vec",
        "mem0": "mem0",
    }.items():
        absent = importlib.util.find_spec(module) is None
        assert (f"{name} is not installed: left out" in result["notes"]) == absent
