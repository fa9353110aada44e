"""Which rows could be dropped so that no k further admissions, whatever they are, need them.

With masses of total ``m = 1/C`` and multiplier ``mu``: the k new rows hold at most ``kappa = min(k,
m)`` of the mass, and in the feature space of ``K + ridge I`` the centre moves by at most

    L = min(sqrt(kappa mu), sqrt(2 kappa (kappa + ridge))).

Some row i with slack <= 0 before has slack >= 0 afterwards, and ``phi(x_j) - phi(x_i)`` is at most
``sqrt(2 + ridge)`` long. So a reserve row j whose slack ``h_j - mu`` is at least ``sqrt(2 + ridge)
L`` stays in reserve; for small k and ridge, a row with ``g_j >= 4 k C``. docs/pruning.md has the
proof.
"""

from __future__ import annotations

import math

import numpy as np

from .centre import ROUND, prunable
from .contract import Contract
from .errors import InputError
from .holding import Holding
from .problem import gaussian_error
from .results import PlanResult


def plan(holding: Holding, k: int) -> PlanResult:
    """Rows that stay in reserve under any k admissions; the state must be in canonical form.

    Parameters
    ----------
    holding : Holding
    k : int
        Number of further admissions, >= 0.

    Raises
    ------
    InputError
        If k is not such a number.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
        raise InputError(f"k must be a whole number of admissions >= 0, got {k!r}")
    engine, contract = holding.engine, holding.contract
    if engine is None or len(holding) < contract.mass:
        return PlanResult(int(k), math.inf, [], len(holding))
    threshold = safe_slack(float(k), engine.mu, contract, engine.dimension)
    droppable = prunable(holding, threshold).names
    return PlanResult(int(k), threshold, droppable, len(holding) - len(droppable))


def safe_slack(k: float, mu: float, contract: Contract, dimension: int) -> float:
    """Gate-score slack that a reserve row needs to stay in reserve under k admissions.

    Parameters
    ----------
    k : float
        Number of admissions.
    mu : float
        Multiplier of the optimum before them, over at least 1/C rows.
    contract : Contract
    dimension : int
        Width of a key.
    """
    if k == 0:
        return 0.0
    m, ridge = contract.mass, contract.ridge
    kappa, error = min(k, m), gaussian_error(dimension)
    # The kernel is not quite positive definite: what that can add to |D| is counted as well.
    rooted = math.sqrt(kappa * mu + 4.0 * error * m * m)
    linear = math.sqrt(2.0 * kappa * (kappa + ridge)) + math.sqrt(8.0 * error) * m
    slack = math.sqrt(2.0 + ridge) * min(rooted, linear) + 4.0 * error * m
    return 2.0 * slack / m * (1.0 + 32.0 * ROUND)
