"""Which hours of an intensive-care stay to keep: events among the hours that each policy keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .icu_figures import draw_policies, draw_stay
from .icu_select import NAMES, NU, SIGMA, Variant, over
from .mimiciv import mimiciv
from .result import Figure, Study, Verdict
from .settings import MissingError, Settings
from .statistics import Interval, bootstrap_interval, excludes_zero
from .stays import Cohort, mimic3_demo, physionet

Floats = NDArray[np.float64]

PAPER = {
    "thresholds": {"support": 0.80, "self_mass": 0.05, "random": 0.34, "recency": 0.30},
    "held-out": {"support": 0.464, "self_mass": 0.225, "recency": 0.409, "random": 0.333},
}
THRESHOLDS, HELD_OUT, SEPSIS = Variant("thresholds"), Variant("held-out"), Variant("sepsis")
WHAT = {
    "thresholds": "event hours kept",
    "held-out": "hours with SpO2 < 90 % kept, SpO2 hidden",
    "sepsis": "hours with the sepsis label kept",
}
READINGS = {
    "a carried-forward value counts as an event": Variant("thresholds", filled=True),
    "standardised over the cohort": Variant("thresholds", scale="cohort"),
}
SAMPLES = 10_000
_MINUS = ", support minus "
LEVEL, PEER_AHEAD = "no difference shown", "the peer keeps more"


def run(settings: Settings) -> Study:
    """Compare all policies on the cohorts that are there."""
    study = Study("icu", "Which hours of a stay to keep")
    every = physionet(settings)
    stays = settings.size(600, 4000)
    main = every.sample(stays, settings.seed)
    wide = every.sample(settings.size(2400, len(every.stays)), settings.seed)
    septic = every.sample(settings.size(300, stays), settings.seed, septic=True)
    others, absent = _others(settings, stays)
    study.setting = (
        f"{main.name}: {len(main.stays)} of {len(every.stays)} stays of at least 24 h with every "
        f"channel measured ({main.hours} hours), seed {settings.seed}, and {len(wide.stays)} for "
        f"the rarer event of the second variant; {len(septic.stays)} septic stays for the third; "
        + "".join(
            f"{other.name}: {len(other.stays)} stays ({other.hours} hours); " for other in others
        )
        + f"six hourly channels standardised over the stay, nu {NU}, sigma {SIGMA:g}, C per stay; "
        f"every policy keeps as many hours as the support has; means over the stays with an event, "
        f"intervals from {SAMPLES:,} paired bootstrap samples of stays"
    )
    drawn: dict[str, list[tuple[str, dict[str, tuple[float, Interval]]]]] = {}
    for cohort in (main, *others):
        for variant in (THRESHOLDS, HELD_OUT):
            if cohort is main and variant is HELD_OUT:  # one stay in six has such an hour
                cohort = wide
            found = _events(settings, cohort, variant)
            drawn.setdefault(variant.name, []).append(
                (cohort.name, _report(study, cohort.name, variant.name, found))
            )
    found = _events(settings, septic, SEPSIS)
    drawn["sepsis"] = [(septic.name, _report(study, septic.name, "sepsis", found))]
    _readings(study, settings, main)
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
    study.notes += _notes(study, others, absent)
    return study


def _others(settings: Settings, stays: int) -> tuple[list[Cohort], list[str]]:
    """Further cohorts, and what is said of those that are not there."""
    others, absent = [], []
    try:
        others.append(mimic3_demo(settings))
    except MissingError as error:
        absent.append(f"**The MIMIC-III demo was left out**: {error}.")
    paper = mimiciv(settings, stays)
    if paper is not None:
        others.append(paper)
    else:
        absent.append(
            "**The paper's own cohort was not there.** Whoever has access to MIMIC-IV runs it with "
            "one command: put `icu/chartevents.csv.gz` and `icu/icustays.csv.gz` in a folder and "
            "run `svmemory reproduce icu --data FOLDER` (or put `icu/` into `mimiciv/` beside the "
            "other data sets)."
        )
    return others, absent


def _events(settings: Settings, cohort: Cohort, variant: Variant) -> dict[str, Floats]:
    """Counts by policy, one a stay with an event."""
    made_of: dict[str, Any] = {"cohort": cohort.mark(), **asdict(variant)}
    key = f"icu/{cohort.name.lower().replace(' ', '-')}-{variant.name}"
    found = settings.kept(key, made_of, lambda: over(cohort, variant, settings.track))
    return {name: np.array(values) for name, values in found.items()}


def _report(
    study: Study, cohort: str, variant: str, found: dict[str, Floats]
) -> dict[str, tuple[float, Interval]]:
    """Findings of one cohort and variant; returns the recalls with their intervals."""
    recalls: dict[str, tuple[float, Interval]] = {}
    if not len(found["events"]):
        study.notes.append(f"{cohort}: no stay has {WHAT[variant].split(' kept')[0]}.")
        return recalls
    share = {name: found[name] / found["events"] for name in NAMES}
    kept, interval = bootstrap_interval(found["kept"] / found["hours"], samples=SAMPLES)
    stays = len(found["events"])
    study.add(
        f"{cohort}, budget: share of hours kept ({variant})",
        kept,
        interval,
        {"thresholds": 0.33, "held-out": 0.32}.get(variant),
        Verdict.shown,
        f"{stays} stays with {int(found['events'].sum())} event hours",
    )
    for name in NAMES:
        mean, interval = recalls[name] = bootstrap_interval(share[name], samples=SAMPLES)
        paper = PAPER.get(variant, {}).get(name)
        verdict = Verdict.shown
        if paper is not None and name == "support":
            verdict = Verdict.met if interval[1] >= paper else Verdict.differs
        note = "the paper's is on MIMIC-IV" if paper is not None and cohort != "MIMIC-IV" else ""
        study.add(f"{cohort}, {WHAT[variant]}, {NAMES[name]}", mean, interval, paper, verdict, note)
    for peer in (name for name in NAMES if name != "support"):
        mean, interval = bootstrap_interval(share["support"] - share[peer], samples=SAMPLES)
        paper = PAPER.get(variant, {}).get(peer)
        paper = None if paper is None else round(PAPER[variant]["support"] - paper, 3)
        verdict, note = Verdict.shown, ""
        if not excludes_zero(interval):
            note = LEVEL
        elif mean < 0:
            note = PEER_AHEAD
        if peer == "self_mass" and variant != "sepsis":
            verdict = Verdict.met if interval[0] > 0 else Verdict.missed
        study.add(
            f"{cohort}, {WHAT[variant]}{_MINUS}{NAMES[peer]}",
            mean,
            interval,
            paper,
            verdict,
            note,
        )
    return recalls


def _readings(study: Study, settings: Settings, cohort: Cohort) -> None:
    """The same comparison under the other readings of the paper's one line of definition."""
    main = _events(settings, cohort, THRESHOLDS)
    cases: list[tuple[str, dict[str, Floats], bool]] = [("all events pooled", main, True)]
    cases += [(what, _events(settings, cohort, v), False) for what, v in READINGS.items()]
    for what, found, pooled in cases:
        weights = found["events"] if pooled else None
        ours, peer = (found[name] / found["events"] for name in ("support", "self_mass"))
        for name, values in (
            ("support (ours)", ours),
            (NAMES["self_mass"], peer),
            (f"support minus {NAMES['self_mass']}", ours - peer),
        ):
            mean, interval = bootstrap_interval(values, weights, SAMPLES)
            study.add(f"{cohort.name}, event hours kept, {what}: {name}", mean, interval)


