"""The four kinds of keys the audits draw: spread out, crowded, identical, and real.

All have six dimensions, so that one kernel width (gamma = 1/4) and one cap (C = 1/(0.4 n)) serve
every regime, as in the paper.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..contract import Contract
from ..errors import InputError
from .vitals import Vitals, read_vitals, standardised

Floats = NDArray[np.float64]
Regime = Literal["gaussian", "redundant", "duplicate", "icu"]

REGIMES: tuple[Regime, ...] = get_args(Regime)
DIMENSION = 6
GAMMA = 0.25
NU = 0.4
"""C = 1 / (NU * n): the cap of every audited memory."""

VALUE_DIMENSION = 3
_PAPER_ROWS = {"gaussian": 24, "redundant": 24, "duplicate": 24, "icu": 40}


def paper_rows(regime: Regime) -> int:
    """Rows of the paper's deletion study: 24, and the first 40 hours of a stay."""
    return _PAPER_ROWS[regime]


def audit_contract(rows: int, ridge: float) -> Contract:
    """Contract of a memory declared for ``rows`` rows: gamma = 1/4, C = 1/(0.4 rows)."""
    return Contract.from_nu(NU, rows, GAMMA, ridge)


def vitals_for(regime: Regime, data: str | None) -> Vitals | None:
    """The stays that ``regime`` draws from: read for "icu", None for the synthetic regimes."""
    return read_vitals(data) if regime == "icu" else None


def trial_generator(regime: Regime, seed: int, number: int) -> np.random.Generator:
    """Random numbers of one trial, the same whatever the number of trials or of processes."""
    return np.random.default_rng([seed, REGIMES.index(regime), number])


def draw_keys(
    regime: Regime,
    rng: np.random.Generator,
    rows: int,
    spare: int = 0,
    vitals: Vitals | None = None,
) -> Floats:
    """Keys of one trial, and further keys of the same kind.

    Parameters
    ----------
    regime : "gaussian", "redundant", "duplicate" or "icu"
        gaussian: N(0, 1) in every dimension. redundant: 4 centres of 2 N(0, 1), rows / 4 keys
        around each with noise 0.02 N(0, 1). duplicate: exact copies of 8 points of N(0, 1),
        rows / 8 each. icu: consecutive hours of a stay, six vitals standardised over the hours
        drawn.
    rng : numpy Generator
    rows, spare : int
        The first ``rows`` keys are the trial's; ``spare`` more may be added to it later.
    vitals : Vitals
        Needed by "icu". A random stay of at least ``rows`` hours is read from its first hour; when
        it ends, or none is that long, further stays follow in random order.

    Returns
    -------
    (rows + spare, 6) array

    Raises
    ------
    InputError
        If the vitals are missing or have fewer hours than asked for.
    """
    total = rows + spare
    if regime == "gaussian":
        return rng.standard_normal((total, DIMENSION))
    if regime == "redundant":
        centres = 2.0 * rng.standard_normal((4, DIMENSION))
        noise = 0.02 * rng.standard_normal((total, DIMENSION))
        return centres[np.arange(total) % 4] + noise
    if regime == "duplicate":
        return rng.standard_normal((8, DIMENSION))[np.arange(total) % 8]
    if vitals is None:
        raise InputError("the icu regime needs vitals: see svmemory.audit.read_vitals")
    return standardised(_hours(vitals, rng, rows, total))


def _hours(vitals: Vitals, rng: np.random.Generator, rows: int, total: int) -> Floats:
    long_enough = [i for i, stay in enumerate(vitals.stays) if len(stay) >= rows]
    first = rng.choice(long_enough) if long_enough else rng.integers(len(vitals.stays))
    others = [i for i in rng.permutation(len(vitals.stays)) if i != first]
    parts: list[Floats] = []
    held = 0
    for i in [first, *others]:
        if held >= total:
            return np.concatenate(parts)[:total]
        parts.append(vitals.stays[i])
        held += len(vitals.stays[i])
    if held < total:
        raise InputError(f"{vitals.source} has {held} hours, and a trial needs {total}")
    return np.concatenate(parts)[:total]
