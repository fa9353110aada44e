"""Will a patient deteriorate within six hours? Sequence models against simple and strong peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .figures import PAPER, drawn, styles
from .hourpeers import SPLIT, Cohort, logistic, rounded, trees
from .nexthours import AHEAD, FEATURES, LONGEST, Stay, mark, stays
from .ranking import bootstrapped, patient_draws
from .result import Figure, Study, Verdict
from .settings import Settings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SV, SOFTMAX, LSTM, UNGATED = "hybrid SV", "softmax", "LSTM", "hybrid without gate"
LOGISTIC, TREES = "logistic, last values", "boosted trees"
EVERY_HOUR, CALM = "all hours", "calm hours"
PAPER_ROC = {SV: 0.696, SOFTMAX: 0.751, LSTM: 0.783}
SEQUENCE = {SV: "sv", SOFTMAX: "softmax", LSTM: "lstm", UNGATED: "uniform"}
SAMPLES = 500
MARGIN = 0.01
"""How far below softmax's AUROC ours may be and count as level."""
_AIM = (
    f"aim: at least level, that is not more than {MARGIN} below: the interval's low end lies above "
    f"-{MARGIN}"
)

Areas = dict[str, tuple[Floats, Floats]]  # model: areas (2,) and bootstrapped areas (samples, 2)


def run(settings: Settings) -> Study:
    """Train all, then rank the hours of stays that none has seen."""
    everyone = stays(settings)
    cohort = Cohort.drawn(everyone, settings.seed)
    scores = _scores(settings, cohort, mark(everyone))
    label = np.concatenate([stay.label[stay.asked] for stay in cohort.test])
    calm = np.concatenate([stay.calm[stay.asked] for stay in cohort.test])
    hours = [int(stay.asked.sum()) for stay in cohort.test]
    owner = np.repeat(np.arange(len(hours)), hours)
    draws = patient_draws(len(hours), SAMPLES, settings.seed)
    everywhere = np.ones(len(label), dtype=bool)
    study = Study("prediction", "The next six hours")
    study.setting = (
        f"PhysioNet 2019 set A, {len(everyone):,} stays of at least 12 hours "
        f"({len(cohort.training):,} train, {len(cohort.validation):,} validate, "
        f"{len(cohort.test):,} test), first {LONGEST} hours; {len(label):,} test hours, "
        f"{label.mean():.1%} positive, {calm.mean():.1%} calm of which {label[calm].mean():.1%} "
        f"positive; {_runs(settings)} run(s) a sequence model of {_epochs(settings)} epochs, seeds "
        f"from {settings.seed}; intervals from {SAMPLES} bootstrap samples of test patients."
    )
    found = {}
    for where, chosen in ((EVERY_HOUR, everywhere), (CALM, calm)):
        areas: Areas = {
            name: bootstrapped(rows[:, chosen], label[chosen], owner[chosen], draws)
            for name, rows in scores.items()
        }
        found[where] = areas
        _add(study, where, areas)
    _draw(settings, study, found)
    study.notes += _notes(found[EVERY_HOUR])
    return study


def _runs(settings: Settings) -> int:
    return settings.count(1, 3)


def _epochs(settings: Settings) -> int:
    return settings.size(6, 4)


def _scores(settings: Settings, cohort: Cohort, data: str) -> dict[str, Floats]:
    """Scores (runs, hours) of the asked hours of the test stays, for each model that can run."""
    sequence = SEQUENCE if find_spec("torch") is not None else {}
    jobs: list[tuple[str, int, Callable[[], list[float]]]] = [
        (LOGISTIC, 0, partial(logistic, cohort)),
        (TREES, 0, partial(trees, cohort, settings.seed)),
    ]
    for name, kind in sequence.items():
        for run in range(_runs(settings)):
            jobs.append((name, run, partial(_trained, settings, cohort, kind, run)))
    sizes = [len(cohort.training), len(cohort.validation), len(cohort.test)]
    found: dict[str, list[list[float]]] = {}
    for name, run, make in settings.tracked(jobs, len(jobs)):
        made_of: dict[str, Any] = {"seed": settings.seed, "run": run, "sizes": sizes}
        made_of |= {"split": SPLIT, "longest": LONGEST, "ahead": AHEAD, "data": data}
        if name in SEQUENCE:
            made_of |= {"epochs": _epochs(settings), "model": _sizes()}
        key = f"prediction/{name}-{run}".replace(" ", "-").replace(",", "")
        found.setdefault(name, []).append(settings.kept(key, made_of, make))
    order = [*(name for name in SEQUENCE if name in found), LOGISTIC, TREES]
    return {name: np.array(found[name]) for name in order}


def _sizes() -> list[int]:
    """Sizes of the sequence models."""
    from .hourmodels import CHUNK, HEADS, LAYERS, LSTM_WIDTH, WIDTH

    return [WIDTH, LAYERS, HEADS, CHUNK, LSTM_WIDTH]


def _parameters(areas: Areas) -> str:
    """A sentence: how many parameters each sequence model has."""
    names = [name for name in SEQUENCE if name in areas]
    if not names:
        return ""
    from .hourmodels import build

    counts = {
        name: sum(p.numel() for p in build(SEQUENCE[name], FEATURES, LONGEST).parameters())
        for name in names
    }
    return f"Parameters: {', '.join(f'{name} {count:,}' for name, count in counts.items())}. "


