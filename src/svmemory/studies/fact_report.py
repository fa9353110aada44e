"""What the facts study says: findings, words and the figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .fact_trials import FACTORS, NOISY
from .figures import COLOURS, OURS, drawn
from .result import Figure, Study, Verdict
from .statistics import bootstrap_interval, share_interval

BLUE, ORANGE = COLOURS[0], COLOURS[3]

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Trials = list[dict[str, Any]]
Floats = NDArray[np.float64]

PAPER_FACTOR = 0.01
"""The decay of the paper's deletion study; it does not say which one its leak rate has."""

PAPER_LEAK = 0.80
WORDS = {
    "exact": "exact deletion",
    f"decay {PAPER_FACTOR:g}": f"decay x {PAPER_FACTOR:g}",
    "projections, ascent": "gradient ascent, projections",
    "projections, fine-tuning": "fine-tuning on the rest, projections",
    "weights, ascent": "gradient ascent, facts in weights",
    "weights, fine-tuning": "fine-tuning on the rest, facts in weights",
    "weights, anew": "training anew, facts in weights",
}


def _column(trials: Trials, way: str, what: str) -> Floats:
    return np.array([trial[way][what] for trial in trials])


def _share(trials: Trials, way: str, what: str) -> tuple[float, tuple[float, float]]:
    column = _column(trials, way, what)
    return share_interval(int(column.sum()), len(column))


def _spread(column: Floats) -> tuple[float, tuple[float, float]]:
    """Mean over trials and its interval: bootstrap; Wilson's where all trials are 0 or all 1."""
    if (column == 0.0).all() or (column == 1.0).all():
        return share_interval(int(column.sum()), len(column))
    return bootstrap_interval(column)


def _base(way: str) -> str:
    return "weights, before" if way.startswith("weights") else "before"


def _damage(trials: Trials, way: str, what: str) -> Floats:
    """Share of the other seven that a way costs, a trial."""
    return _column(trials, _base(way), what) - _column(trials, way, what)


def findings(study: Study, trials: Trials) -> None:
    """Leaks, damage and time of every way; exactness; editing."""
    for way, word in (("before", "memory"), ("weights, before", "weights")):
        answered = _share(trials, way, "leak")
        study.add(f"secret answered before forgetting, {word}", *answered)
    for way, word in WORDS.items():
        rate, interval = _share(trials, way, "leak")
        paper: float | str | None = None
        verdict, note = Verdict.shown, ""
        if way == "exact":
            paper, verdict = "gone", Verdict.met if rate == 0.0 else Verdict.missed
        elif way.startswith("decay"):
            paper = PAPER_LEAK
            note = "the paper does not say its factor, and all depends on it: see the sweep"
        study.add(f"leak rate, {word}", rate, interval, paper, verdict, note)
    for factor in FACTORS:
        if factor != PAPER_FACTOR:
            study.add(
                f"leak rate, decay x {factor:g}", *_share(trials, f"decay {factor:g}", "leak")
            )
    for way, word in WORDS.items():
        noisy = _spread(_column(trials, way, "noisy leak"))
        study.add(f"leak rate when asked with noise, {word}", *noisy)
    for way, word in WORDS.items():
        damage = _spread(_damage(trials, way, "noisy others"))
        study.add(f"share of the other seven lost, asked with noise, {word}", *damage)
    exactly = _spread(_damage(trials, "exact", "others"))
    kept = Verdict.met if exactly[0] <= 0.0 else Verdict.missed
    study.add("share of the other seven lost, exact deletion", *exactly, 0.0, kept)
    for way, word in WORDS.items():
        seconds = float(np.median(_column(trials, way, "seconds")))
        study.add(f"median time, {word}, ms", 1e3 * seconds)
    _exactness(study, trials)
    _editing(study, trials)


def _all(
    study: Study, trials: Trials, part: str, what: str, words: str, paper: str | None = None
) -> None:
    hits = int(_column(trials, part, what).sum())
    verdict = Verdict.met if hits == len(trials) else Verdict.missed
    study.add(words, f"{hits}/{len(trials)}", None, paper, verdict)


def _exactness(study: Study, trials: Trials) -> None:
    _all(study, trials, "checks", "same digest", "digest after deletion is that of never-saw")
    _all(
        study, trials, "checks", "same bits", "readouts after deletion are never-saw's, to the bit"
    )
    weight = float(_column(trials, "checks", "secret weight").max())
    verdict = Verdict.met if weight == 0.0 else Verdict.missed
    study.add("largest weight on the secret in any answer after deletion", weight, None, 0, verdict)
    apart = float(_column(trials, "checks", "layer apart").max())
    study.add("largest difference between the trained layer and the memory, before", apart)


