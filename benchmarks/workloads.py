"""The data that the benchmarks run on, and the checks that what they time is exact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from svmemory import Contract, SupportVectorMemory

Floats = NDArray[np.float64]

GAMMA = 0.25
"""Kernel parameter wherever keys are six-dimensional, as in the audits."""

CERTIFIED = 1e-9
"""Largest KKT residual, in gate-score units, of a state that counts as the optimum."""


def gaussian(n: int, d: int, seed: int) -> tuple[Floats, Floats]:
    """Keys N(0, 1) of width d and values N(0, 1) of width 3."""
    rng = np.random.default_rng([n, d, seed])
    return rng.standard_normal((n, d)), rng.standard_normal((n, 3))


class Mixture:
    """An endless stream of redundant keys: Gaussian blobs, a few of them frequent.

    Row i depends on the seed and on i's block only, so any part of the stream can be made again.

    Parameters
    ----------
    seed : int
    d : int
        Width of a key.
    """

    BLOCK = 1000
    CENTRES = 40
    NOISE = 0.3

    def __init__(self, seed: int, d: int = 6) -> None:
        rng = np.random.default_rng([seed, d])
        self._seed = seed
        self._centres = 2.0 * rng.standard_normal((self.CENTRES, d))
        share = 1.0 / np.arange(1, self.CENTRES + 1)
        self._share = share / share.sum()

    def block(self, number: int) -> tuple[Floats, Floats]:
        """Keys (1000, d) and values (1000, 1) of one block of the stream."""
        rng = np.random.default_rng([self._seed, 1, number])
        which = rng.choice(self.CENTRES, self.BLOCK, p=self._share)
        noise = rng.standard_normal((self.BLOCK, self._centres.shape[1]))
        keys = self._centres[which] + self.NOISE * noise
        return keys, which[:, None].astype(np.float64)

    def keys(self, blocks: Iterable[int]) -> Floats:
        """Keys of several blocks."""
        return np.concatenate([self.block(number)[0] for number in blocks])


def never_saw(
    contract: Contract, keys: Floats, values: Floats, ids: Sequence[int], seed: int
) -> str:
    """Digest of a fresh memory that is given these rows in another order."""
    order = np.random.default_rng(seed).permutation(len(ids))
    fresh = SupportVectorMemory.from_contract(contract)
    fresh.add(keys[order], values[order], [ids[i] for i in order])
    return fresh.digest()


def certified(memory: SupportVectorMemory) -> bool:
    """Whether the present state's KKT residual, recomputed over all rows, is that of an optimum."""
    return memory.kkt().residual <= CERTIFIED
