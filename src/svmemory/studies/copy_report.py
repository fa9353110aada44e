"""What the copying study says: findings, words and the figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .copy_task import CHANCE, FILLERS, ITEMS, Filler
from .figures import drawn, styles
from .result import Figure, Study, Verdict
from .statistics import mean_interval

Floats = NDArray[np.float64]

WORDS = {
    "sv": "SV gate",
    "softmax": "softmax",
    "window": "window",
    "linear": "linear attention",
    "deltanet": "DeltaNet",
    "ssm": "selective SSM",
}
FIXED = ("linear", "deltanet", "ssm")
"""Layers whose state has one size, whatever the length."""

PAPER_ROWS = (11, 14)
PAPER_FALLS = ("linear", "deltanet")
AIM = 0.99
BOUND = 2.0
"""The support counts as bounded if it grows by less from the shortest length to the longest."""

_NEAR_CHANCE = 0.05
_LEARNT = 0.5  # of recall at the lengths of training


@dataclass(frozen=True)
class Curve:
    """One trained model.

    Attributes
    ----------
    rate : float
        Learning rate.
    validation : float
        Mean recall at the trained lengths.
    lengths : list of int
    recall : list of float
        Share of right answers at each length.
    rows : list of float
        Rows with weight, a head; NaN for layers without a gate.
    floats : list of float
        Numbers held of a sequence.
    """

    rate: float
    validation: float
    lengths: list[int]
    recall: list[float]
    rows: list[float]
    floats: list[float]


Curves = dict[tuple[Filler, str], list[Curve]]
"""Curves of all seeds, by task and layer."""


def _recalls(curves: list[Curve]) -> Floats:
    """(seeds, lengths)."""
    return np.array([curve.recall for curve in curves])


def findings(study: Study, curves: Curves) -> None:
    """Recall, support and state of every layer."""
    for filler in FILLERS:
        ours = curves[filler, "sv"]
        lengths = ours[0].lengths
        recalls = _recalls(ours)
        worst = int(recalls.mean(axis=0).argmin())
        mean, interval = mean_interval(recalls[:, worst], 0.0, 1.0)
        study.add(
            f"{filler} filler: recall, SV gate, lowest of all lengths ({lengths[worst]})",
            mean,
            interval,
            AIM,
            Verdict.met if mean >= AIM else Verdict.missed,
            "" if mean >= AIM else f"the aim is {AIM} at every length",
        )
        _support(study, filler, ours)
        for layer, word in WORDS.items():
            if layer != "sv":
                _peer(study, filler, layer, word, curves[filler, layer])
    for layer, word in WORDS.items():
        curve = curves["new", layer][0]
        study.add(
            f"state, {word}, numbers at length {curve.lengths[-1]}",
            float(np.mean([c.floats[-1] for c in curves["new", layer]])),
            note=f"{curve.floats[0]:.0f} at length {curve.lengths[0]}",
        )


def _support(study: Study, filler: Filler, curves: list[Curve]) -> None:
    lengths = curves[0].lengths
    rows = np.array([curve.rows for curve in curves])  # (seeds, lengths)
    mean, interval = mean_interval(rows[:, -1])
    inside = PAPER_ROWS[0] - 0.5 <= mean <= PAPER_ROWS[1] + 0.5
    study.add(
        f"{filler} filler: rows with weight a head, SV gate, length {lengths[-1]}",
        mean,
        interval,
        "{}-{}".format(*PAPER_ROWS),
        Verdict.met if inside else Verdict.differs,
        f"of them {ITEMS} items; what of the filler has weight depends on its noise, on the width "
        "of the keys and on the ridge, of which the paper says nothing",
    )
    mean, interval = mean_interval(rows[:, -1] / rows[:, 0])
    study.add(
        f"{filler} filler: growth of the rows with weight, length {lengths[0]} to {lengths[-1]}",
        mean,
        interval,
        None,
        Verdict.met if mean < BOUND else Verdict.missed,
        f"the length grows x {lengths[-1] // lengths[0]}",
    )


def _peer(study: Study, filler: Filler, layer: str, word: str, curves: list[Curve]) -> None:
    lengths, recalls = curves[0].lengths, _recalls(curves)
    mean, interval = mean_interval(recalls[:, -1], 0.0, 1.0)
    start = f"{recalls[:, 0].mean():.3f} at length {lengths[0]}"
    paper, verdict, note = None, Verdict.shown, start
    if layer in PAPER_FALLS:
        paper = "chance"
        verdict = Verdict.met if mean <= CHANCE + _NEAR_CHANCE else Verdict.differs
        if verdict is Verdict.differs:
            note = f"{start}; above chance ({CHANCE:.4f})"
    what = f"{filler} filler: recall, {word}, length {lengths[-1]}"
    study.add(what, mean, interval, paper, verdict, note)


def notes(study: Study, curves: Curves) -> None:
    """What the numbers mean."""
    study.notes.append(
        "The paper's first version gives recall and support without the details of its task, so "
        f"this is a definition of our own: {ITEMS} items among near-copies of two names, asked for "
        'by name in order of arrival. With "known" filler the two names are the same in all '
        'sequences and a layer can learn to ignore them; with "new" filler they are drawn anew, '
        f"and only their redundancy tells. Chance is {CHANCE:.4f}. All models train on at most "
        "128 positions, so longer ones are extrapolation for every layer."
    )
    study.notes.append(
        "State is what a layer holds of a sequence when the questions begin: keys, values and "
        "weights of the rows with weight; all keys and values (softmax); those of the window; the "
        "fixed matrices of the others. The gate needs all keys to be solved, or a maintained "
        "memory with a cold tier: its reserve rows cost no reading, but they are not gone."
    )
    study.notes.append(
        "The gate is solved once, where the questions begin, as at a chunk boundary of the hybrid "
        "layer. Sequences are tested with the exact engine's solver at the layer's own contract."
    )
    study.notes.append(
        "The other layers get items and questions as one sequence, so their questions enter their "
        f"state as well, and {ITEMS} of the window's positions may hold questions; the gate "
        "reads its memory by each question alone."
    )
    study.notes.append(_ranking(curves))
    for filler in FILLERS:
        low = [WORDS[layer] for layer in WORDS if _validation(curves[filler, layer]) < _LEARNT]
        if low:
            study.notes.append(
                f"**Did not learn it**: with {filler} filler {', '.join(low)} validate below "
                f"{_LEARNT:g} even at the lengths of training, at the best of the rates tried. "
                "What they show is how much they learn in this budget, not what they could hold."
            )


def _validation(curves: list[Curve]) -> float:
    """Mean recall at the lengths of training."""
    return float(np.mean([curve.validation for curve in curves]))


def _ranking(curves: Curves) -> str:
    """A sentence a task: who recalls how much at the longest length."""
    parts = []
    for filler in FILLERS:
        last = {layer: _recalls(curves[filler, layer])[:, -1].mean() for layer in WORDS}
        order = sorted(last, key=lambda layer: -last[layer])
        length = curves[filler, "sv"][0].lengths[-1]
        listed = ", ".join(f"{WORDS[layer]} {last[layer]:.3f}" for layer in order)
        parts.append(f"With {filler} filler, at length {length}: {listed}.")
    return " ".join(parts)


def figure(study: Study, out: Path, curves: Curves) -> None:
    """Recall against length on both tasks, and state against length."""
    look = styles(list(WORDS), "sv")
    with drawn(out / f"{study.name}.png", width=13.0, height=4.6, panels=3) as (page, axes):
        for panel, filler in zip(axes, FILLERS, strict=False):
            for layer, word in WORDS.items():
                colour, marker = look[layer]
                group = curves[filler, layer]
                summary = [mean_interval(column) for column in _recalls(group).T]
                means = [mean for mean, _ in summary]
                low, high = np.array([bounds for _, bounds in summary]).T
                x = group[0].lengths
                front = 3 if layer == "sv" else 2  # where lines coincide
                panel.plot(x, means, marker=marker, color=colour, label=word, zorder=front)
                panel.fill_between(x, low.clip(0, 1), high.clip(0, 1), color=colour, alpha=0.15)
            panel.axhline(CHANCE, color="#777777", linestyle=":", linewidth=1.2, label="chance")
            panel.set_title(f"{filler} filler")
            panel.set_ylabel("recall (share of 8 items)")
            panel.set_ylim(0.0, 1.03)
        for layer in WORDS:
            colour, marker = look[layer]
            group = curves["new", layer]
            floats = np.mean([curve.floats for curve in group], axis=0)
            axes[2].plot(group[0].lengths, floats, marker=marker, color=colour)
        axes[2].set_yscale("log")
        axes[2].set_title("state, new filler")
        axes[2].set_ylabel("numbers held (float32)")
        for panel in axes:
            panel.set_xscale("log", base=2)
            panel.set_xticks(group[0].lengths, [str(n) for n in group[0].lengths])
            panel.minorticks_off()
            panel.set_xlabel("length (positions)")
        handles, labels = axes[0].get_legend_handles_labels()
        page.legend(handles, labels, loc="outside lower center", ncol=7)
    study.figures.append(
        Figure(
            study.name,
            "Recall of eight items among growing filler, and the state that it takes: mean over "
            "seeds, shaded 95 % interval. The gate keeps what is unlike the rest, so its state "
            "stays the same while softmax holds everything.",
        )
    )
