"""Whether a pruned memory is still, provably, the one that kept every row.

The *full-history memory* holds the same rows and the pruned ones besides. It has the pruned
memory's weights and offset if and only if every pruned row would have slack >= 0 here. At a prune
the certificate notes the present centre and the smallest height of a pruned row there; from then
on :func:`svmemory.centre.carried` bounds the heights that the pruned rows have now.

A noted centre is named by rows that are held. When one of them leaves, the floor is carried to the
centre after that, and the old one is dropped: no key or id of a row that has left is kept. What
stays of the past are numbers: floors, slacks, masses that held rows had at a past moment, and
counts. They are in no file and no digest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from .centre import (
    ROUND,
    Centre,
    Prunable,
    carried,
    present_centre,
    square,
)
from .contract import Contract
from .holding import Holding
from .plan import safe_slack
from .problem import gaussian_error
from .results import Exactness

MOST = 16
"""Prunes that are followed separately; the oldest are put together before there are more."""


@dataclass(frozen=True)
class Anchor:
    """A past centre, and what was known there of the rows pruned by then.

    Attributes
    ----------
    masses : dict of str to float
        The centre, by ids of rows that are all held.
    square : float
        Upper bound on its squared length.
    floor : float
        No pruned row's height was less there.
    slack : float
        Smallest gate-score slack of a pruned row when it was pruned.
    pruned : int
        Number of pruned rows.
    mu : float
        Multiplier at the prune.
    admitted : float
        Rows added since the prune; infinite for a centre to which a floor was carried. While it is
        finite, the rows of the centre at the prune are all held.
    """

    masses: dict[str, float]
    square: float
    floor: float
    slack: float
    pruned: int
    mu: float
    admitted: float

    def centre(self, holding: Holding) -> Centre:
        """The centre with its keys, fetched from the held rows."""
        names = list(self.masses)
        b = np.array(list(self.masses.values()))
        if holding.engine is None or not names:
            return Centre(names, np.zeros((len(names), 1)), b)
        return Centre(names, holding.engine.keys(holding.table.in_order(names)), b)

    def planned(self, contract: Contract, dimension: int) -> float:
        """Lower bound on the pruned rows' slack from the number of rows admitted alone."""
        if self.admitted == math.inf:
            return -math.inf
        if self.admitted == 0.0:
            return 0.0  # the optimum is, exactly, the one that was certified at the prune
        return self.slack - safe_slack(self.admitted, self.mu, contract, dimension)


