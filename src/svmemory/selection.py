"""Which rows to keep when only so many may stay: support selection and its peers.

Every policy is one function of a :class:`Context` and a budget, and returns the positions of the
rows that it keeps, ascending. They are heuristics: unlike ``prune``, none promises that what it
drops does not matter, except :func:`support` at a budget of at least :attr:`Context.support_size`.

Rows are in order of arrival. Where rows tie, the earlier one is kept, unless a policy says
otherwise.

Examples
--------
>>> import numpy as np
>>> from svmemory.selection import select
>>> keys = np.array([[0.0], [0.1], [0.2], [5.0]])
>>> select("k_centre", keys, 2, gamma=1.0, C=0.5).tolist()
[1, 3]
>>> select("recency", keys, 2, gamma=1.0, C=0.5).tolist()
[2, 3]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .contract import Contract
from .errors import InputError
from .inputs import as_matrix, as_points
from .kernel import gaussian_kernel
from .memory import SupportVectorMemory

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WINDOW = 8
"""Rows of SnapKV's observation window, where no queries were observed."""

POOL = 5
"""Neighbours in order of arrival that share SnapKV's votes; its paper's kernel size."""


@dataclass(frozen=True, eq=False)
class Context:
    """What a policy may look at; what several policies need is computed once.

    Attributes
    ----------
    keys : (n, d) array
        In order of arrival.
    contract : Contract
        Kernel width, and the cap that :func:`support` solves under.
    queries : (q, d) array or None
        Queries that were observed so far, oldest first.
    seed : int
        Of :func:`random`.
    """

    keys: Floats
    contract: Contract
    queries: Floats | None = None
    seed: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def masses(self) -> Floats:
        """Masses of the exact optimum, (n,): 0 in reserve, 1 at the cap."""
        memory = SupportVectorMemory.from_contract(self.contract)
        if len(self.keys):
            memory.add(self.keys)
            memory.canonicalise()
        return memory.masses

    @property
    def support_size(self) -> int:
        """Rows with weight: the budget at which policies are compared."""
        return int((self.masses > 0.0).sum())

    @cached_property
    def kernel(self) -> Floats:
        """Kernel values among the keys, (n, n)."""
        return gaussian_kernel(self.keys, self.keys, self.contract.gamma)

    def observed(self, policy: str) -> Floats:
        """Kernel values of the observed queries and the keys, (q, n).

        Raises
        ------
        InputError
            If no query was observed.
        """
        if self.queries is None or not len(self.queries):
            raise InputError(f"the policy {policy} needs observed queries")
        return gaussian_kernel(self.queries, self.keys, self.contract.gamma)


Policy = Callable[[Context, int], Ints]


def support(context: Context, budget: int) -> Ints:
    """Rows by weight at the optimum; then the reserve rows nearest the boundary.

    Below the size of the support, the lightest rows go first; among equals the oldest goes first,
    as in ``Store.evict``.
    """
    height = context.kernel @ context.masses
    return _first(np.lexsort((-np.arange(len(context)), height, -context.masses)), budget)


def h2o(context: Context, budget: int) -> Ints:
    """Heavy hitters by kernel mass: largest sum of ``k(q, x)`` over the observed queries.

    This is what the paper compares with. Given the queries of the evaluation it is its oracle.
    """
    return _largest(context.observed("h2o").sum(axis=0), budget)


def h2o_softmax(context: Context, budget: int) -> Ints:
    """Heavy hitters by attention: as :func:`h2o`, each query's mass normalised to 1.

    Source: Zhang et al., H2O, NeurIPS 2023, who accumulate softmax probabilities.
    """
    return _largest(_shares(context.observed("h2o_softmax")).sum(axis=0), budget)


def self_mass(context: Context, budget: int) -> Ints:
    """Heavy hitters without queries: largest column sum of the kernel, diagonal left out."""
    return _largest(context.kernel.sum(axis=0) - np.diag(context.kernel), budget)


def snapkv(context: Context, budget: int) -> Ints:
    """Rows that an observation window attends to, its votes pooled over neighbours in time.

    The window is the observed queries; where there are none, the last :data:`WINDOW` rows, which
    are then kept as well. Source: Li et al., SnapKV, NeurIPS 2024.
    """
    n = len(context)
    if context.queries is None:
        past = max(0, n - min(WINDOW, budget))
        attention = context.kernel[past:]
    else:
        past, attention = n, context.observed("snapkv")
    votes = _shares(attention)[:, :past].sum(axis=0)
    reach = POOL // 2
    padded = np.pad(votes, reach, constant_values=0.0)
    pooled = np.lib.stride_tricks.sliding_window_view(padded, POOL).max(axis=1) if past else votes
    window = np.arange(past, n)
    return np.concatenate([_largest(pooled, budget - len(window)), window])


