"""Which hours of an intensive-care stay to keep: events among the hours that each policy keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .icu_figures import draw_policies, draw_stay
from .icu_findings import (
    PAPER,
    SAMPLES,
    THRESHOLDS,
    WHAT,
    Means,
    add,
    add_readings,
    counts,
    winners,
)
from .icu_select import NU, SIGMA, Variant
from .mimiciv import NAME as MIMIC_IV
from .mimiciv import mimiciv
from .result import Figure, Study
from .settings import MissingError, Settings
from .stays import PHYSIONET, Cohort, mimic3_demo, physionet

HELD_OUT, SEPSIS = Variant("held-out"), Variant("sepsis")


def run(settings: Settings) -> Study:
    """Compare all policies on the cohorts that are there."""
    study = Study("icu", "Which hours of a stay to keep")
    most = settings.size(600, 4000)
    cohorts, absent = _cohorts(settings, most)
    chosen = [_chosen(settings, cohort, most) for cohort in cohorts]
    drawn: dict[str, list[tuple[str, Means]]] = {}
    for cohort, parts in zip(cohorts, chosen, strict=True):
        for variant, part in parts.items():
            means = add(study, cohort.name, variant.name, counts(settings, part, variant))
            drawn.setdefault(variant.name, []).append((cohort.name, means))
    study.setting = (
        f"{'; '.join(map(_said, cohorts, chosen))}; all of at least 24 h and with every channel "
        f"measured, seed {settings.seed}; six hourly channels standardised over the stay, nu {NU}, "
        f"sigma {SIGMA:g}, C per stay; every policy keeps as many hours as the support has; means "
        f"over the stays with an event, intervals from {SAMPLES:,} paired bootstrap samples of "
        "patients"
    )
    main = chosen[0][THRESHOLDS]
    add_readings(study, settings, main)
    draw_policies(settings.out / "icu.png", drawn, PAPER, WHAT)
    study.figures.append(
        Figure(
            "icu",
            "Share of a stay's event hours that each policy keeps at the same budget, mean over "
            "stays with 95 % bootstrap intervals; black strokes: the paper's numbers, on MIMIC-IV.",
        )
    )
    if draw_stay(settings.out / "icu-stay.png", main):
        study.figures.append(
            Figure(
                "icu-stay",
                "One stay: its vital signs in standard deviations, its event hours shaded, and "
                "below them the hours that each policy keeps.",
            )
        )
    study.notes += _notes(study, [cohort.name for cohort in cohorts], absent)
    return study


def _cohorts(settings: Settings, most: int) -> tuple[list[Cohort], list[str]]:
    """The cohorts that are there, and what is said of those that are not.

    Raises
    ------
    MissingError
        If none is there.
    """
    loaders: dict[str, Callable[[], Cohort]] = {
        "PhysioNet 2019": lambda: physionet(settings),
        "The MIMIC-III demo": lambda: mimic3_demo(settings),
        "The paper's own cohort, MIMIC-IV,": lambda: mimiciv(settings, most),
    }
    cohorts, absent = [], {}
    for name, load in loaders.items():
        try:
            cohorts.append(load())
        except MissingError as error:
            absent[name] = str(error)
    if not cohorts:
        raise MissingError(
            "needs stays in physionet2019/, mimic3_demo/ or mimiciv/icu/ (or icu/): "
            + "; ".join(absent.values())
        )
    return cohorts, [f"**{name} was left out**: {why}." for name, why in absent.items()]


def _chosen(settings: Settings, cohort: Cohort, most: int) -> dict[Variant, Cohort]:
    """The stays of each variant: more of them for the rarer event of the second."""
    chosen = {
        THRESHOLDS: cohort.sample(most, settings.seed),
        HELD_OUT: cohort.sample(settings.size(2400, len(cohort.stays)), settings.seed),
    }
    septic = cohort.sample(settings.size(300, most), settings.seed, septic=True)
    return {**chosen, SEPSIS: septic} if septic.stays else chosen


def _said(cohort: Cohort, chosen: dict[Variant, Cohort]) -> str:
    """A cohort's sizes in words."""
    main, wide = chosen[THRESHOLDS], chosen[HELD_OUT]
    words = f"{cohort.name}: {len(main.stays)} of {len(cohort.stays)} stays ({main.hours} hours)"
    if len(wide.stays) > len(main.stays):
        words += f", {len(wide.stays)} for the rarer event of the second variant"
    if SEPSIS in chosen:
        words += f", {len(chosen[SEPSIS].stays)} septic stays for the third"
    patients = len({stay.patient or stay.name for stay in cohort.stays})
    return words if patients == len(cohort.stays) else f"{words}, of {patients} patients"


def _notes(study: Study, names: Sequence[str], absent: Sequence[str]) -> list[str]:
    elsewhere = "" if MIMIC_IV in names else "; ours are on other stays"
    shorter = (
        " PhysioNet's stays are shorter (median 39 h), so that the margin is a larger share of the "
        "hours and the budget is above the paper's third; random keeps as much more."
        if PHYSIONET in names
        else ""
    )
    notes = [
        f"**Data.** The paper's numbers are on MIMIC-IV{elsewhere}.{shorter}",
        "**Definitions.** An hour is an event if a value *measured* in it is beyond a threshold "
        "(HR > 130 or < 40, SBP < 90 or > 200, RR > 30 or < 6, SpO2 < 90, T > 38.5 or < 35). "
        "Policies see values carried forward. The paper does not say whether a "
        "carried-forward value makes an event, over what the channels are standardised, and how "
        "stays are averaged: the last rows give the other readings. `random` is its expectation.",
        "**Why H2O falls below random**: hours that are like many others have the largest sums, "
        "and an eventful hour is unlike them. That is so by softmax as well. k-centre and facility "
        "location, which also keep unlike hours, are the peers to compare with.",
    ]
    if any(WHAT[SEPSIS.name] in finding.what for finding in study.findings):
        notes.append(
            "**Sepsis.** PhysioNet's label begins six hours before the onset, and the record of a "
            "septic stay ends soon after, so the labelled hours are the last ones: recency keeps "
            "them by the way the records were cut. No policy saw the label."
        )
    if MIMIC_IV not in names:
        notes.append(
            "**The paper's own data.** Whoever has access to MIMIC-IV runs them with one command: "
            "put `icu/chartevents.csv.gz` and `icu/icustays.csv.gz` in a folder and run "
            "`svmemory reproduce icu --data FOLDER` (or put `icu/` into `mimiciv/` beside the "
            "other data sets)."
        )
    return [*notes, winners(study), *absent]
