"""Distinct-key recall: the study in which the gate should not help, because nothing is redundant.

Ten pairs of a key in R^5 and a value in R^3, all N(0, 1), are read by one head whose queries and
keys are learned projections to four features. Every key matters, so a gate can only lose.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..torch.gate import sv_attention, sv_gate
from ..torch.language.run import denormals_flushed
from .figures import PAPER as FRAME
from .figures import drawn, styles
from .result import UNSURE, WIDE, Figure, Study, Verdict, against
from .settings import Settings
from .statistics import Interval, mean_interval

Floats = NDArray[np.float64]

NAME, TITLE = "recall", "Distinct-key recall, the negative control"

PAIRS, KEY, VALUE, HEAD = 10, 5, 3, 4
CAP = 0.3
GAMMA = 1.0 / 1.5**2
RATE, SEQUENCES = 0.03, 4
PAPER = {"gate": 0.955, "ungated RBF": 0.970, "softmax": 0.535}
WORDS = {"gate": "gate", "ungated RBF": "ungated Gaussian", "softmax": "softmax"}
SUPPORT_PAPER = 1.0


def run(settings: Settings) -> Study:
    """Train the three readouts on the same sequences and compare what they recall."""
    steps, tests = settings.size(150, 500), settings.size(200, 500)
    repeats = settings.count(3, 10)
    tasks = [(way, settings.seed + k) for k in range(repeats) for way in PAPER]
    found: dict[str, list[dict[str, float]]] = {way: [] for way in PAPER}
    with denormals_flushed():
        for way, seed in settings.tracked(tasks, len(tasks)):
            made_of = {"seed": seed, "steps": steps, "tests": tests}
            key = f"recall/{way.replace(' ', '-')}-{seed}"
            found[way].append(
                settings.kept(key, made_of, partial(trained, way, seed, steps, tests))
            )
    study = Study(NAME, TITLE)
    study.setting = (
        f"{PAIRS} pairs, keys N(0, 1)^{KEY}, values N(0, 1)^{VALUE}, projections of queries and "
        f"keys to {HEAD} features; C = {CAP}, sigma = 1.5, ridge 1e-3; Adam {RATE}, {steps} steps "
        f"of {SEQUENCES} sequences, squared error; {tests} test sequences, {repeats} seeds from "
        f"{settings.seed}"
    )
    _findings(study, found)
    _figure(study, settings, found)
    return study


# -- the task and the readouts ---------------------------------------------------------------------


def draw(sequences: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Keys (B, 10, 5) and values (B, 10, 3)."""
    keys = torch.randn(sequences, PAIRS, KEY, generator=rng)
    return keys, torch.randn(sequences, PAIRS, VALUE, generator=rng)


class Head(nn.Module):
    """One head: projections, and a way to read.

    Parameters
    ----------
    way : str
        "gate", "ungated RBF" or "softmax".
    """

    def __init__(self, way: str) -> None:
        super().__init__()
        self.to_query = nn.Linear(KEY, HEAD, bias=False)
        self.to_key = nn.Linear(KEY, HEAD, bias=False)
        self.way = way

    def forward(self, keys: Tensor, values: Tensor) -> Tensor:
        """What each of the keys, asked as a query, reads: (B, 10, 3)."""
        q, k = self.to_query(keys), self.to_key(keys)
        if self.way == "gate":
            return sv_attention(q, k, values, gamma=GAMMA, C=CAP)
        if self.way == "softmax":
            logits = q @ k.transpose(-1, -2) / HEAD**0.5
        else:
            logits = -GAMMA * (q[:, :, None] - k[:, None]).square().sum(-1)
        read: Tensor = logits.softmax(-1) @ values
        return read

    @torch.no_grad()
    def support(self, keys: Tensor) -> float:
        """Share of the rows that have weight; 1 without a gate."""
        if self.way != "gate":
            return 1.0
        gate = sv_gate(self.to_key(keys), GAMMA, CAP)
        return float((gate.codes > 0).double().mean())


def trained(way: str, seed: int, steps: int, tests: int) -> dict[str, float]:
    """Train one head; its recall, squared error and support on fresh sequences."""
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = Head(way)
    optimizer = torch.optim.Adam(head.parameters(), lr=RATE)
    for _ in range(steps):
        keys, values = draw(SEQUENCES, rng)
        loss = (head(keys, values) - values).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    keys, values = draw(tests, torch.Generator().manual_seed(1_000_000 + seed))
    with torch.no_grad():
        read = head(keys, values)
    return {
        "recall": recall(read, values),
        "error": float((read - values).square().mean()),
        "support": head.support(keys),
    }


