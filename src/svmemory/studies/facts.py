"""Forgetting one fact of eight, and correcting one: exactly, by decay, and through gradients.

A trained recall model holds eight facts as rows of a memory. One is forgotten in several ways, and
then asked for again. A secret occurs in no other fact, so an answer with it is a leak and not luck.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..torch.language.run import denormals_flushed
from .fact_models import (
    CAP,
    FACTS,
    HIDDEN,
    KEY,
    NOISE,
    PERSON,
    RIDGE,
    SYMBOLS,
    Projections,
    train_projections,
)
from .fact_report import figure, findings, notes
from .fact_trials import FACTORS, FINE_TUNE, MOST_ASCENT, NETWORK, trial
from .result import Study
from .settings import Settings

NAME, TITLE = "facts", "Forgetting and editing a fact"

GROUP = 10
"""Trials that are kept together."""


def run(settings: Settings) -> Study:
    """Train recall models, forget and edit facts in trials, and count leaks."""
    steps = settings.size(200, 600)
    models, trials = settings.count(1, 3), settings.size(10, 60)
    groups = [
        (settings.seed + k, start) for k in range(models) for start in range(0, trials, GROUP)
    ]
    trained: dict[int, Projections] = {}
    found: list[dict[str, Any]] = []

    def make(seed: int, start: int) -> list[dict[str, Any]]:
        if seed not in trained:
            trained[seed] = train_projections(steps, seed)
        numbers = range(start, min(start + GROUP, trials))
        return [trial(trained[seed], seed, number) for number in numbers]

    with denormals_flushed():
        for seed, start in settings.tracked(groups, len(groups)):
            made_of = {"seed": seed, "steps": steps, "trials": trials}
            key = f"facts/trials-{seed}-{start}"
            found += settings.kept(key, made_of, partial(make, seed, start))
    study = Study(NAME, TITLE)
    study.setting = (
        f"{FACTS} facts: a person, N(0, 1)^{PERSON}, and one of {SYMBOLS} symbols; questions with "
        f"noise {NOISE}; learned projections to {KEY} features, Gaussian readout, C = {CAP}, ridge "
        f"{RIDGE:g}, {steps} steps on new facts each; decay factors "
        f"{', '.join(f'{f:g}' for f in FACTORS)}; a network of {HIDDEN} hidden units for facts in "
        f"weights, {NETWORK} steps; gradient ascent up to {MOST_ASCENT} steps, fine-tuning "
        f"{FINE_TUNE}; {models} trained models x {trials} trials, seeds from {settings.seed}"
    )
    findings(study, found)
    notes(study)
    figure(study, settings.out, found)
    return study
