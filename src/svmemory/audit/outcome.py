"""What every audit reports: its setting, its problems, and whether all checks held."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

from .compare import Spread

SCORE_LIMIT = 1e-9
"""Largest gate-score deviation from the optimum that the fast path may show anywhere."""


@dataclass(frozen=True)
class Report(ABC):
    """Setting of one audited regime and the trials that went wrong.

    ``problems`` has one line for every trial that did not complete or whose digests differ; with
    the regime, the seed and the trial's number it can be run again.
    """

    audit: str
    regime: str
    rows: int
    ridge: float
    seed: int
    problems: tuple[str, ...]

    @property
    @abstractmethod
    def failures(self) -> list[str]:
        """The checks that failed, one sentence each; empty when all held."""

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return not self.failures

    def as_dict(self) -> dict[str, Any]:
        """All fields, ``passed`` and ``failures``, ready for JSON; a NaN becomes None."""
        fields = asdict(self) | {"passed": self.passed, "failures": self.failures}
        return {name: _plain(value) for name, value in fields.items()}

    def common_failures(
        self, attempted: int, completed: int, refits: int, fast_score: Spread | None
    ) -> list[str]:
        """The checks that every audit makes."""
        found = []
        if completed != attempted:
            found.append(f"{completed} of {attempted} completed")
        if self.ridge > 0 and refits:
            found.append(f"{refits} refits")
        # "not <=" instead of ">": a NaN must fail.
        if fast_score is not None and not fast_score.worst <= SCORE_LIMIT:
            found.append(
                f"the fast path's gate score is off by {fast_score.worst:.1e}, "
                f"more than {SCORE_LIMIT:g}"
            )
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
