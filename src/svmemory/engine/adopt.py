"""Take over a canonical form: sets, masses and multiplier, and the odometers with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import sets
from .exact import Canonical
from .look import advance
from .settle import refresh
from .state import ACTIVE, ERROR, MARGIN, MU, RESERVE, State


def adopt(form: Canonical, total: float, with_room: Callable[[], State]) -> None:
    """Put an engine's state where the canonical form says that it is.

    Parameters
    ----------
    form : Canonical
    total : float
        Mass of all rows.
    with_room : callable
        Returns the state after making room for one more active and margin row.
    """
    s = with_room()
    active = s.slot[: s.tally[ACTIVE]]
    active = active[s.code[active] > RESERVE]
    old = s.b[s.place[active]].sum()
    margin, error = set(form.margin.tolist()), set(form.error.tolist())
    for slot in sorted({*active.tolist(), *margin, *error}):
        goal = MARGIN if slot in margin else ERROR if slot in error else RESERVE
        while s.code[slot] != goal:
            s = with_room()
            if s.code[slot] == MARGIN:
                s.b[s.place[slot]] = float(goal == ERROR)
            sets.cross(s, slot)
    place = s.place[form.margin]
    moved = np.abs(s.b[place] - form.b).sum()
    if form.corrections:
        moved += old + total  # sets changed: bound it by everything
    s.b[place] = form.b
    advance(s, moved + abs(s.value[MU] - form.mu))
    s.value[MU] = form.mu
    refresh(s)
