"""How near a state is to the optimum of its rows, by the conditions alone: no solver, no engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import problem
from ..contract import Contract
from ..digest import Rows
from ..kernel import gaussian_kernel

Floats = NDArray[np.float64]

_BLOCK = 1 << 18  # kernel values at a time: they stay in the processor's cache


@dataclass(frozen=True)
class Optimality:
    """The conditions of a state; see :mod:`svmemory.problem`.

    Attributes
    ----------
    residual, gap, score_bound : float
        Largest violation, bound on ``f(a) - f*``, bound on the error of any gate score.
    slack : float or None
        Smallest ``|g|`` of a row that is not on the margin: how far a set is from changing.
    mass : float or None
        Smallest distance of a margin row's mass from 0 and 1, for the same reason.
    offset, offset_low, offset_high : float
        Offset, and an interval that holds the optimal one.
    """

    residual: float
    gap: float
    score_bound: float
    slack: float | None
    mass: float | None
    offset: float
    offset_low: float
    offset_high: float


def judge(rows: Rows, contract: Contract, sums: Floats) -> Optimality:
    """Conditions of a state whose ``K a`` is ``sums``, (n,)."""
    ridge, held = contract.ridge, contract.held_mass(len(rows.ids))
    a = rows.b / held
    q = sums + ridge * a
    rho = problem.offset_from_mu(rows.mu, ridge, held)
    kernel_error = problem.gaussian_error(rows.keys.shape[1])
    gap = problem.duality_gap(a, q, ridge, held, kernel_error)
    bound = problem.score_bound(gap, a, q, ridge, held, rho, kernel_error)
    margin = (rows.b > 0.0) & (rows.b < 1.0)
    slack = np.abs(problem.gradient(q, ridge, rho)[~margin])
    mass = np.minimum(rows.b, 1.0 - rows.b)[margin]
    return Optimality(
        residual=problem.kkt_residual(a, q, ridge, held, rho),
        gap=gap,
        score_bound=bound.score,
        slack=float(slack.min()) if slack.size else None,
        mass=float(mass.min()) if mass.size else None,
        offset=rho,
        offset_low=bound.offset_low,
        offset_high=bound.offset_high,
    )


def weighted_sums(rows: Rows, contract: Contract) -> Floats:
    """``K a`` in plain NumPy, (n,)."""
    active = np.flatnonzero(rows.b > 0.0)
    near, a = rows.keys[active], rows.b[active] / contract.held_mass(len(rows.ids))
    step = max(1, _BLOCK // max(1, len(active)))
    parts = [
        gaussian_kernel(rows.keys[i : i + step], near, contract.gamma) @ a
        for i in range(0, len(rows.keys), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def optimality_document(found: Optimality) -> dict[str, Any]:
    """Figures of optimality as a certificate writes them."""
    slack, mass = found.slack, found.mass
    return {
        "residual": found.residual.hex(),
        "gap": found.gap.hex(),
        "scoreBound": found.score_bound.hex(),
        "complementarity": {
            "slack": None if slack is None else slack.hex(),
            "mass": None if mass is None else mass.hex(),
        },
        "offset": found.offset.hex(),
        "offsetInterval": {"low": found.offset_low.hex(), "high": found.offset_high.hex()},
    }
