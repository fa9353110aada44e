"""The script that prices a certificate runs, and what it times is exact."""

from __future__ import annotations

import json
from pathlib import Path

from certificate_cost import main


def test_it_runs_and_says_what_it_measured(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert main(["--quick", "--json", str(path)]) == 0
    result = json.loads(path.read_text())
    assert [claim["target"] for claim in result["claims"]] == [None] * 4  # sizes are not the full
    assert all(claim["measured"] > 0 for claim in result["claims"])
    assert len(result["checks"]) == 6
    assert all(check["passed"] for check in result["checks"])
