"""Language-model runs that are kept with the package, thinned: training them takes hours.

``benchmarks/language.py --save`` writes the file from runs of ``svmemory train``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

FILE = "saved/language.json"


@dataclass(frozen=True)
class SavedRun:
    """One run.

    Attributes
    ----------
    study, label : str
        As in ``benchmarks/language.py``.
    attention, preset : str
    control : str or None
        Label of the runs that differ in having no gate.
    window : int or None
        Of the window attention.
    steps, seed : int
    rows_read : float or None
        Prefix rows that a chunk reads at the end; None without a gate.
    validation_step, validation : list
        Bits per byte.
    loss, gate_gradient : list of float
        Largest value in each :data:`STRIDE` steps.
    """

    study: str
    label: str
    attention: str
    preset: str
    window: int | None
    steps: int
    seed: int
    rows_read: float | None
    validation_step: list[int]
    validation: list[float]
    loss: list[float]
    gate_gradient: list[float]
    control: str | None = None

    @property
    def best(self) -> float:
        """Lowest validation, bits per byte."""
        return min(self.validation)


STRIDE = 10
"""Steps to one entry of a thinned curve."""


def thinned(values: Sequence[float]) -> list[float]:
    """Largest of each :data:`STRIDE` values, four digits."""
    starts = range(0, len(values), STRIDE)
    return [float(f"{max(values[start : start + STRIDE]):.4g}") for start in starts]


def read_runs() -> tuple[dict[str, Any], list[SavedRun]]:
    """What the file says about its text, and its runs."""
    found = json.loads((files(__package__) / FILE).read_text())
    return found["text"], [SavedRun(**fields) for fields in found["runs"]]


def write_runs(path: Path, text: dict[str, Any], runs: Sequence[SavedRun]) -> None:
    """Put runs into a file, in the place of the same studies' earlier ones."""
    kept: list[dict[str, Any]] = []
    if path.exists():
        new = {(run.study, run.preset) for run in runs}
        before = json.loads(path.read_text())["runs"]
        kept = [fields for fields in before if (fields["study"], fields["preset"]) not in new]
    whole = {"text": text, "runs": kept + [vars(run) for run in runs]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, separators=(",", ":")) + "\n")
