"""Rare items among near-duplicates: the paper's task, one context at a time.

A context holds a few items once and others many times over, with noise. Each item is asked for
twice: a *warm-up* query, which policies may have seen, and an *evaluation* query, which is scored.
The answer is the item with the largest sum of kernel values among the rows that were kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..contract import Contract
from ..kernel import gaussian_kernel
from ..selection import POLICIES, Context

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """Sizes of a context; the defaults are the paper's.

    Attributes
    ----------
    singletons, groups, copies : int
        Items held once; items held ``copies`` times.
    dimension : int
    spread, noise, query_noise : float
        Standard deviations a dimension: of the items' centres, of a row around its centre, and of
        a query around it.
    sigma : float
        Kernel width: ``gamma = 1 / sigma^2``.
    nu : float
        ``C = 1 / (nu n)``; it decides how large the support is, and so the budget.
    shuffled : bool
        Whether rows arrive in random order; else singletons come first.
    """

    singletons: int = 6
    groups: int = 6
    copies: int = 10
    dimension: int = 4
    spread: float = 1.5
    noise: float = 0.15
    query_noise: float = 0.05
    sigma: float = 1.2
    nu: float = 0.45
    shuffled: bool = False

    @property
    def items(self) -> int:
        """Different items."""
        return self.singletons + self.groups

    @property
    def rows(self) -> int:
        """Rows of a context."""
        return self.singletons + self.groups * self.copies


@dataclass(frozen=True, eq=False)
class Drawn:
    """One context.

    Attributes
    ----------
    keys : (n, d) array
    items : (n,) array
        The item that each row holds; the first ``singletons`` items are held once.
    warm, asked : (items, d) arrays
        Warm-up and evaluation queries, one an item.
    """

    keys: Floats
    items: Ints
    warm: Floats
    asked: Floats


def draw(task: Task, seed: int) -> Drawn:
    """The context of a seed."""
    rng = np.random.default_rng(seed)
    centres = task.spread * rng.standard_normal((task.items, task.dimension))
    single = np.arange(task.singletons)
    items = np.concatenate([single, np.repeat(np.arange(task.groups), task.copies) + len(single)])
    keys = centres[items] + task.noise * rng.standard_normal((task.rows, task.dimension))
    warm, asked = (
        centres + task.query_noise * rng.standard_normal(centres.shape) for _ in range(2)
    )
    if task.shuffled:
        order = rng.permutation(len(keys))
        keys, items = keys[order], items[order]
    return Drawn(keys, items, warm, asked)


def answers(
    drawn: Drawn, kept: Ints, gamma: float, items: int, weights: Floats | None = None
) -> Ints:
    """The item that the kept rows give each evaluation query, (items,).

    ``weights`` (one a kept row) multiply the kernel values; all count alike by default. A query
    that nothing reaches is answered by the first item.
    """
    kernel = gaussian_kernel(drawn.asked, drawn.keys[kept], gamma)
    if weights is not None:
        kernel = kernel * weights
    votes = np.zeros((len(drawn.asked), items))
    for item in range(items):
        votes[:, item] = kernel[:, drawn.items[kept] == item].sum(axis=1)
    return np.asarray(votes.argmax(axis=1))


EVERYTHING = "everything"
OWN_WEIGHTS = "support, own weights"
ORACLE = "h2o, oracle"
SOFTMAX_ORACLE = "h2o_softmax, oracle"

RANDOM_DRAWS = 10
"""Selections at random whose recalls are averaged in each context."""

_POLICY_SEED = 1_000_000
"""Added to a context's seed for random selection, which must not repeat the context's numbers."""

PEERS = tuple(name for name in POLICIES if name != "support")
"""Policies that use nothing of the future: they see the warm-up queries only."""

NAMES = MappingProxyType(
    {
        "support": "support (ours)",
        OWN_WEIGHTS: "support, read by its weights",
        EVERYTHING: "keep everything",
        ORACLE: "H2O, oracle (kernel mass)",
        SOFTMAX_ORACLE: "H2O, oracle (softmax)",
        "h2o": "H2O, warm-up (kernel mass)",
        "h2o_softmax": "H2O, warm-up (softmax)",
        "self_mass": "H2O, self-mass",
        "snapkv": "SnapKV-style",
        "recency": "recency",
        "random": "random",
        "k_centre": "k-centre",
        "facility_location": "facility location",
    }
)
"""For people, in the order of a table."""


def recalls(task: Task, seed: int, oracles: bool = True) -> Mapping[str, tuple[float, float]]:
    """Recall of every policy in one context, all at the size of the support.

    Parameters
    ----------
    task : Task
    seed : int
    oracles : bool
        Also policies that saw the evaluation queries, and what uses more than the budget.

    Returns
    -------
    dict
        By name: share of the singletons, and of all items, that are answered right. Under
        ``"kept"``: the share of rows kept, twice.
    """
    drawn = draw(task, seed)
    contract = Contract.from_nu(task.nu, task.rows, 1.0 / task.sigma**2)
    context = Context(drawn.keys, contract, drawn.warm)
    budget = context.support_size
    right = np.arange(task.items)

    def scored(kept: Ints, weights: Floats | None = None) -> tuple[float, float]:
        hit = answers(drawn, kept, contract.gamma, task.items, weights) == right
        return float(hit[: task.singletons].mean()), float(hit.mean())

    found = {name: scored(policy(context, budget)) for name, policy in POLICIES.items()}
    lots = [
        scored(
            POLICIES["random"](
                replace(context, seed=_POLICY_SEED + RANDOM_DRAWS * seed + i), budget
            )
        )
        for i in range(RANDOM_DRAWS)
    ]
    found["random"] = (fmean(rare for rare, _ in lots), fmean(both for _, both in lots))
    if oracles:
        told = Context(drawn.keys, contract, drawn.asked)
        found[ORACLE] = scored(POLICIES["h2o"](told, budget))
        found[SOFTMAX_ORACLE] = scored(POLICIES["h2o_softmax"](told, budget))
        support = np.flatnonzero(context.masses > 0.0)
        found[OWN_WEIGHTS] = scored(support, context.masses[support])
        found[EVERYTHING] = scored(np.arange(len(context)))
    found["kept"] = (budget / task.rows,) * 2
    return found
