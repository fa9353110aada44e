"""Selective copying with growing filler: recall and state against length, for six layers.

Models train on short sequences and are tested on ever longer ones. Task: :mod:`.copy_task`; model:
:mod:`.copy_model`; what is said about it: :mod:`.copy_report`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

import torch

from ..torch.language.run import denormals_flushed
from . import copy_report
from .copy_model import (
    EMBED_DIM,
    LAYERS,
    SSM_HEADS,
    WINDOW,
    Budget,
    Copier,
    recalled,
    state_floats,
    train,
)
from .copy_report import Curve, Curves
from .copy_task import FILLERS, ITEMS, KINDS, NOISE, SYMBOLS, WIDTH, Filler
from .result import Study
from .settings import Settings

NAME, TITLE = "copying", "Selective copying with growing filler"

LENGTHS = (64, 128, 256, 512, 1024, 2048)
TRAINED = (8, 16, 32, 64, 128)
"""Lengths in training, in turn. Without the shortest some layers learn nothing in this time."""

_TESTS = 1_000_000  # seeds of test sequences begin here, of validation at twice this


class Plan(NamedTuple):
    """Sizes of the study."""

    steps: int
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    lengths: tuple[int, ...]
    tests: int


def run(settings: Settings) -> Study:
    """Train every layer on both tasks and test it at all lengths."""
    repeats = settings.count(1, 3)
    plan = Plan(
        steps=settings.size(400, 1500),
        rates=settings.size((0.02,), (0.006, 0.02)),
        seeds=tuple(settings.seed + k for k in range(repeats)),
        lengths=settings.size((64, 256, 2048), LENGTHS),
        tests=settings.size(32, 128),
    )
    curves: Curves = {}
    tasks: list[tuple[Filler, str]] = [(filler, layer) for filler in FILLERS for layer in LAYERS]
    with denormals_flushed():
        for filler, layer in settings.tracked(tasks, len(tasks)):
            curves[filler, layer] = best(settings, plan, filler, layer)
    study = Study(NAME, TITLE)
    study.setting = (
        f"{ITEMS} items and {KINDS} kinds of filler (noise {NOISE}), names of length "
        f"{WIDTH**0.5:.1f} in R^{WIDTH}, {SYMBOLS} symbols; one layer of {EMBED_DIM} features and "
        f"one head (state-space layer: {SSM_HEADS}), no positions; Adam, {plan.steps} steps of 16 "
        f"sequences of {', '.join(map(str, TRAINED))} positions in turn, rates "
        f"{', '.join(f'{r:g}' for r in plan.rates)} (best validation of the first seed); SV: "
        f"C = 0.25, ridge 1e-3, gamma learned from 0.25; window {WINDOW}; {plan.tests} test "
        f"sequences, the same items at every length; seeds {', '.join(map(str, plan.seeds))}"
    )
    copy_report.findings(study, curves)
    copy_report.notes(study, curves)
    copy_report.figure(study, settings.out, curves)
    return study


def best(settings: Settings, plan: Plan, filler: Filler, layer: str) -> list[Curve]:
    """A curve a seed, at the rate that validates best with the first seed."""
    first = [_kept(settings, plan, filler, layer, rate, plan.seeds[0]) for rate in plan.rates]
    chosen = max(first, key=lambda curve: curve.validation)
    rest = [_kept(settings, plan, filler, layer, chosen.rate, seed) for seed in plan.seeds[1:]]
    return [chosen, *rest]


def _kept(
    settings: Settings, plan: Plan, filler: Filler, layer: str, rate: float, seed: int
) -> Curve:
    made_of = {
        "steps": plan.steps,
        "lengths": plan.lengths,
        "tests": plan.tests,
        "trained": TRAINED,
        "rate": rate,
        "seed": seed,
    }
    key = f"copying/{filler}-{layer}-{rate:g}-{seed}"
    fields = settings.kept(key, made_of, lambda: asdict(measure(plan, filler, layer, rate, seed)))
    return Curve(**fields)


def measure(plan: Plan, filler: Filler, layer: str, rate: float, seed: int) -> Curve:
    """Train one model, validate it at the trained lengths, test it at all."""
    model = train(layer, filler, Budget(plan.steps, 16, TRAINED, rate), seed)
    checked = [_tested(model, filler, n, plan, 2 * _TESTS + seed)[0] for n in TRAINED]
    tested = [_tested(model, filler, n, plan, _TESTS + seed) for n in plan.lengths]
    return Curve(
        rate=rate,
        validation=sum(checked) / len(checked),
        lengths=list(plan.lengths),
        recall=[recall for recall, _ in tested],
        rows=[rows for _, rows in tested],
        floats=[
            state_floats(layer, n, rows) for n, (_, rows) in zip(plan.lengths, tested, strict=True)
        ],
    )


def _tested(
    model: Copier, filler: Filler, length: int, plan: Plan, seed: int
) -> tuple[float, float]:
    # the same seed at every length: the same items, only the filler grows
    return recalled(model, filler, length, plan.tests, torch.Generator().manual_seed(seed))
