"""The trainable layer: gradients, a student and its teacher, speed, and language modelling."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from .environment import machine
from .figures import drawn, styles
from .result import Figure, Study, Verdict
from .saved_runs import SavedRun, read_runs
from .settings import Settings
from .statistics import mean_interval

NAME, TITLE = "training", "Gradients, speed and language modelling"

_STUDIES = {  # words for it, and what the others are compared with
    "compare": ("attentions", "sv"),
    "controls": ("controls", "sv"),
    "forms": ("forms", "dot"),
    "redundant": ("contexts of 1,024 bytes in which everything is said four times", "sv"),
}

_OPEN = {  # what the paper has and nobody has run here
    "enwik8, 3.22 M, 6,000 steps, bits per character: SV / window of equal state": "2.178 / 2.383",
    "TinyStories, 3.22 M: SV / window of equal state": "1.261 / 1.470",
    "enwik8, 10 M: SV beside the window": "a tie, SV 2.5 % worse",
    "enwik8, 32 M: SV / window of equal state": "4.456 / 3.106",
}
_AIMED_AT, _AIM = "3m", 1.35  # size, and time beside softmax
_PAPERS_RATIO = 35.8
_PAPERS_SEEDS = {"3m": 7, "10m": 5, "32m": 1}
_PAPERS_STEPS = 6000
_GPU_RATE = 4e12  # FLOP/s that small matrices may reach; see the note that is made of it


def run(settings: Settings) -> Study:
    """Check gradients and speed here; take language models from the runs kept with the package."""
    from .layer_checks import gradients, ratios, teacher_fit

    study = Study(NAME, TITLE)
    made_of = {"seed": settings.seed}
    checks = settings.kept(f"{NAME}/gradients", made_of, gradients)
    for what, holds in checks.items():
        verdict = Verdict.met if holds else Verdict.missed
        study.add(f"gradcheck, {what}", "passes" if holds else "fails", None, "passes", verdict)
    fall = settings.kept(f"{NAME}/teacher", made_of, lambda: teacher_fit(settings.seed))
    verdict = Verdict.met if fall >= 0.99 else Verdict.missed
    study.add("student fits teacher: fall of the loss in 200 steps", fall, None, 0.99, verdict)
    preset, turns = settings.size(("tiny", 3), ("3m", 15))
    timed = {"preset": preset, "turns": turns, "machine": machine()}
    times = settings.kept(f"{NAME}/ratios", timed, lambda: ratios(preset, turns))
    for name, ratio in times.items():
        what = f"forward and backward of the {preset} model, {name} / softmax"
        if name == "sv" and preset == _AIMED_AT:
            verdict = Verdict.met if ratio <= _AIM else Verdict.missed
            note = f"aim: at most {_AIM}; the paper's is on its own machine, 17.6 on one like ours"
            study.add(what, ratio, None, _PAPERS_RATIO, verdict, note)
        else:
            study.add(what, ratio)
    if preset != _AIMED_AT:
        what = f"forward and backward of the {_AIMED_AT} model, sv / softmax"
        paper = f"{_PAPERS_RATIO} (9,125 tokens a second)"
        study.add(what, "not run", None, paper, Verdict.open, "with --full")
    text, saved = read_runs()
    study.setting = (
        "Gradients, teacher and speed are measured here. Language models come from runs kept with "
        f"the package, trained on {text['name']} ({text['bytes']:,} bytes, SHA-256 "
        f"{text['sha256'][:16]}) or, where everything is said four times, on a text made of it, by "
        "benchmarks/language.py"
    )
    _language(study, settings, saved)
    _stability(study, settings, saved)
    for what, paper in _OPEN.items():
        study.add(what, "not run", None, paper, Verdict.open, "needs a GPU, see below")
    _how_to_go_on(study)
    return study


def _by_label(runs: Sequence[SavedRun], study: str, preset: str) -> dict[str, list[SavedRun]]:
    found: dict[str, list[SavedRun]] = {}
    for one in sorted(runs, key=lambda r: r.seed):
        if one.study == study and one.preset == preset:
            found.setdefault(one.label, []).append(one)
    return found


def _language(study: Study, settings: Settings, saved: Sequence[SavedRun]) -> None:
    for name, (words, first) in _STUDIES.items():
        groups = _by_label(saved, name, "tiny")
        if first not in groups:
            study.notes.append(f"No {words} are kept with the package.")
            continue
        reference = groups[first]
        steps = reference[0].steps
        for label, runs in groups.items():
            best, interval = mean_interval([one.best for one in runs])
            read = [one.rows_read for one in runs if one.rows_read is not None]
            more = f"{len(runs)} seeds" if len(runs) > 1 else "one seed"
            if read:
                more += f", {statistics.mean(read):.0f} prefix rows read"
            if runs[0].window is not None:
                more += f", {runs[0].window} positions"
            study.add(
                f"{words}: bits per byte, {label}, tiny, {steps} steps", best, interval, note=more
            )
            if label != first:
                study.add(f"{words}: {label} minus {first}, same seeds", *_paired(runs, reference))
        for gated, runs in groups.items():
            ungated = runs[0].control
            if gated != first and ungated in groups:
                share = _paired(groups[ungated], runs)
                study.add(f"{words}: {ungated} minus {gated}, same seeds", *share)
        _draw(study, settings, f"{NAME}-{name}", words, groups, first)


def _paired(
    runs: Sequence[SavedRun], reference: Sequence[SavedRun]
) -> tuple[float, tuple[float, float]]:
    """Mean difference over the seeds that both have, with its interval."""
    best = {one.seed: one.best for one in reference}
    return mean_interval([one.best - best[one.seed] for one in runs if one.seed in best])


def _draw(
    study: Study,
    settings: Settings,
    file: str,
    words: str,
    groups: dict[str, list[SavedRun]],
    first: str,
) -> None:
    looks = styles(list(groups), first)
    with drawn(settings.out / f"{file}.png", height=4.4) as (_, [axes]):
        for label, runs in groups.items():
            colour, marker = looks[label]
            steps = runs[0].validation_step
            middle = [statistics.mean(x) for x in zip(*(r.validation for r in runs), strict=True)]
            axes.plot(steps, middle, marker, linestyle="-", color=colour, label=label)
            if len(runs) > 1:
                low = [min(x) for x in zip(*(r.validation for r in runs), strict=True)]
                high = [max(x) for x in zip(*(r.validation for r in runs), strict=True)]
                axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_xlabel("training step")
        axes.set_ylabel("validation, bits per byte")
        axes.legend(loc="upper right")
    study.figures.append(
        Figure(
            file,
            f"Validation on the last tenth of the text, {words}: means over seeds, with the range "
            "over seeds shaded where there is more than one.",
        )
    )


def _stability(study: Study, settings: Settings, saved: Sequence[SavedRun]) -> None:
    presets = [p for p in ("tiny", "10m") if _by_label(saved, "stability", p)]
    if not presets:
        study.notes.append("No runs of the paper's solver are kept with the package.")
        return
    file = f"{NAME}-stability"
    with drawn(settings.out / f"{file}.png", width=8.0, panels=len(presets)) as (_, panels):
        for axes, preset in zip(panels, presets, strict=True):
            groups = _by_label(saved, "stability", preset)
            looks = styles(list(groups), "sv")
            for label, [one, *_] in groups.items():
                stride = -(-one.steps // len(one.gate_gradient))
                steps = [stride * (i + 1) for i in range(len(one.gate_gradient))]
                colour, marker = looks[label]
                axes.plot(steps, one.gate_gradient, marker, linestyle="-", color=colour,
                          label=label, markersize=3)  # fmt: skip
                largest = max(one.gate_gradient) / statistics.median(one.gate_gradient)
                study.add(f"{preset}, {label}: largest gate gradient / its median", largest)
                study.add(f"{preset}, {label}: best bits per byte, {one.steps} steps", one.best)
            axes.set_yscale("log")
            axes.set_title(f"{preset} model")
            axes.set_xlabel("training step")
        panels[0].set_ylabel("gradient norm that reaches\nthe keys through the gate")
        panels[0].legend(loc="best")
    study.figures.append(
        Figure(
            file,
            "The gate's gradient over training, ours beside the paper's scheme (80 FISTA steps, "
            "then a ridge on the margin); largest value in every ten steps.",
        )
    )


def _how_to_go_on(study: Study) -> None:
    from ..torch.language.model import PRESETS, ByteLM
    from ..torch.language.train import TrainConfig

    sizes = []
    for preset, seeds in _PAPERS_SEEDS.items():
        config = PRESETS[preset]
        parameters = sum(p.numel() for p in ByteLM(config).parameters())
        tokens = _PAPERS_STEPS * TrainConfig(_PAPERS_STEPS).batch * config.block
        # a multiplication and an addition for each parameter and token, forward and twice backward
        minutes = 6.0 * parameters * tokens / _GPU_RATE / 60.0
        sizes.append(
            f"{preset} ({parameters / 1e6:.1f} M parameters): {minutes:.0f} minutes a run, "
            f"{2 * seeds} runs"
        )
    study.notes.append(
        "**The paper's own sizes** need a GPU: `svmemory train --preset 3m --steps "
        f"{_PAPERS_STEPS} --text FILE --attention sv --seed S --out DIR`, and the same with "
        "`--attention window`, or `benchmarks/language.py --study compare --preset 3m --steps "
        f"{_PAPERS_STEPS}` for all. By the multiplications of the model alone, at an assumed "
        f"{_GPU_RATE / 1e12:.0f} TFLOP/s in float32, not measured, it takes at least: "
        f"{'; '.join(sizes)}. "
        "`benchmarks/gpu_layer.py` prints what a step takes on the GPU at hand."
    )
