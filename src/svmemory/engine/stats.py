"""Counts of the work an engine has done."""

from __future__ import annotations

from operator import add, sub
from typing import NamedTuple


class Stats(NamedTuple):
    """What an engine has done since it was created.

    Attributes
    ----------
    events : int
        Changes of set along adiabatic paths, those at steps of length zero included.
    zero_steps : int
        Events at steps of length zero (ties, an empty margin).
    corrections : int
        Changes of set made after a path had ended, to reach the optimum.
    refits : int
        Operations that had to leave their path and solve anew.
    reserve_checks : int
        Times that a reserve row was looked at.
    """

    events: int = 0
    zero_steps: int = 0
    corrections: int = 0
    refits: int = 0
    reserve_checks: int = 0

    def since(self, before: Stats) -> Stats:
        """Difference to an earlier reading."""
        return Stats(*map(sub, self, before))

    def plus(self, more: Stats) -> Stats:
        """Sum of two readings."""
        return Stats(*map(add, self, more))
