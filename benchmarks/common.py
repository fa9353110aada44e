"""What every benchmark shares: arguments, timing side by side, claims, and the report.

A speed claim is a ratio against a named peer measured in the same run. Ours and the peer take
turns, each turn gives one ratio, and the claim is the median of the ratios: a machine that is busy
for a while is busy for both.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

T = TypeVar("T")
Cell = str | int | float | bool | None

_PACKAGES = (
    "svmemory",
    "numpy",
    "numba",
    "scipy",
    "scikit-learn",
    "torch",
    "qpsolvers",
    "clarabel",
)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, no speed targets")
    parser.add_argument(
        "--json", "--out", dest="json", type=Path, metavar="PATH", help="write the results as JSON"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds that ``call`` took, and what it returned; the garbage collector waits meanwhile."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        result = call()
        return time.perf_counter() - start, result
    finally:
        if was_on:
            gc.enable()


def median_ratio(peer: Sequence[float], ours: Sequence[float]) -> float:
    """Median over rounds of ``peer / ours``; not a number if there was no round."""
    pairs = list(zip(peer, ours, strict=True))
    return statistics.median(p / o for p, o in pairs) if pairs else math.nan


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Slope p of the least-squares line through (log size, log cost): cost grows as size^p."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def resident_bytes(peak: bool = False) -> int:
    """Resident memory of this process now, or its peak so far.

    Raises
    ------
    OSError
        Where there is no /proc (elsewhere than on Linux).
    """
    wanted = "VmHWM:" if peak else "VmRSS:"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(wanted):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {wanted}")


def forget_peak() -> None:
    """Start the peak of :func:`resident_bytes` anew from the present.

    Raises
    ------
    OSError
        Where the system does not allow it.
    """
    Path("/proc/self/clear_refs").write_text("5")


def environment() -> dict[str, Cell]:
    """Facts about the machine and the software that a reader of the figures needs."""
    facts: dict[str, Cell] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = None
    return facts


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Claim:
    """A measured ratio beside its target.

    Attributes
    ----------
    name : str
    measured : float
    target : float or None
        None where the figure is only reported.
    at_most : bool
        Whether the target is an upper bound; else it is a lower one.
    """

    name: str
    measured: float
    target: float | None
    at_most: bool

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        # Not a number fails both comparisons: what was not measured is not shown.
        return self.measured <= self.target if self.at_most else self.measured >= self.target


@dataclass
class Report:
    """Tables, claims and exactness checks of one benchmark.

    In quick mode targets are dropped: they are about the full sizes. Exactness counts always.
    """

    benchmark: str
    quick: bool
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Add a table."""
        listed = [[_plain(cell) for cell in row] for row in rows]
        self.tables.append({"title": title, "columns": list(columns), "rows": listed})

    def at_least(self, name: str, measured: float, target: float | None = None) -> None:
        """Claim that a ratio is at least ``target``."""
        self._claim(name, measured, target, at_most=False)

    def at_most(self, name: str, measured: float, target: float | None = None) -> None:
        """Claim that a ratio is at most ``target``."""
        self._claim(name, measured, target, at_most=True)

    def _claim(self, name: str, measured: float, target: float | None, at_most: bool) -> None:
        self.claims.append(Claim(name, float(measured), None if self.quick else target, at_most))

    def check(self, name: str, passed: bool, detail: str = "") -> None:
        """Record whether what was timed was exact."""
        self.checks.append({"name": name, "passed": bool(passed), "detail": detail})

    @property
    def passed(self) -> bool:
        """Whether every check held and no target was missed; a run without a check fails."""
        exact = bool(self.checks) and all(check["passed"] for check in self.checks)
        return exact and all(claim.passed is not False for claim in self.claims)

    def as_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON has."""
        claims = [
            {
                **asdict(claim),
                "measured": claim.measured if math.isfinite(claim.measured) else None,
                "passed": claim.passed,
            }
            for claim in self.claims
        ]
        return {
            "benchmark": self.benchmark,
            "quick": self.quick,
            "seed": self.seed,
            "settings": self.settings,
            "environment": environment(),
            "tables": self.tables,
            "claims": claims,
            "checks": self.checks,
            "notes": self.notes,
            "passed": self.passed,
        }

    def finish(self, path: Path | None) -> int:
        """Print, write JSON if a path is given, and return the exit code: 0 if all passed."""
        console = Console(width=None if os.environ.get("COLUMNS") else 118, highlight=False)
        console.print(f"[bold]{self.benchmark}[/bold]{' (quick)' if self.quick else ''}")
        for facts in (environment(), self.settings):
            line = ", ".join(
                f"{name} {value}" for name, value in facts.items() if value is not None
            )
            console.print(line, markup=False, style="dim")
        for content in self.tables:
            console.print(_rich(content["title"], content["columns"], content["rows"]))
        rows = [
            (
                claim.name,
                claim.measured,
                "-"
                if claim.target is None
                else f"{'<=' if claim.at_most else '>='} {claim.target:g}",
                {True: "pass", False: "FAIL", None: "-"}[claim.passed],
            )
            for claim in self.claims
        ]
        console.print(_rich("Claims", ["ratio", "measured", "target", ""], rows))
        exact = [(c["name"], c["detail"], "pass" if c["passed"] else "FAIL") for c in self.checks]
        console.print(_rich("Exactness of what was timed", ["check", "", ""], exact))
        for note in self.notes:
            console.print(note, markup=False)
        if path is not None:
            path.write_text(json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n")
        return 0 if self.passed else 1


def _plain(cell: Any) -> Cell:
    """A cell as JSON can hold it: NumPy scalars as Python's, not-a-number as None."""
    value = cell.item() if isinstance(cell, np.generic) else cell
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(_shown(cell) for cell in row))
    return table
