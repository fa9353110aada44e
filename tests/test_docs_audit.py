"""docs/audit.md: its commands work, and make the certificate that it walks through."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certificates import statement_of

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "audit.md").read_text(encoding="utf-8")
VARIES = re.compile(r"urn:uuid:[0-9a-f-]{36}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
SALTED = {("identity", "key"), ("before", "digest"), ("before", "root"), ("removed", "id")}
SALTED |= {("removed", "subject")}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's commands have run."""
    place = tmp_path_factory.mktemp("audit")
    tool = f'svmemory() {{ "{sys.executable}" -m svmemory "$@"; }}\nset -e\n'
    script = tool + "".join(blocks("bash"))
    done = subprocess.run(
        ["bash", "-c", script], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (place / "printed").write_text(done.stdout, encoding="utf-8")
    return place


def test_what_verify_prints(folder: Path) -> None:
    """Every line of the page was printed, up to what differs between two runs."""
    printed = (folder / "printed").read_text(encoding="utf-8").splitlines()
    (shown,) = blocks("text")
    for line in shown.splitlines():
        start = re.sub(r"sha256:.*|\d{4}-\d\d-\d\dT.*| \.\.\.$", "", line)
        assert any(other.startswith(start) for other in printed), line
    assert printed.count("verified") == 2


def test_the_certificate_on_the_page(folder: Path) -> None:
    statement = statement_of((folder / "ann.json").read_bytes())
    sections = [json.loads(block) for block in blocks("json")]
    assert len(sections) >= 10
    whole = statement | statement["predicate"]
    for section in sections:
        for name, value in section.items():
            same(value, whole[name], (name,))


def same(shown: Any, real: Any, path: tuple[str, ...]) -> None:
    """What the page shows is what there is; salted and random parts only in form."""
    if isinstance(shown, dict):
        assert set(shown) == set(real), path
        for name in shown:
            same(shown[name], real[name], (*path, name))
    elif isinstance(shown, list):
        assert len(shown) == len(real), path
        if path == ("removed",):  # in the order of commitments, which is another in every run
            shown, real = ([*sorted(rows, key=lambda row: row["set"])] for rows in (shown, real))
        for one, other in zip(shown, real, strict=True):
            same(one, other, path)
    elif path[0] == "optimality":  # sums in another order on another processor
        assert abs(float.fromhex(shown) - float.fromhex(real)) < 1e-9, path
    elif path[-2:] in SALTED or (path[0], path[-1]) in SALTED:
        assert re.fullmatch("sha256:[0-9a-f]{64}", shown), path
        assert re.fullmatch("sha256:[0-9a-f]{64}", real), path
    elif isinstance(shown, str) and VARIES.fullmatch(shown):
        assert VARIES.fullmatch(real), path
    else:
        assert shown == real, path


def test_numbers_in_the_text() -> None:
    """What the sentences say of the figures is what the figures say."""
    figures: dict[str, Any] = {}
    for block in blocks("json"):
        figures |= json.loads(block)
    optimality = figures["optimality"]
    assert float.fromhex(optimality["residual"]) == 2.0**-53
    assert f"{float.fromhex(optimality['scoreBound']):.1e}" == "1.6e-10"
    assert f"{float.fromhex(optimality['complementarity']['slack']):.3f}" == "0.069"
    assert f"{float.fromhex(optimality['complementarity']['mass']):.2f}" == "0.18"
    assert float.fromhex(figures["contract"]["gamma"]) == 40.0
    assert float.fromhex(figures["contract"]["C"]) == 0.25