def _editing(study: Study, trials: Trials) -> None:
    _all(study, trials, "editing", "corrected", "edit: the binding is corrected", "corrected")
    others = float(_column(trials, "editing", "others answer as before").mean())
    verdict = Verdict.met if others == 1.0 else Verdict.missed
    what = "edit: share of the other seven answered as before"
    study.add(what, others, None, "unchanged", verdict)
    _all(study, trials, "editing", "same weights", "edit: weights of the others the same bits")
    _all(
        study, trials, "editing", "same readout", "edit: weight read on other symbols the same bits"
    )
    _all(
        study,
        trials,
        "editing",
        "same digest",
        "edit: digest of a memory that only saw the new fact",
    )
    seconds = float(np.median(_column(trials, "editing", "seconds")))
    study.add("median time, edit (remove and add), ms", 1e3 * seconds)


def notes(study: Study) -> None:
    """What the numbers mean."""
    study.notes.append(
        "A leak is an answer (the symbol with the largest weight) that is the forgotten secret; "
        "the "
        'question is the person\'s exact vector, or, "with noise", one of '
        f"{NOISY} noisy ones. No other fact has this symbol, and a readout gives weight to symbols "
        "of held rows only, so after exact deletion a leak is impossible, not rare."
    )
    study.notes.append(
        "Gradient ascent goes on until the exact question is answered otherwise. It changes either "
        "the memory's trained projections, while the row stays where it is, or a network that has "
        "the same facts in its weights; fine-tuning goes through the other seven facts. Training "
        "anew on the other seven forgets as surely as deletion, for its price. Times are on one "
        "core; those of a memory of eight rows are mostly overhead of the calls."
    )


def figure(study: Study, out: Path, trials: Trials) -> None:
    """Leak against decay factor; leak and damage of every way."""
    with drawn(out / f"{study.name}.png", width=12.5, height=4.6, panels=2) as (_, axes):
        _draw_sweep(axes[0], trials)
        _draw_ways(axes[1], trials)
        for panel in axes:
            panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2)
    study.figures.append(
        Figure(
            study.name,
            "Left: how often a decayed fact is still answered, against the factor of decay, with "
            "95 % intervals; exact deletion leaks nothing. Right: leak and damage of every way to "
            "forget.",
        )
    )


def _draw_sweep(panel: Axes, trials: Trials) -> None:
    for what, style, word in (("leak", "s-", "exact"), ("noisy leak", "s--", "noisy")):
        shares = [_spread(_column(trials, f"decay {f:g}", what)) for f in FACTORS]
        low, high = np.array([bounds for _, bounds in shares]).T
        panel.plot(
            FACTORS, [m for m, _ in shares], style, color=BLUE, label=f"decay, {word} question"
        )
        panel.fill_between(FACTORS, low, high, color=BLUE, alpha=0.15)
    panel.axhline(PAPER_LEAK, color="#000000", linestyle=":", label="decay, paper")
    exact = float(_column(trials, "exact", "leak").mean())
    panel.axhline(exact, color=OURS, label="exact deletion")
    panel.set_xscale("log")
    panel.invert_xaxis()
    panel.set_xlabel("decay factor on the secret's weight")
    panel.set_ylabel("leak rate (share of questions)")
    panel.set_ylim(-0.03, 1.03)


def _draw_ways(panel: Axes, trials: Trials) -> None:
    place = np.arange(len(WORDS))[::-1]
    leaks = [_spread(_column(trials, way, "noisy leak")) for way in WORDS]
    lost = [_spread(_damage(trials, way, "noisy others")) for way in WORDS]
    for shift, shares, marker, colour, word in (
        (0.14, leaks, "s", BLUE, "secret leaks, noisy question"),
        (-0.14, lost, "D", ORANGE, "other seven lost, noisy question"),
    ):
        means = np.array([mean for mean, _ in shares])
        low, high = np.array([bounds for _, bounds in shares]).T
        reach = np.array([means - low, high - means]).clip(0)
        panel.errorbar(
            means, place + shift, xerr=reach, fmt=marker, color=colour, capsize=3, label=word
        )
    panel.set_yticks(place, list(WORDS.values()))
    panel.get_yticklabels()[0].set_color(OURS)
    panel.set_xlabel("share of questions, 95 % interval")
    panel.set_xlim(-0.03, 1.03)