def _winners(study: Study) -> str:
    """Which comparisons a peer wins, and which are open, from the findings."""
    said = []
    for note, words in ((PEER_AHEAD, "Where a peer keeps more"), (LEVEL, "No difference shown")):
        peers: dict[str, list[str]] = {}
        for finding in study.findings:
            if finding.note == note:
                where, peer = finding.what.split(_MINUS)
                peers.setdefault(where, []).append(peer)
        places = "; ".join(f"{where}: {', '.join(names)}" for where, names in peers.items())
        said.append(f"**{words}**: {places or 'nowhere'}.")
    return " ".join(said)


def _notes(study: Study, others: Sequence[Cohort], absent: Sequence[str]) -> list[str]:
    return [
        "**Data.** The paper's numbers are on MIMIC-IV"
        + (
            ""
            if any(o.name == "MIMIC-IV" for o in others)
            else "; ours are on other hospitals' stays"
        )
        + ". PhysioNet's stays are shorter (median 39 h), so that the margin is a larger share of "
        "the hours and the budget is above the paper's third; random keeps as much more.",
        "**Definitions.** An hour is an event if a value *measured* in it is beyond a threshold "
        "(HR > 130 or < 40, SBP < 90 or > 200, RR > 30 or < 6, SpO2 < 90, T > 38.5 or < 35). "
        "Policies see values carried forward. The paper does not say whether a "
        "carried-forward value makes an event, over what the channels are standardised, and how "
        "stays are averaged: the last rows give the other readings. `random` is its expectation.",
        "**Why H2O falls below random**: hours that are like many others have the largest sums, "
        "and an eventful hour is unlike them. That is so by softmax as well. k-centre and facility "
        "location, which also keep unlike hours, are the peers to compare with.",
        "**Sepsis.** PhysioNet's label begins six hours before the onset, and the record of a "
        "septic stay ends soon after, so the labelled hours are the last ones: recency keeps them "
        "by the way the records were cut. No policy saw the label.",
        _winners(study),
        *absent,
    ]