def recency(context: Context, budget: int) -> Ints:
    """The last rows."""
    return np.arange(max(0, len(context) - budget), len(context))


def random(context: Context, budget: int) -> Ints:
    """Any rows, by the context's seed."""
    return _first(np.random.default_rng(context.seed).permutation(len(context)), budget)


def k_centre(context: Context, budget: int) -> Ints:
    """Greedy k-centre: the most typical row, then always the row farthest from those kept.

    Source: Gonzalez, Theoretical Computer Science 38 (1985): within twice the best radius.
    """
    keys, n = context.keys, len(context)
    if not n:
        return np.arange(0)
    distance = np.full(n, np.inf)
    chosen: list[int] = []
    following = int(context.kernel.sum(axis=0).argmax())
    for _ in range(min(budget, n)):
        chosen.append(following)
        distance = np.minimum(distance, ((keys - keys[following]) ** 2).sum(axis=1))
        distance[following] = -1.0  # a copy of a kept row may follow, the row itself may not
        following = int(distance.argmax())
    return np.sort(np.array(chosen, dtype=np.int64))


def facility_location(context: Context, budget: int) -> Ints:
    """Greedy facility location: rows whose best kernel value, summed over all rows, is largest.

    Source: Nemhauser, Wolsey, Fisher, Mathematical Programming 14 (1978): within 1 - 1/e of the
    best.
    """
    kernel, n = context.kernel, len(context)
    reached = np.zeros(n)
    free = np.ones(n, dtype=bool)
    for _ in range(min(budget, n)):
        gain = np.where(free, np.maximum(kernel - reached[:, None], 0.0).sum(axis=0), -1.0)
        following = int(gain.argmax())
        free[following] = False
        reached = np.maximum(reached, kernel[:, following])
    return np.flatnonzero(~free)


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        policy.__name__: policy
        for policy in (
            support,
            h2o,
            h2o_softmax,
            self_mass,
            snapkv,
            recency,
            random,
            k_centre,
            facility_location,
        )
    }
)
"""All policies by name."""


def select(
    policy: str,
    keys: ArrayLike,
    budget: int,
    *,
    gamma: float,
    C: float,
    queries: ArrayLike | None = None,
    seed: int = 0,
) -> Ints:
    """Positions of the rows that a policy keeps.

    Parameters
    ----------
    policy : str
        A name in :data:`POLICIES`.
    keys : array_like (n, d)
        In order of arrival.
    budget : int
        Rows to keep, >= 0; all of them where there are not more.
    gamma, C : float
        Of the memory's contract.
    queries : array_like (q, d), optional
        Observed so far; "h2o" and "h2o_softmax" need them.
    seed : int
        Of "random".

    Returns
    -------
    (min(budget, n),) int array, ascending

    Raises
    ------
    InputError
        If there is no such policy, the budget is no whole number >= 0, or queries are missing.
    """
    if policy not in POLICIES:
        raise InputError(f"there is no policy {policy!r}; there are: {', '.join(POLICIES)}")
    try:
        most = operator.index(budget)
    except TypeError:
        raise InputError(f"budget must be a whole number of rows, got {budget!r}") from None
    if most < 0:
        raise InputError(f"budget must be >= 0, got {most}")
    matrix = as_matrix(keys, "keys", None)
    points = None if queries is None else as_points(queries, "queries", matrix.shape[1])
    context = Context(matrix, Contract.from_cap(gamma, C), points, seed)
    return POLICIES[policy](context, most)


def _first(order: Ints, budget: int) -> Ints:
    return np.sort(order[:budget])


def _largest(score: Floats, budget: int) -> Ints:
    """Positions of the largest scores; the earlier of equals."""
    return _first(np.argsort(-score, kind="stable"), budget)


def _shares(attention: Floats) -> Floats:
    """Each query's kernel values as shares of 1; a query that nothing is near has none."""
    total = attention.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(attention, total, out=np.zeros_like(attention), where=total > 0.0))