def recall(read: Tensor, values: Tensor) -> float:
    """Share of readouts that are nearer to their own value than to any other of the sequence."""
    nearest = torch.cdist(read, values).argmin(-1)
    return float((nearest == torch.arange(values.shape[1])).double().mean())


# -- what came out ---------------------------------------------------------------------------------


def _column(found: dict[str, list[dict[str, float]]], way: str, what: str) -> Floats:
    return np.array([part[what] for part in found[way]])


def _findings(study: Study, found: dict[str, list[dict[str, float]]]) -> None:
    for way, paper in PAPER.items():
        mean, interval = mean_interval(_column(found, way, "recall"), 0.0, 1.0)
        # the gate and the ungated readout are to recall, softmax is to recall less than they
        verdict, note = against(mean, interval, paper, 0 if way == "softmax" else 1)
        if verdict is Verdict.differs:
            note = "the paper does not say how values are scored or weights are drawn"
        study.add(f"recall, {WORDS[way]}", mean, interval, paper, verdict, note)
    lead = _column(found, "gate", "recall") - _column(found, "ungated RBF", "recall")
    mean, interval = mean_interval(lead)
    verdict, note = _control(interval)
    what = "recall, gate minus ungated Gaussian, seed by seed"
    gap = round(PAPER["gate"] - PAPER["ungated RBF"], 3)
    study.add(what, mean, interval, gap, verdict, note)
    mean, interval = mean_interval(_column(found, "gate", "support"), 0.0, 1.0)
    whole = mean >= 0.99
    study.add(
        "share of rows with weight, gate",
        mean,
        interval,
        SUPPORT_PAPER,
        Verdict.met if whole else Verdict.differs,
        "" if whole else "some learned keys lie within the others and get no weight",
    )
    for way in PAPER:
        mean, interval = mean_interval(_column(found, way, "error"))
        study.add(f"mean squared error, {WORDS[way]}", mean, interval)
    study.notes.append(
        "Recall is the share of keys whose readout is nearer to their own value than to the other "
        "nine. Queries and keys have projections of their own, as in attention; the paper does not "
        "say whether it shares them. All three ways start from the same matrices and see the same "
        "sequences, so their difference is taken seed by seed."
    )
    study.notes.append(
        "A softmax of plain products cannot favour the nearest key among keys of different "
        "lengths, and what it reads then is the mean of several values: it recalls about half."
    )


def _control(interval: Interval) -> tuple[Verdict, str]:
    """Whether the negative control is one: the gate must not help where no key is redundant."""
    low, high = interval
    if not high - low <= WIDE:
        return Verdict.shown, UNSURE
    if low > 0:
        return Verdict.differs, "the gate is better, which the paper's negative control excludes"
    return Verdict.met, "the gate is not better: a negative control"


def _figure(study: Study, settings: Settings, found: dict[str, list[dict[str, float]]]) -> None:
    look = styles([WORDS[way] for way in PAPER], WORDS["gate"])
    with drawn(settings.out / f"{NAME}.png", width=6.0, height=3.8) as (_, (axes,)):
        for place, (way, paper) in enumerate(PAPER.items()):
            values = _column(found, way, "recall")
            mean, (low, high) = mean_interval(values)
            colour, marker = look[WORDS[way]]
            spread = np.linspace(-0.12, 0.12, len(values))
            axes.plot(place + spread, values, marker, color=colour, alpha=0.35, markersize=4)
            reach = None if np.isnan(low) else [[mean - low], [high - mean]]
            axes.errorbar(
                place + 0.25, mean, reach, fmt=marker, color=colour, capsize=4, label="_mean"
            )
            axes.plot(place - 0.25, paper, "*", color=FRAME, markersize=10, linestyle="none")
        axes.plot([], [], "*", color=FRAME, markersize=10, linestyle="none", label="paper")
        axes.plot([], [], "o", color="#777777", alpha=0.5, linestyle="none", label="one seed")
        axes.errorbar([], [], [], fmt="o", color="#777777", capsize=4, label="mean, 95 % interval")
        axes.axhline(1 / PAIRS, color="#777777", linestyle=":", linewidth=1.2, label="chance")
        axes.set_xticks(range(len(PAPER)), [WORDS[way] for way in PAPER])
        axes.set_xlim(-0.6, len(PAPER) - 0.4)
        axes.set_ylim(0.0, 1.03)
        axes.set_ylabel("recall (share of 10 keys)")
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.14))
    study.figures.append(
        Figure(
            NAME,
            "Recall of ten pairs by three readouts, trained alike. Where no key is redundant the "
            "gate does not help: it is level with the ungated readout or a little below.",
        )
    )
