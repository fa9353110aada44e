"""Will a patient deteriorate within the next six hours? Hours of stays, their inputs and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..audit.vitals import carried_forward
from .deterioration import deteriorated
from .settings import MissingError, Settings
from .stays import set_a

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

AHEAD = 6
"""Hours that a prediction looks ahead, and hours of a stay that must have passed before one."""
LONGEST = 72
"""Hours of a stay that are used."""

FEATURES = 12
"""Numbers that a sequence model sees of each hour: six values and six flags."""

FIRST = 2400
"""Stays that the quick size looks at; the first part of the archives has more."""

_CLIP = 5.0  # standard deviations


@dataclass(frozen=True)
class Stay:
    """One stay, T hours.

    Attributes
    ----------
    raw : (T, 6) array
        Channels of :data:`svmemory.audit.vitals.CHANNELS`, NaN where nothing was measured.
    event : (T,) array
        Hours with a value beyond its threshold.
    label : (T,) array
        Whether one of the next six hours is such an hour.
    asked : (T,) array
        Hours that are predicted from: six have passed (this one counts) and six follow.
    calm : (T,) array
        Of those, hours without an event in the last six, this one included.
    """

    raw: Floats
    event: Flags
    label: Flags
    asked: Flags
    calm: Flags

    @property
    def hours(self) -> int:
        """T."""
        return len(self.raw)


def stays(settings: Settings) -> list[Stay]:
    """PhysioNet 2019, set A: 20,336 stays, in quick size the first; those of 12 h or more.

    Raises
    ------
    MissingError
        If the data are not there, or hold no such stay.
    """
    chosen = islice(set_a(settings), settings.size(FIRST, None))
    found = [stay(one.vitals) for one in chosen if len(one.vitals) >= 2 * AHEAD]
    if not found:
        raise MissingError(
            f"found no stay of at least {2 * AHEAD} hours in physionet2019/ of the data folder"
        )
    return found


def mark(everyone: Iterable[Stay]) -> str:
    """Hash of all hours: what a result computed from them depends on."""
    seal = hashlib.sha256()
    for one in everyone:
        seal.update(f"{one.hours} ".encode())
        for array in (one.raw, one.label, one.asked, one.calm):
            seal.update(np.ascontiguousarray(array).tobytes())
    return seal.hexdigest()[:16]


def stay(raw: Floats) -> Stay:
    """Labels of one stay from its measured values (T, 6)."""
    event = deteriorated(raw)
    before = np.concatenate([[0], np.cumsum(event)])  # events in hours 0, ..., t - 1
    hour = np.arange(len(raw))
    following = before[np.minimum(hour + 1 + AHEAD, len(raw))] - before[hour + 1]
    past = before[hour + 1] - before[np.maximum(hour + 1 - AHEAD, 0)]
    asked = (hour + 1 >= AHEAD) & (hour + AHEAD < len(raw))
    cut = slice(0, LONGEST)
    return Stay(raw[cut], event[cut], (following > 0)[cut], asked[cut], (asked & (past == 0))[cut])


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of each channel over the measured values of training stays."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, training: list[Stay]) -> Scale:
        """Measure it."""
        raw = np.concatenate([stay.raw for stay in training])
        return cls(np.nanmean(raw, axis=0), np.nanstd(raw, axis=0))

    def inputs(self, stay: Stay) -> Floats:
        """What a sequence model sees of each hour; (T, 12).

        Six standardised values, each the last measured one (0 before the first), and six flags:
        measured in this hour.
        """
        values = (carried_forward(stay.raw) - self.mean) / self.deviation
        known = np.clip(np.where(np.isnan(values), 0.0, values), -_CLIP, _CLIP)
        return np.concatenate([known, ~np.isnan(stay.raw)], axis=1, dtype=np.float64)


def summary(inputs: Floats, event: Flags) -> Floats:
    """What the boosted trees see of each hour; (T, 45).

    The inputs (12); mean, lowest and highest value, change, and share of measured hours over the
    last six hours (30); events in the last six hours and so far, and the hour (3).
    """
    values, measured = inputs[:, :6], inputs[:, 6:]
    hours = len(inputs)
    # the first hour stands for the hours before the stay
    padded = np.concatenate([np.repeat(values[:1], AHEAD - 1, axis=0), values])
    window = np.lib.stride_tricks.sliding_window_view(padded, AHEAD, axis=0)  # (T, 6, AHEAD)
    seen = np.concatenate([np.zeros((AHEAD - 1, 6)), measured])
    share = np.lib.stride_tricks.sliding_window_view(seen, AHEAD, axis=0).mean(axis=2)
    so_far = np.cumsum(event)
    before = np.concatenate([np.zeros(AHEAD, dtype=np.int64), so_far])[:hours]
    counts = np.stack([so_far - before, so_far, np.arange(hours)], axis=1)
    change = values - window[:, :, 0]
    parts = [inputs, window.mean(2), window.min(2), window.max(2), change, share, counts]
    return np.concatenate(parts, axis=1, dtype=np.float64)
