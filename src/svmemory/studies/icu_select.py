"""Which hours of a stay each policy keeps, and how many of the eventful ones are among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..audit.vitals import CHANNELS, carried_forward, standardised
from ..contract import Contract
from ..selection import POLICIES, Context
from .deterioration import LOW, deteriorated
from .stays import Bools, Cohort, Stay

Floats = NDArray[np.float64]

NU = 0.3
SIGMA = 3.0
_SATURATION = CHANNELS.index("o2sat")

NAMES = MappingProxyType(
    {
        "support": "support (ours)",
        "self_mass": "H2O, self-mass (the paper's)",
        "h2o_softmax": "H2O, softmax",
        "snapkv": "SnapKV-style",
        "recency": "recency",
        "random": "random",
        "k_centre": "k-centre",
        "facility_location": "facility location",
    }
)
"""Policies of this study: those that need no queries, and H2O with the hours as queries."""


@dataclass(frozen=True)
class Variant:
    """What counts as an event, and what the policies may see.

    Attributes
    ----------
    name : {"thresholds", "held-out", "sepsis"}
        thresholds: any channel beyond its threshold (:mod:`.deterioration`), policies see all six.
        held-out: oxygen saturation below 90 %, which the policies do not see.
        sepsis: hours with PhysioNet's label, policies see all six vitals.
    filled : bool
        Whether a value that was carried forward makes an event too; else only one measured in
        that hour does.
    scale : {"stay", "cohort"}
        Over what hours a channel is standardised.
    """

    name: Literal["thresholds", "held-out", "sepsis"]
    filled: bool = False
    scale: Literal["stay", "cohort"] = "stay"


def events(stay: Stay, variant: Variant) -> Bools:
    """Which hours are events, (hours,); gaps are none."""
    if variant.name == "sepsis":
        return np.zeros(len(stay.vitals), bool) if stay.sepsis is None else stay.sepsis
    vitals = carried_forward(stay.vitals) if variant.filled else stay.vitals
    if variant.name == "held-out":
        return np.asarray(vitals[:, _SATURATION] < LOW[_SATURATION])
    return deteriorated(vitals)


def keys(stay: Stay, variant: Variant, centre: Floats, spread: Floats) -> Floats:
    """What the policies see of a stay: (hours, 6), or 5 without oxygen saturation.

    Gaps carry the last value forward; what is missing before the first value is the mean.
    ``centre`` and ``spread`` are the cohort's, and used where the variant says so.
    """
    filled = carried_forward(stay.vitals)
    if variant.scale == "stay":
        seen = standardised(filled)
    else:
        seen = np.nan_to_num((filled - centre) / spread)
    return np.delete(seen, _SATURATION, axis=1) if variant.name == "held-out" else seen


def kept_events(seen: Floats, event: Bools) -> dict[str, float]:
    """Events among the hours that each policy keeps at the size of the support.

    Parameters
    ----------
    seen : (n, d) array
    event : (n,) array

    Returns
    -------
    dict
        By policy, how many events; for "random" its expectation. Besides, "hours" n, "kept" k and
        "events" in all.
    """
    n = len(seen)
    plain = Context(seen, Contract.from_nu(NU, n, 1.0 / SIGMA**2))
    asking = replace(plain, queries=seen)
    k = plain.support_size
    counts = {
        name: float(event[POLICIES[name](asking if name == "h2o_softmax" else plain, k)].sum())
        for name in NAMES
        if name != "random"
    }
    total = float(event.sum())
    return counts | {"random": total * k / n, "hours": n, "kept": k, "events": total}


def over(
    cohort: Cohort, variant: Variant, track: Callable[[int, int], None]
) -> dict[str, list[float]]:
    """:func:`kept_events` of every stay with an event: a list for each of its names."""
    every = np.concatenate([stay.vitals for stay in cohort.stays])
    centre, spread = np.nanmean(every, axis=0), np.nanstd(every, axis=0)
    found: dict[str, list[float]] = {name: [] for name in (*NAMES, "hours", "kept", "events")}
    for done, stay in enumerate(cohort.stays, start=1):
        event = events(stay, variant)
        if event.any():
            counts = kept_events(keys(stay, variant, centre, spread), event)
            for name, count in counts.items():
                found[name].append(count)
        track(done, len(cohort.stays))
    return found
