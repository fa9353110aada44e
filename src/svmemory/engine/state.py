"""What the engine keeps, as flat arrays that compiled code can share.

Three levels, each with its own capacity, grown by doubling:

* rows: every held row has a *slot*; freed slots are wiped and used again.
* active rows (margin, error, and the one row on the move): packed positions 0..A-1. Only they have
  kernel values, an exact sum of the kernel over error rows, and a current ``h = (K + ridge I) b``.
  In a small memory reserve rows are *watched*: they have positions too (tally WATCH), and nobody
  need look at them.
* margin rows: an order 0..s-1 shared with the Cholesky factor; each owns a row of ``P``, its kernel
  column against the active rows. A moving row owns one too.

Memory is O(n d) for the rows and O(s A) for the kernel: no n x n matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..contract import Contract

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FREE, RESERVE, MARGIN, ERROR, MOVING = -1, 0, 1, 2, 3

# Entries of State.tally
(
    ROWS,
    TOP,
    ACTIVE,
    MARGINS,
    ERRORS,
    MOVER,
    DIRECTION,
    PHASE,
    EVENTS,
    ZERO_STEPS,
    CORRECTIONS,
    LOOKS,
    SEEN,
    REGIONS,
    COVERED,
    WATCH,
) = range(16)
MOST_REGIONS = 512
# Values of State.tally[PHASE]: what is under way
IDLE, WALKING, WARMING, SETTLING = range(4)
# Entries of State.value
GAMMA, MASS, RIDGE, TOTAL, MU, RESIDUAL, PATIENCE = range(7)


class State(NamedTuple):
    """The engine's arrays; see the module's text. N, A, s and G stand for capacities."""

    keys: Floats  # (N, d), row by row: only active keys are read in bulk, and those are in near
    # 32 bits, not 8: with byte masks and wide vectors LLVM 20 compiles "if code != FREE" wrongly
    code: NDArray[np.int32]  # (N,) set of the row in this slot
    place: NDArray[np.int32]  # (N,) active position or -1
    due: Floats  # (N,) odometer reading at which a reserve row must be looked at again
    region: NDArray[np.int32]  # (N,) whose odometer that is
    slot: Ints  # (A,) slot of the active row
    near: Floats  # (d, A) keys of active rows, packed
    b: Floats  # (A,) mass
    h: Floats  # (A,) (K + ridge I) b
    high: Ints  # (A,) sum of the kernel over error rows, whole multiples of 2**-26 ...
    low: Ints  # (A,) ... plus multiples of 2**-52
    order: Ints  # (A,) index in the margin order or -1
    owner: Ints  # (A,) row of P that belongs to this active row or -1
    margin: Ints  # (s,) active positions of margin rows, in factor order
    spare: Ints  # (s,) rows of P that nobody owns, as a stack; s - MARGINS - (moving) of them
    P: Floats  # (s, A) kernel columns of margin (and moving) rows
    U: Floats  # (s, s) Cholesky factor
    db: Floats  # (A,) direction of b
    dh: Floats  # (A,) direction of h
    column: Floats  # (A,) scratch: a kernel column
    centres: Floats  # (d, G) middles of regions
    ball: Floats  # (G, A) largest kernel between an active row and a row of the region, or more
    odometer: Floats  # (G,) per region
    next_due: Floats  # (G,) per region, at most the smallest due reading of its rows
    pace: Floats  # (G,) per region, of the coming step
    square: Floats  # (G,) scratch: squared distances to the middles
    seen: Ints  # reserve rows looked at for the coming step, SEEN of them ...
    seen_slack: Floats  # ... their slack before it ...
    seen_slope: Floats  # ... and its slope along it
    x: Floats  # (s,) scratch
    w: Floats  # (s,) scratch
    tally: Ints  # whole numbers, see the names above
    value: Floats  # reals, see the names above


def new_state(contract: Contract, keys: Floats) -> State:
    """State without rows, over an array (N, d) that will hold their keys."""
    rows, dimension = keys.shape
    active, margin = 32, 16
    tally = np.zeros(16, np.int64)
    tally[REGIONS] = 1  # region 0 is everywhere
    tally[MOVER] = -1
    value = np.zeros(7)
    value[GAMMA], value[MASS], value[RIDGE] = contract.gamma, contract.mass, contract.ridge
    value[PATIENCE] = 200.0
    return State(
        keys=keys,
        code=np.full(rows, FREE, np.int32),
        place=np.full(rows, -1, np.int32),
        due=np.zeros(rows),
        region=np.zeros(rows, np.int32),
        slot=np.full(active, -1, np.int64),
        near=np.zeros((dimension, active)),
        b=np.zeros(active),
        h=np.zeros(active),
        high=np.zeros(active, np.int64),
        low=np.zeros(active, np.int64),
        order=np.full(active, -1, np.int64),
        owner=np.full(active, -1, np.int64),
        margin=np.zeros(margin, np.int64),
        spare=np.arange(margin, dtype=np.int64)[::-1].copy(),
        P=np.zeros((margin, active)),
        U=np.zeros((margin, margin)),
        db=np.zeros(active),
        dh=np.zeros(active),
        column=np.zeros(active),
        centres=np.zeros((dimension, active)),
        ball=np.zeros((active, active)),
        odometer=np.zeros(active),
        next_due=np.full(active, np.inf),
        pace=np.zeros(active),
        square=np.zeros(active),
        seen=np.zeros(1024, np.int64),
        seen_slack=np.zeros(1024),
        seen_slope=np.zeros(1024),
        x=np.zeros(margin),
        w=np.zeros(margin),
        tally=tally,
        value=value,
    )


def without_active(s: State, contract: Contract) -> State:
    """State with the same rows and none of them active, in arrays of the smallest size."""
    bare = new_state(contract, s.keys)
    bare.code[:] = np.where(s.code == FREE, FREE, RESERVE)
    for entry in (ROWS, TOP, PHASE, EVENTS, ZERO_STEPS, CORRECTIONS, LOOKS):
        bare.tally[entry] = s.tally[entry]
    bare.value[:] = s.value
    return bare


def _longer(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """Copy with the last axis grown to ``size``."""
    grown = np.full((*array.shape[:-1], size), fill, array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown


def grow_rows(s: State, keys: Floats) -> State:
    """State with a slot for every row of ``keys``, which begins with the present keys."""
    n = len(keys)
    return s._replace(
        keys=keys,
        code=_longer(s.code, n, FREE),
        place=_longer(s.place, n, -1),
        due=_longer(s.due, n),
        region=_longer(s.region, n),
    )


def grow_active(s: State) -> State:
    """State with half as many active positions again, and as many regions up to MOST_REGIONS."""
    n = len(s.b) + len(s.b) // 2
    regions = len(s.odometer) if s.tally[WATCH] else min(n, MOST_REGIONS)
    ball = np.zeros((regions, n))
    ball[: s.ball.shape[0], : s.ball.shape[1]] = s.ball
    return s._replace(
        ball=ball,
        centres=_longer(s.centres, regions),
        odometer=_longer(s.odometer, regions),
        next_due=_longer(s.next_due, regions, np.inf),
        pace=_longer(s.pace, regions),
        square=_longer(s.square, regions),
        slot=_longer(s.slot, n, -1),
        near=_longer(s.near, n),
        order=_longer(s.order, n, -1),
        owner=_longer(s.owner, n, -1),
        **{
            name: _longer(getattr(s, name), n)
            for name in ("b", "h", "high", "low", "P", "db", "dh", "column")
        },
    )


def grow_margin(s: State) -> State:
    """State with half as many margin rows again."""
    old = len(s.margin)
    n = old + old // 2
    P = np.zeros((n, s.P.shape[1]))
    P[:old] = s.P
    U = np.zeros((n, n))
    U[:old, :old] = s.U
    owned = set(s.owner[: s.tally[ACTIVE]].tolist())
    spare = np.zeros(n, np.int64)
    unowned = [row for row in range(n) if row not in owned]
    spare[: len(unowned)] = unowned
    return s._replace(
        margin=_longer(s.margin, n), spare=spare, P=P, U=U, x=np.zeros(n), w=np.zeros(n)
    )
