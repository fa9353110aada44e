"""One row forgotten or added, end to end from Python, with the peers taking turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Report, median_ratio, timed
from paper_algorithm import MarginEmptyError, PaperMemory
from svmemory import Contract, SupportVectorMemory
from workloads import certified, never_saw

Floats = NDArray[np.float64]
Refit = Callable[[Floats, Contract], Any]

GROUP = 10
"""Turns of ours between two refits of a peer: microseconds after a refit has filled the processor's
caches with its own data say more about the caches than about the operation."""


@dataclass
class Turn:
    """One operation and what everybody took for it.

    Attributes
    ----------
    was : str
        Set that the row was in, or came to: "margin", "error" or "reserve".
    ours : float
        Seconds.
    events, looks : int
        Changes of set, and reserve rows that were looked at.
    peers : dict
        Seconds by peer, of the peers that took part in this turn.
    """

    was: str
    ours: float
    events: int
    looks: int
    peers: dict[str, float] = field(default_factory=dict)


@dataclass
class Bench:
    """A memory at its optimum, and what is needed to check it.

    Parameters
    ----------
    keys, values : (n, d) and (n, dv) arrays
    contract : Contract
    refits : dict
        Peers that solve from scratch, each with the number of groups it takes part in.
    paper : bool
        Whether the paper's algorithm takes part.
    """

    keys: Floats
    values: Floats
    contract: Contract
    refits: dict[str, tuple[Refit, int]]
    paper: bool
    memory: SupportVectorMemory = field(init=False)
    unfinished: int = 0
    wrong_digests: int = 0
    digests: int = 0
    uncertified: int = 0
    certificates: int = 0

    def __post_init__(self) -> None:
        self.memory = SupportVectorMemory.from_contract(self.contract)
        self.memory.add(self.keys, self.values, range(len(self.keys)))

    def active(self) -> NDArray[np.int64]:
        """Rows with weight at present, as indices of ``keys``."""
        sets = self.memory.partition
        return np.array(sorted(map(int, sets.margin + sets.error)), dtype=np.int64)

    def forget(self, victims: Sequence[int], digests: int, certificates: int) -> list[Turn]:
        """Forget each victim from the full memory, and put it back.

        The first ``digests`` and ``certificates`` results are checked.
        """
        turns: list[Turn] = []
        for group in _groups(victims):
            turns.extend(
                self._forget(victim, len(turns) + k < digests, len(turns) + k < certificates)
                for k, victim in enumerate(group)
            )
            together = turns[-len(group) :]
            if self.paper:
                for victim, turn in zip(group, together, strict=True):
                    if turn.was != "reserve":
                        self._paper(turn, PaperMemory.delete, victim, "paper")
                        self._paper(turn, PaperMemory.release, victim, "paper's walk")
            self._refit(together, np.delete(self.keys, group[-1], axis=0), len(turns))
        return turns

    def _forget(self, victim: int, digest: bool, certificate: bool) -> Turn:
        before = self.memory.stats.reserve_checks
        seconds, result = timed(partial(self.memory.forget, victim))
        looks = self.memory.stats.reserve_checks - before
        if digest:
            self._digest(np.delete(np.arange(len(self.keys)), victim))
        if certificate:
            self._certify()
        self.memory.add(self.keys[[victim]], self.values[[victim]], [victim])
        return Turn(result.former[str(victim)], seconds, result.events, looks)

    def add(self, keys: Floats, digests: int, certificates: int) -> list[Turn]:
        """Add each key to the memory, and forget it again."""
        turns: list[Turn] = []
        for group in _groups(keys):
            turns.extend(
                self._add(key, len(turns) + k < digests, len(turns) + k < certificates)
                for k, key in enumerate(group)
            )
            together = turns[-len(group) :]
            if self.paper:
                for key, turn in zip(group, together, strict=True):
                    self._paper(turn, PaperMemory.add, key, "paper")
            self._refit(together, np.concatenate([self.keys, group[-1:]]), len(turns))
        return turns

    def _add(self, key: Floats, digest: bool, certificate: bool) -> Turn:
        n, value = len(self.keys), np.zeros((1, self.values.shape[1]))
        before = self.memory.stats
        seconds, _ = timed(partial(self.memory.add, key[None, :], value, [n]))
        after = self.memory.stats
        sets = self.memory.partition
        name = str(n)
        was = "margin" if name in sets.margin else "error" if name in sets.error else "reserve"
        if digest:
            self._digest(np.arange(n + 1), key)
        if certificate:
            self._certify()
        self.memory.forget(n)
        events, looks = after.events - before.events, after.reserve_checks - before.reserve_checks
        return Turn(was, seconds, events, looks)

    def report_checks(self, report: Report, name: str) -> None:
        """Enter the outcome of all checks so far."""
        right = self.digests - self.wrong_digests
        report.check(
            f"{name}: digest is that of a fresh memory",
            self.digests > 0 and not self.wrong_digests,
            f"{right} of {self.digests}",
        )
        good = self.certificates - self.uncertified
        report.check(
            f"{name}: KKT residual at most 1e-9",
            self.certificates > 0 and not self.uncertified,
            f"{good} of {self.certificates}",
        )
        if self.unfinished:
            report.notes.append(
                f"{name}: the paper's algorithm met an empty margin in {self.unfinished} turns"
            )

    # -- parts ----------------------------------------------------------------------------------

    def _refit(self, group: Sequence[Turn], keys: Floats, done: int) -> None:
        """One refit of each peer, which every turn of the group is compared with."""
        for peer, (refit, groups) in self.refits.items():
            if done <= groups * GROUP:
                seconds, _ = timed(partial(refit, keys, self.contract))
                for turn in group:
                    turn.peers[peer] = seconds

    def _paper(
        self, turn: Turn, act: Callable[[PaperMemory, Any], None], row: Any, name: str
    ) -> None:
        try:
            turn.peers[name] = timed(partial(act, self._paper_start.copy(), row))[0]
        except MarginEmptyError:
            self.unfinished += 1

    @cached_property
    def _paper_start(self) -> PaperMemory:
        """The paper's memory at our optimum."""
        exact = SupportVectorMemory.from_contract(self.contract)
        exact.add(self.keys)
        exact.canonicalise()
        weights = np.where(exact.masses == 1.0, self.contract.C, exact.weights)
        return PaperMemory(self.keys, weights, self.contract.C, self.contract.gamma)

    def _digest(self, rows: NDArray[np.int64], extra: Floats | None = None) -> None:
        keys, values = self.keys, self.values
        if extra is not None:
            keys = np.concatenate([keys, extra[None, :]])
            values = np.concatenate([values, np.zeros((1, values.shape[1]))])
        other = never_saw(self.contract, keys[rows], values[rows], rows.tolist(), self.digests)
        self.digests += 1
        self.wrong_digests += self.memory.copy().digest() != other

    def _certify(self) -> None:
        self.certificates += 1
        self.uncertified += not certified(self.memory)


def _groups(rows: Any) -> Iterator[Any]:
    """Consecutive parts of at most GROUP rows."""
    for first in range(0, len(rows), GROUP):
        yield rows[first : first + GROUP]


def ratio(turns: Sequence[Turn], peer: str) -> float:
    """Median over turns of the peer's time divided by ours."""
    took_part = [turn for turn in turns if peer in turn.peers]
    return median_ratio([t.peers[peer] for t in took_part], [t.ours for t in took_part])


def mean_ratio(turns: Sequence[Turn], peer: str) -> float:
    """The peer's total time divided by ours: what a workload of these turns gains."""
    took_part = [turn for turn in turns if peer in turn.peers]
    return sum(t.peers[peer] for t in took_part) / sum(t.ours for t in took_part)


def summary(kind: str, turns: Sequence[Turn], peers: Sequence[str]) -> list[Any]:
    """A table row: the kind of row, turns, median events and looks, and ratios to peers."""
    cells: list[Any] = [kind, len(turns)]
    cells.append(statistics.median(t.events for t in turns))
    cells.append(statistics.median(t.looks for t in turns))
    for peer in peers:
        cells.append(ratio(turns, peer))
    return cells