class RunningCertificate:
    """What a memory must remember to say whether its pruned rows matter.

    Attributes
    ----------
    operations : int
        Calls that have added or forgotten rows.
    """

    def __init__(self) -> None:
        self.operations = 0
        self._anchors: list[Anchor] = []
        self._since: int | None = None
        self._seen: tuple[float, bytes] | None = None

    def copy(self) -> RunningCertificate:
        """An independent certificate in the same state."""
        twin = RunningCertificate()
        twin.__dict__.update(self.__dict__)
        twin._anchors = list(self._anchors)
        return twin

    @contextmanager
    def operation(
        self, holding: Holding, arriving: int = 0, leaving: Sequence[str] = ()
    ) -> Iterator[None]:
        """Follow ``arriving`` rows being added, or the rows ``leaving`` being forgotten."""
        before = self._anchors
        touched, rest = _split(before, leaving)
        rest = [replace(anchor, admitted=anchor.admitted + arriving) for anchor in rest]
        old = [anchor.centre(holding) for anchor in touched]
        # An interrupt at any moment leaves a certificate that is true: at worst it knows nothing.
        self._anchors = [*rest, _unknown(touched)] if touched else rest
        self.operations += 1
        try:
            yield
        except BaseException:
            self.operations -= 1
            self._anchors = before  # the rows are what they were
            raise
        if touched:
            self._anchors, self._seen = [*rest, _carried(touched, old, holding)], None
        if self._anchors and self._since is None:
            self._watch(holding)

    @contextmanager
    def prune(self, holding: Holding, rows: Prunable) -> Iterator[None]:
        """Follow ``rows`` being pruned.

        The state must be in canonical form. At ridge 0, where there is none, nothing is noted.
        """
        if not rows.names or holding.contract.ridge == 0.0:
            yield
            return
        before, gamma = self._anchors, holding.contract.gamma
        touched, rest = _split(before, rows.names)
        if len(rest) >= MOST - 1:
            touched, rest = [*touched, *rest[:2]], rest[2:]
        if touched:
            rest.append(_carried(touched, [a.centre(holding) for a in touched], holding))
        now = present_centre(holding)
        error = gaussian_error(now.keys.shape[1]) + 8.0 * ROUND
        rest.append(
            Anchor(
                masses=dict(zip(now.names, now.b.tolist(), strict=True)),
                square=square(now, gamma),
                floor=float(rows.heights.min()) - rows.error - error * float(now.b.sum()),
                slack=rows.least_slack,
                pruned=len(rows.names),
                mu=0.0 if holding.engine is None else holding.engine.mu,
                admitted=0.0,
            )
        )
        self._anchors, self._seen = rest, None
        try:
            yield
        except BaseException:
            self._anchors = before
            raise

    def report(self, holding: Holding) -> Exactness:
        """What is proved now; the state must be in canonical form, which has a ridge > 0."""
        pruned = sum(anchor.pruned for anchor in self._anchors)
        if not self._anchors:
            text = "no row has been pruned since this memory was created or loaded"
            return Exactness(True, 0.0, math.inf, None, 0, text)
        rooms = list(map(max, *self._rooms(holding)))
        slack = min(rooms)
        first = self._anchors[rooms.index(slack)].slack
        proved = slack >= 0.0
        if proved:
            self._since = None
            text = "every pruned row would have weight 0, and all other weights are the same"
        else:
            self._since = self.operations if self._since is None else self._since
            text = (
                f"fewer than 1/C = {holding.contract.mass:g} rows are held: "
                "pruned rows would have weight"
                if slack == -math.inf
                else "the memory has moved further than the slack of the pruned rows reaches: "
                "they may or may not have weight"
            )
        spent = max(0.0, 1.0 - slack / first) if first > 0.0 else 1.0
        return Exactness(proved, spent, slack, self._since, pruned, text)

    def _watch(self, holding: Holding) -> None:
        """Note the operation after which nothing is proved any more."""
        engine = holding.engine
        state = None if engine is None else (engine.mu, engine.masses(engine.active_slots()))
        seen = None if state is None else (state[0], state[1].tobytes())
        if seen is not None and seen == self._seen:
            return  # an added reserve row moves nothing
        by_floor, by_plan = self._rooms(holding)
        self._seen = seen if min(by_floor) >= 0.0 else None  # plans are used up by any row
        if min(map(max, by_floor, by_plan)) < 0.0:
            self._since = self.operations

    def _rooms(self, holding: Holding) -> tuple[list[float], list[float]]:
        """Lower bounds on the gate-score slack that the rows of each anchor have now.

        The first come from their floor, the others from the number of rows admitted.
        """
        engine, contract = holding.engine, holding.contract
        if engine is None or len(holding) < contract.mass:
            nothing = [-math.inf] * len(self._anchors)
            return nothing, nothing
        now, mu, m = present_centre(holding), engine.mu, contract.mass
        # The exact masses and mu are the present ones up to their rounding to float64.
        error = (gaussian_error(engine.dimension) + 8.0 * ROUND) * m
        error += 8.0 * ROUND * mu + (len(now.b) + 1) * 2.0**-112
        by_floor, by_plan = [], []
        for anchor in self._anchors:
            old = anchor.centre(holding)
            floor, _ = carried(anchor.floor, old, anchor.square, now, contract.gamma)
            by_floor.append(2.0 * (floor - mu - error) / m)
            by_plan.append(anchor.planned(contract, engine.dimension))
        return by_floor, by_plan


def _split(anchors: Sequence[Anchor], leaving: Sequence[str]) -> tuple[list[Anchor], list[Anchor]]:
    """Anchors that name a row which is about to leave, and the others."""
    touched = [any(name in anchor.masses for name in leaving) for anchor in anchors]
    return (
        [anchor for anchor, hit in zip(anchors, touched, strict=True) if hit],
        [anchor for anchor, hit in zip(anchors, touched, strict=True) if not hit],
    )


def _unknown(anchors: Sequence[Anchor]) -> Anchor:
    """One anchor for several that claims no more than that heights are not negative."""
    slack, pruned = min(a.slack for a in anchors), sum(a.pruned for a in anchors)
    return Anchor({}, 0.0, 0.0, slack, pruned, 0.0, math.inf)


def _carried(anchors: Sequence[Anchor], old: Sequence[Centre], holding: Holding) -> Anchor:
    """One anchor at the present centre for several; ``old`` are their centres."""
    now, gamma = present_centre(holding), holding.contract.gamma
    known = [
        carried(anchor.floor, centre, anchor.square, now, gamma)
        for anchor, centre in zip(anchors, old, strict=True)
    ]
    floor, length = min(known)
    return replace(
        anchors[known.index((floor, length))],
        masses=dict(zip(now.names, now.b.tolist(), strict=True)),
        square=length,
        floor=floor,
        pruned=sum(anchor.pruned for anchor in anchors),
        admitted=math.inf,
    )
