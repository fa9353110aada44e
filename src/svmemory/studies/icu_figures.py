"""Pictures of the study of intensive-care stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..audit.vitals import CHANNELS, carried_forward, standardised
from ..contract import Contract
from ..selection import POLICIES, Context
from .figures import COLOURS, OURS, PAPER, drawn
from .icu_select import NAMES, NU, SIGMA, Variant, events
from .statistics import Interval
from .stays import Cohort, Stay

Means = Mapping[str, tuple[float, Interval]]

_MARKERS = ("o", "s", "^")
_TITLES = {
    "thresholds": "thresholds on six vitals",
    "held-out": "SpO2 < 90 %, SpO2 hidden",
    "sepsis": "sepsis label",
}


def draw_policies(
    path: Path,
    found: Mapping[str, Sequence[tuple[str, Means]]],
    paper: Mapping[str, Mapping[str, float]],
    what: Mapping[str, str],
) -> None:
    """A panel a variant, a row a policy, a marker a cohort."""
    names = list(NAMES)[::-1]
    with drawn(path, width=11.0, height=4.4, panels=len(found)) as (figure, axes):
        for panel, (ax, (variant, cohorts)) in enumerate(zip(axes, found.items(), strict=True)):
            for i, (cohort, means) in enumerate(cohorts):
                shift = 0.16 * (len(cohorts) - 1) - 0.32 * i
                for place, name in enumerate(names):
                    if name not in means:
                        continue
                    mean, (low, high) = means[name]
                    ax.errorbar(
                        mean,
                        place + shift,
                        xerr=[[mean - low], [high - mean]],
                        fmt=_MARKERS[i],
                        color=OURS if name == "support" else COLOURS[0],
                        markerfacecolor=None if i == 0 else "white",
                        capsize=2.5,
                        label=cohort if place == 0 and panel == 0 else None,
                    )
            for place, name in enumerate(names):
                if name in paper.get(variant, {}):
                    ax.plot(
                        paper[variant][name],
                        place,
                        "|",
                        color=PAPER,
                        markersize=20,
                        markeredgewidth=2,
                        label="the paper (MIMIC-IV)" if panel == 0 and name == "support" else None,
                    )
            ax.set_yticks(range(len(names)), [NAMES[n] for n in names] if panel == 0 else [])
            ax.set_xlim(-0.03, 1.04)
            ax.set_ylim(-0.6, len(names) - 0.4)
            ax.set_title(_TITLES[variant], fontsize=10)
            ax.set_xlabel("share of event hours kept")
        figure.legend(loc="outside lower center", ncols=4)


def example(cohort: Cohort) -> Stay | None:
    """The first stay of two to three days with three to eight events in at least two places."""
    for stay in cohort.stays:
        event = events(stay, Variant("thresholds"))
        apart = int((np.diff(event.astype(int)) == 1).sum())
        if 48 <= len(event) <= 72 and 3 <= event.sum() <= 8 and apart >= 2:
            return stay
    return None


def draw_stay(path: Path, cohort: Cohort) -> bool:
    """One stay's hours and what is kept of them; False if the cohort has no fitting stay."""
    stay = example(cohort)
    if stay is None:
        return False
    seen = standardised(carried_forward(stay.vitals))
    event = events(stay, Variant("thresholds"))
    context = Context(seen, Contract.from_nu(NU, len(seen), 1.0 / SIGMA**2))
    shown = ("support", "k_centre", "recency", "self_mass")
    labels = dict(zip(CHANNELS, ("HR", "SBP", "DBP", "RR", "SpO2", "temperature"), strict=True))
    with drawn(path, width=9.0, height=5.2) as (figure, [ax]):
        for colour, (channel, label) in zip(COLOURS, labels.items(), strict=False):
            ax.plot(seen[:, CHANNELS.index(channel)], color=colour, linewidth=1.1, label=label)
        for hour in np.flatnonzero(event):
            ax.axvspan(hour - 0.5, hour + 0.5, color="#F0E442", alpha=0.55, linewidth=0)
        floor = float(seen.min()) - 1.0
        for i, name in enumerate(shown):
            kept = POLICIES[name](context, context.support_size)
            hits = int(event[kept].sum())
            level = floor - 0.8 * i
            ax.plot(
                kept,
                np.full(len(kept), level),
                "|",
                color=OURS if name == "support" else "#444444",
                markersize=9,
                markeredgewidth=2,
            )
            ax.text(
                len(seen) + 0.5,
                level,
                f"{NAMES[name]}: {hits} of {int(event.sum())} events",
                va="center",
                fontsize=8.5,
            )
        ax.set_xlim(-1, len(seen) * 1.55)
        ax.set_xticks(range(0, len(seen), 12))
        ax.set_yticks(range(2 * (int(seen.min()) // 2), int(seen.max()) + 1, 2))
        ax.set_xlabel("hour of the stay")
        ax.set_ylabel("value, in standard deviations of the stay")
        ax.legend(loc="upper right", fontsize=8.5)
        figure.supxlabel(
            f"shaded: event hours; marks: the {context.support_size} of {len(seen)} hours kept",
            fontsize=8.5,
        )
    return True