def _trained(settings: Settings, cohort: Cohort, kind: str, run: int) -> list[float]:
    """Test log-odds of one trained sequence model."""
    from .hourmodels import Plan, Sequence, trained_scores

    def sequences(part: list[Stay]) -> list[Sequence]:
        return [
            Sequence(cohort.scale.inputs(stay).astype(np.float32), stay.label, stay.asked)
            for stay in part
        ]

    _, scores = trained_scores(
        kind,
        sequences(cohort.training),
        sequences(cohort.validation),
        sequences(cohort.test),
        Plan(epochs=_epochs(settings), batch=32, seed=settings.seed + run),
    )
    return rounded(scores)


def _add(study: Study, where: str, areas: Areas) -> None:
    for name, (whole, sampled) in areas.items():
        low, high = np.nanquantile(sampled, [0.025, 0.975], axis=0)
        study.add(
            f"AUROC of {name}, {where}",
            float(whole[0]),
            (float(low[0]), float(high[0])),
            paper=PAPER_ROC.get(name) if where == EVERY_HOUR else None,
            note=f"average precision {whole[1]:.3f} ({low[1]:.3f} to {high[1]:.3f})",
        )
    if SV not in areas:
        return
    for rival in areas:
        if rival == SV or (where != EVERY_HOUR and rival != SOFTMAX):
            continue
        gap = areas[SV][1][:, 0] - areas[rival][1][:, 0]
        low, high = (float(end) for end in np.nanquantile(gap, [0.025, 0.975]))
        aim = rival == SOFTMAX
        study.add(
            f"AUROC of {SV} less that of {rival}, {where}",
            float(areas[SV][0][0] - areas[rival][0][0]),
            (low, high),
            paper=round(PAPER_ROC[SV] - PAPER_ROC[rival], 3)
            if rival in PAPER_ROC and where == EVERY_HOUR
            else None,
            verdict=Verdict.shown if not aim else Verdict.met if low > -MARGIN else Verdict.missed,
            note=_AIM if aim else "",
        )


def _draw(settings: Settings, study: Study, found: dict[str, Areas]) -> None:
    name = "prediction"
    models = list(next(iter(found.values())))
    look = styles(list(found), "")
    with drawn(settings.out / f"{name}.png", 9.0, 3.8, 2) as (figure, axes):
        for panel, (ax, label) in enumerate(
            zip(axes, ("AUROC", "Average precision (AUPRC)"), strict=True)
        ):
            for offset, (where, areas) in enumerate(found.items()):
                colour, marker = look[where]
                low, high = np.nanquantile(
                    np.stack([areas[model][1][:, panel] for model in models]),
                    [0.025, 0.975],
                    axis=1,
                )
                middle = np.array([areas[model][0][panel] for model in models])
                ax.errorbar(
                    middle,
                    np.arange(len(models)) + 0.2 * (offset - 0.5),
                    xerr=[middle - low, high - middle],
                    color=colour,
                    marker=marker,
                    linestyle="none",
                    capsize=2,
                    label=where,
                )
            ax.set_yticks(range(len(models)), models)
            ax.set_ylim(len(models) - 0.5, -0.5)
            ax.set_xlabel(label)
        places = [models.index(model) for model in PAPER_ROC if model in models]
        if places:
            axes[0].plot(
                [PAPER_ROC[models[place]] for place in places],
                places,
                color=PAPER,
                marker="x",
                linestyle="none",
                label="paper (MIMIC-IV, its own definition)",
            )
        axes[1].tick_params(labelleft=False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
    caption = (
        "How well each model ranks hours by whether a threshold is crossed within the next six "
        "hours, over all hours and over calm ones (no crossing in the last six). Bars: 95 % "
        "intervals over test patients. The crosses are the paper's, on other data."
    )
    study.figures.append(Figure(name, caption))


def _notes(areas: Areas) -> list[str]:
    order = sorted(areas, key=lambda name: -float(areas[name][0][0]))
    listed = ", ".join(f"{name} {areas[name][0][0]:.3f}" for name in order)
    notes = [
        "**What is predicted.** From hour 6 on, at every hour that six more follow: does a "
        "*measured* value cross a threshold of the paper's ICU row within them (HR above 130 or "
        "below 40, SBP below 90 or above 200, RR above 30 or below 6, SpO2 below 90, temperature "
        'above 38.5 or below 35)? The paper does not say its target in more words than "next six '
        'hours", and its data are MIMIC-IV, so its numbers stand beside ours for their order, not '
        "for their size. Who crossed a threshold just now will often do so again; *calm hours* "
        "leave those out, which is the harder and more useful question.",
        "**The models.** Six vital signs, last value carried forward, and six flags for what was "
        "measured in the hour. Attention models: width 48, two layers, two heads, chunk 8, the "
        "layer's other defaults; LSTM: one layer, width 112. "
        f"{_parameters(areas)}Same optimiser, epochs, "
        "learning rate and choice of the epoch by validation AUROC for all. The boosted trees also "
        "get means, extremes, changes and measured shares of the last six hours and the number of "
        "crossings in them and so far. *Hybrid without gate* reads every earlier hour at equal "
        "weight: the difference is what the gate itself is worth.",
        f"**Who wins.** AUROC over all hours: {listed}. Intervals are over test patients; they do "
        "not tell how another training run would have come out.",
    ]
    missing = [name for name in SEQUENCE if name not in areas]
    if missing:
        notes.append(f"*Missing:* {', '.join(missing)} (pip install 'svmemory[torch]').")
    return notes
