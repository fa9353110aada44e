"""What the study of intensive-care stays finds on a cohort, beside the paper where it has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .icu_select import NAMES, Variant, events, over
from .mimiciv import NAME as MIMIC_IV
from .result import Study, Verdict
from .settings import Settings
from .statistics import Interval, bootstrap_interval, excludes_zero
from .stays import Cohort

Floats = NDArray[np.float64]
Means = dict[str, tuple[float, Interval]]

PAPER = {
    "thresholds": {"support": 0.80, "self_mass": 0.05, "random": 0.34, "recency": 0.30},
    "held-out": {"support": 0.464, "self_mass": 0.225, "recency": 0.409, "random": 0.333},
}
_BUDGET = {"thresholds": 0.33, "held-out": 0.32}
WHAT = {
    "thresholds": "event hours kept",
    "held-out": "hours with SpO2 < 90 % kept, SpO2 hidden",
    "sepsis": "hours with the sepsis label kept",
}
THRESHOLDS = Variant("thresholds")
READINGS = {
    "a carried-forward value counts as an event": Variant("thresholds", filled=True),
    "standardised over the cohort": Variant("thresholds", scale="cohort"),
}
SAMPLES = 10_000

_MINUS = ", support minus "
_LEVEL, _PEER_AHEAD = "no difference shown", "the peer keeps more"
_ELSEWHERE = "the paper's is on MIMIC-IV"
_AIM = f"aim: above 0, interval excluding 0; {_ELSEWHERE}"
_SHORT = "the interval lies below the paper's number, on data of the same source"


@dataclass(frozen=True, eq=False)
class Counts:
    """Event hours that the policies keep of each stay with an event.

    Attributes
    ----------
    by : dict of str to (n,) array
        As :func:`svmemory.studies.icu_select.over` gives them.
    patient : (n,) array of int
        Number of the stay's patient.
    """

    by: Mapping[str, Floats]
    patient: NDArray[np.intp]

    @property
    def stays(self) -> int:
        """How many."""
        return len(self.patient)

    def share(self, name: str) -> Floats:
        """Share of each stay's event hours that a policy keeps."""
        return self.by[name] / self.by["events"]

    def mean(self, values: Floats, weights: ArrayLike | None = None) -> tuple[float, Interval]:
        """Mean over stays; its interval comes from samples of patients, each with all stays."""
        patients = int(self.patient.max()) + 1
        if patients < self.stays:
            each = np.ones(self.stays) if weights is None else np.asarray(weights, dtype=float)
            weights = np.bincount(self.patient, each, patients)
            values = np.bincount(self.patient, each * values, patients) / weights
        return bootstrap_interval(values, weights, SAMPLES)


def counts(settings: Settings, cohort: Cohort, variant: Variant) -> Counts:
    """Counts of a cohort, or those that were kept."""
    made_of: dict[str, Any] = {"cohort": cohort.mark(), **asdict(variant)}
    key = f"icu/{cohort.name.lower().replace(' ', '-')}-{variant.name}"
    found = settings.kept(key, made_of, lambda: over(cohort, variant, settings.track))
    patients = [s.patient or s.name for s in cohort.stays if events(s, variant).any()]
    number = {name: i for i, name in enumerate(dict.fromkeys(patients))}
    return Counts(
        {name: np.array(values) for name, values in found.items()},
        np.array([number[name] for name in patients], dtype=np.intp),
    )


def add(study: Study, cohort: str, variant: str, found: Counts) -> Means:
    """Add the findings of one cohort and variant; returns the recalls with their intervals."""
    recalls: Means = {}
    if not found.stays:
        study.notes.append(f"{cohort}: no stay has {WHAT[variant].split(' kept')[0]}.")
        return recalls
    theirs = PAPER.get(variant, {})
    kept, interval = found.mean(found.by["kept"] / found.by["hours"])
    study.add(
        f"{cohort}, budget: share of hours kept ({variant})",
        kept,
        interval,
        _BUDGET.get(variant),
        note=f"{found.stays} stays with {int(found.by['events'].sum())} event hours",
    )
    for name in NAMES:
        mean, interval = recalls[name] = found.mean(found.share(name))
        verdict, note = Verdict.shown, ""
        if name in theirs and cohort != MIMIC_IV:
            note = _ELSEWHERE
        elif name in theirs and name == "support":
            verdict, note = _beside(theirs[name], interval)
        study.add(
            f"{cohort}, {WHAT[variant]}, {NAMES[name]}",
            mean,
            interval,
            theirs.get(name),
            verdict,
            note,
        )
    for peer in (name for name in NAMES if name != "support"):
        _add_difference(study, cohort, variant, found, peer)
    return recalls


def _beside(paper: float, interval: Interval) -> tuple[Verdict, str]:
    """Verdict and note of a number that the paper has on the same data: reached, or not."""
    return (Verdict.met, "") if interval[1] >= paper else (Verdict.differs, _SHORT)


def _add_difference(study: Study, cohort: str, variant: str, found: Counts, peer: str) -> None:
    mean, interval = found.mean(found.share("support") - found.share(peer))
    theirs = PAPER.get(variant, {})
    paper = round(theirs["support"] - theirs[peer], 3) if peer in theirs else None
    verdict, notes = Verdict.shown, []
    if paper is not None and peer == "self_mass":
        if cohort == MIMIC_IV:
            verdict, why = _beside(paper, interval)
            notes.append(why)
        else:
            verdict = Verdict.met if interval[0] > 0 else Verdict.missed
            notes.append(_AIM)
    elif paper is not None and cohort != MIMIC_IV:
        notes.append(_ELSEWHERE)
    if not excludes_zero(interval):
        notes.append(_LEVEL)
    elif mean < 0:
        notes.append(_PEER_AHEAD)
    what = f"{cohort}, {WHAT[variant]}{_MINUS}{NAMES[peer]}"
    study.add(what, mean, interval, paper, verdict, "; ".join(filter(None, notes)))


def add_readings(study: Study, settings: Settings, cohort: Cohort) -> None:
    """The same comparison under the other readings of the paper's one line of definition."""
    cases = [("all events pooled", counts(settings, cohort, THRESHOLDS), True)]
    cases += [(what, counts(settings, cohort, v), False) for what, v in READINGS.items()]
    for what, found, pooled in cases:
        if not found.stays:
            continue
        weights = found.by["events"] if pooled else None
        ours, peer = found.share("support"), found.share("self_mass")
        for name, values in (
            ("support (ours)", ours),
            (NAMES["self_mass"], peer),
            (f"support minus {NAMES['self_mass']}", ours - peer),
        ):
            mean, interval = found.mean(values, weights)
            study.add(f"{cohort.name}, event hours kept, {what}: {name}", mean, interval)


def winners(study: Study) -> str:
    """Which comparisons a peer wins, and which are open, from the findings."""
    said = []
    for note, words in ((_PEER_AHEAD, "Where a peer keeps more"), (_LEVEL, "No difference shown")):
        peers: dict[str, list[str]] = {}
        for finding in study.findings:
            if note in finding.note.split("; "):
                where, peer = finding.what.split(_MINUS)
                peers.setdefault(where, []).append(peer)
        places = "; ".join(f"{where}: {', '.join(names)}" for where, names in peers.items())
        said.append(f"**{words}**: {places or 'nowhere'}.")
    return " ".join(said)
