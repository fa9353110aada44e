"""What a study returns: findings beside the paper's numbers, figures, and words about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np


class Verdict(StrEnum):
    """What a finding says about the paper's number, or about our aim."""

    met = "met"
    """As the paper has it, or better."""
    differs = "differs"
    """Not as the paper has it; the note says why."""
    missed = "missed"
    """An aim of ours that was not reached."""
    open = "open"
    """The paper has it, and it was not measured here."""
    shown = "shown"
    """Measured, and nothing was claimed."""


WIDE = 0.2
"""An interval of a share that is wider than this says too little for a verdict."""

UNSURE = "too few repetitions to tell"


def against(
    ours: float, interval: Sequence[float], paper: float, better: int = 0
) -> tuple[Verdict, str]:
    """Verdict on a share beside the paper's, and a note where it takes one.

    Parameters
    ----------
    ours : float
    interval : (low, high)
        NaN where there was one repetition.
    paper : float
    better : {1, 0, -1}
        Whether larger is better, smaller, or neither.
    """
    low, high = interval
    if not high - low <= WIDE:
        return Verdict.shown, UNSURE
    if low <= paper <= high or better * (ours - paper) > 0:
        return Verdict.met, ""
    return Verdict.differs, ""


@dataclass(frozen=True)
class Finding:
    """One measured number.

    Attributes
    ----------
    what : str
        What was measured, with its unit: ``"rare recall, support"``.
    ours : float, int or str
        The number; text where a number would not say it ("300/300").
    low, high : float or None
        95 % interval of ``ours``.
    paper : float, str or None
        The paper's number; None where it has none.
    verdict : Verdict
    note : str
        Why it differs, or what else a reader has to know.
    """

    what: str
    ours: float | int | str
    low: float | None = None
    high: float | None = None
    paper: float | int | str | None = None
    verdict: Verdict = Verdict.shown
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture that the study has drawn.

    Attributes
    ----------
    name : str
        File name without its end; PNG in the report's folder.
    caption : str
        What one sees, in a sentence or two that can be read without the rest.
    """

    name: str
    caption: str


@dataclass
class Study:
    """Result of one study.

    Attributes
    ----------
    name, title : str
        As on the command line, and for people.
    setting : str
        Sizes, contract, data and seeds, in words.
    findings : list of Finding
    figures : list of Figure
    notes : list of str
        Paragraphs in Markdown: what the numbers mean, where others win, what differs from the
        paper in definition.
    missing : str or None
        Why the study did not run, and what to do about it: absent data or package.
    failed : bool
        Whether that is a fault (a damaged file, say) rather than an absence.
    """

    name: str
    title: str
    setting: str = ""
    findings: list[Finding] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: str | None = None
    failed: bool = False

    def add(
        self,
        what: str,
        ours: float | int | str,
        interval: Sequence[float] | None = None,
        paper: float | int | str | None = None,
        verdict: Verdict = Verdict.shown,
        note: str = "",
    ) -> None:
        """Add a finding; ``interval`` is (low, high) and may be left out or hold NaN."""
        ours = ours.item() if isinstance(ours, np.generic) else ours
        paper = paper.item() if isinstance(paper, np.generic) else paper
        if isinstance(ours, float) and not math.isfinite(ours):
            ours = "no number"  # JSON has none for it
        low, high = (None, None) if interval is None else interval
        low, high = (x if x is None else float(x) for x in (low, high))
        if low is None or high is None or math.isnan(low) or math.isnan(high):
            low = high = None
        self.findings.append(Finding(what, ours, low, high, paper, verdict, note))

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Study:
        """The inverse of :meth:`as_dict`."""
        findings = [Finding(**{**f, "verdict": Verdict(f["verdict"])}) for f in fields["findings"]]
        figures = [Figure(**f) for f in fields["figures"]]
        return cls(**{**fields, "findings": findings, "figures": figures})
