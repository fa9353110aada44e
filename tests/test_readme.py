"""The README's shell session works as written (its Python session runs as a doctest)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def session_after(heading: str) -> str:
    """The first shell block below a heading."""
    section = README.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    found = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_command_line_session(tmp_path: Path) -> None:
    tool = f'svmemory() {{ "{sys.executable}" -m svmemory "$@"; }}\nset -e\n'
    done = subprocess.run(
        ["bash", "-c", tool + session_after("On the command line")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch("[0-9a-f]{64}", done.stdout.splitlines()[-1])
    assert (tmp_path / "visits.svm").is_file()
    assert b"ann" not in (tmp_path / "visits.svm").read_bytes()
