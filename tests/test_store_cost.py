"""The benchmark of the store runs, and what it times is exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import store_cost


def test_quick_run_is_exact(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "result.json"
    assert store_cost.main(["--quick", "--json", str(path)]) == 0
    result = json.loads(path.read_text())
    assert result["passed"] is True
    assert [row[:2] for row in result["tables"][0]["rows"]] == [[300, "plain"], [300, "encrypted"]]
