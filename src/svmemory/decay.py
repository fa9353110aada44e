"""Coefficient decay: what "forgetting" is without deletion, kept as the baseline to compare with.

The paper compares exact deletion with decay: the removed rows stay in the memory, their weights are
multiplied by a small ``factor``, and all weights are divided by their new sum. Nothing is solved
again: the other rows keep their old proportions and the offset stays what it was before. The keys
and values of the "forgotten" rows are still there, and every readout near them still shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ContractError, EmptyMemoryError, InputError, UnknownIdError
from .kernel import gaussian_kernel

if TYPE_CHECKING:
    from .memory import SupportVectorMemory

Floats = NDArray[np.float64]

_BLOCK = 1 << 22  # kernel values held at once: 32 MB


def decayed_weights(
    memory: SupportVectorMemory, ids: Sequence[str | int], factor: float = 0.01
) -> Floats:
    """Weights of all rows after the weights of ``ids`` are decayed.

    Parameters
    ----------
    memory : SupportVectorMemory
        Left as it is.
    ids : sequence of str or int
        Rows to decay; each must be held.
    factor : float
        From 0 to 1; multiplies their weights.

    Returns
    -------
    (n,) array
        Aligned with ``memory.ids``, sums to 1.

    Raises
    ------
    ContractError
        If ``factor`` is outside [0, 1].
    UnknownIdError
        If an id is not held.
    EmptyMemoryError
        If no weight is left to renormalise.
    """
    if not 0.0 <= factor <= 1.0:
        raise ContractError(f"the decay factor must be from 0 to 1, got {factor}")
    position = {row: i for i, row in enumerate(memory.ids)}
    weights = np.array(memory.weights, dtype=np.float64)
    decayed = np.zeros(len(weights), dtype=bool)  # a mask, so that an id given twice decays once
    for row in ids:
        if str(row) not in position:
            raise UnknownIdError(f"no row with id {str(row)!r}")
        decayed[position[str(row)]] = True
    weights[decayed] *= factor
    total = float(weights.sum())
    if not total > 0.0:
        raise EmptyMemoryError("decay leaves no weight: every active row is decayed to zero")
    return weights / total


def decayed_score(
    memory: SupportVectorMemory,
    ids: Sequence[str | int],
    points: ArrayLike,
    factor: float = 0.01,
) -> Floats:
    """Gate score of the decayed state: ``2 sum_i a_i k(x, x_i) - rho``, with rho as it was.

    Parameters
    ----------
    memory, ids, factor
        As in :func:`decayed_weights`.
    points : (q, d) array

    Returns
    -------
    (q,) array
    """
    weights = decayed_weights(memory, ids, factor)
    keys, places = memory.keys, _places(points, memory)
    score = np.empty(len(places))
    for rows in _blocks(len(places), len(keys)):
        kernel = gaussian_kernel(places[rows], keys, memory.contract.gamma)  # (block, n)
        score[rows] = 2.0 * (kernel @ weights) - memory.offset
    return score


def decayed_read(
    memory: SupportVectorMemory,
    ids: Sequence[str | int],
    queries: ArrayLike,
    factor: float = 0.01,
) -> Floats:
    """Readout of the decayed state: the mean of the values weighted by ``a_i k(q, x_i)``.

    Parameters
    ----------
    memory, ids, factor
        As in :func:`decayed_weights`.
    queries : (q, d) array

    Returns
    -------
    (q, dv) array

    Raises
    ------
    EmptyMemoryError
        If the memory holds no values.
    """
    weights = decayed_weights(memory, ids, factor)
    values = memory.values
    if values is None:
        raise EmptyMemoryError("the memory holds no values to read")
    active = weights > 0.0
    keys, held = memory.keys[active], values[active]
    log_weights = np.log(weights[active])
    places = _places(queries, memory)
    readout = np.empty((len(places), held.shape[1]))
    for rows in _blocks(len(places), len(keys)):
        # Softmax over log a_i - gamma |q - x_i|^2: a query far from every key does not underflow.
        square = np.zeros((len(places[rows]), len(keys)))
        for left, right in zip(places[rows].T, keys.T, strict=True):
            square += (left[:, None] - right[None, :]) ** 2
        exponent = log_weights - memory.contract.gamma * square  # (block, n)
        share = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        readout[rows] = (share @ held) / share.sum(axis=1, keepdims=True)
    return readout


def _places(points: ArrayLike, memory: SupportVectorMemory) -> Floats:
    """Points as a (q, d) float64 array of the memory's width."""
    places = np.asarray(points, dtype=np.float64)
    if places.ndim != 2 or places.shape[1] != memory.dimension:
        raise InputError(f"points must have shape (q, {memory.dimension}), got {places.shape}")
    return places


def _blocks(rows: int, columns: int) -> list[slice]:
    """Slices over ``rows`` so that a block holds at most ``_BLOCK`` kernel values."""
    step = max(1, _BLOCK // max(1, columns))
    return [slice(start, start + step) for start in range(0, rows, step)]
