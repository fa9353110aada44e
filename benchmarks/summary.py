"""Write the results of benchmarks into docs/performance.md, so that every figure there is a run's.

In the page, a pair of comments marks the place of one benchmark's figures:

    <!-- figures: bulk build -->
    <!-- end of figures -->

Each JSON file given replaces what stands between the marks of its benchmark.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
END = "<!-- end of figures -->"


def shown(cell: object) -> str:
    """A cell of a Markdown table."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return lines + ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows]


def figures(result: dict[str, Any]) -> str:
    """One benchmark's claims, tables, checks and circumstances as Markdown."""
    claims = []
    for claim in result["claims"]:
        bound = "<=" if claim["at_most"] else ">="
        target = None if claim["target"] is None else f"{bound} {claim['target']:g}"
        verdict = {True: "pass", False: "**missed**", None: None}[claim["passed"]]
        claims.append([claim["name"], claim["measured"], target, verdict])
    lines = [*table(["ratio", "measured", "target", ""], claims), ""] if claims else []
    for content in result["tables"]:
        lines += [f"{content['title']}:", "", *table(content["columns"], content["rows"]), ""]
    passed = sum(check["passed"] for check in result["checks"])
    facts = result["environment"]
    software = ", ".join(
        f"{name} {facts[name]}"
        for name in ("svmemory", "python", "numpy", "numba", "scikit-learn", "torch")
        if facts.get(name)
    )
    lines += [
        f"Exactness checks passed: {passed} of {len(result['checks'])}. "
        f"{facts['processor']}, {facts['cores']} cores; {software}; seed {result['seed']}.",
    ]
    return "\n".join([*lines, *result["notes"]])


def insert(page: str, result: dict[str, Any]) -> str:
    """The page with one benchmark's figures in their place.

    Raises
    ------
    ValueError
        If the page has no place for them, or the run was a quick one.
    """
    name = result["benchmark"]
    if result["quick"]:
        raise ValueError(f"the run of {name!r} was quick: the page is about full runs")
    start = f"<!-- figures: {name} -->"
    pattern = re.compile(re.escape(start) + r".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no place for {name!r}")
    return pattern.sub(lambda _: f"{start}\n{figures(result)}\n{END}", page)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 2 if a file has no place in the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", nargs="+", type=Path, help="JSON files of full runs")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args(argv)
    page = args.page.read_text()
    try:
        for path in args.results:
            page = insert(page, json.loads(path.read_text()))
    except ValueError as error:
        parser.error(str(error))
    args.page.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
