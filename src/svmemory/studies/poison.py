"""A detector on a stream that is poisoned by one source, and then forgets that source."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ..memory import SupportVectorMemory
from .outliers import Table
from .ranking import Ranking

Floats = NDArray[np.float64]

NU = 0.1
SHARE = 0.10  # of the rows of the stream are poison
POISONER = "poisoner"
_BATCH = 50
_FIRST = 0.2  # share of the clean rows that came before the stream; they set the scale
_SOURCES = 20  # among which the clean rows are shared


@dataclass(frozen=True)
class Poisoning:
    """What a poisoned stream did to a detector, and what forgetting undid.

    Attributes
    ----------
    clean, poisoned : int
        Rows.
    before, during, after : float
        ROC area on test rows of the detector that never saw the poison, of the poisoned one, and
        of that one after it forgot the poisoner.
    same_digest, same_scores : bool
        Whether the first and the last have one digest, and the same scores to the bit.
    forget_seconds, rebuild_seconds : float
        To forget, and to build the detector without the poison anew.
    """

    clean: int
    poisoned: int
    before: float
    during: float
    after: float
    same_digest: bool
    same_scores: bool
    forget_seconds: float
    rebuild_seconds: float


def poisoned_stream(data: Table, most: int, seed: int) -> Poisoning:
    """Stream the rows of a table, a tenth of them anomalies that pass for normal.

    Half of the normal rows arrive and half of the anomalies may; the other halves test. The scale
    of the columns comes from the first fifth of the clean rows, before any poison arrives, and is
    declared, as are gamma (1 / columns) and nu.

    Parameters
    ----------
    data : Table
    most : int
        Largest number of clean rows, and of normal test rows.
    seed : int
    """
    rng = np.random.default_rng(seed)
    normal, anomalies = rng.permutation(data.normal), rng.permutation(data.anomalies)
    enough = round(SHARE / (1 - SHARE) * min(most, len(normal) // 2))
    poison = anomalies[: min(enough, len(anomalies) // 2)]
    clean = normal[: min(most, len(normal) // 2, round(len(poison) * (1 - SHARE) / SHARE))]
    tests = normal[len(normal) // 2 :][:most], anomalies[len(anomalies) // 2 :]
    first = max(2, round(_FIRST * len(clean)))
    mean, deviation = clean[:first].mean(axis=0), clean[:first].std(axis=0)
    varies = deviation > 1e-12 * (1.0 + np.abs(mean))

    def scaled(rows: Floats) -> Floats:
        out: Floats = (rows[:, varies] - mean[varies]) / deviation[varies]
        return out

    stream = scaled(np.concatenate([clean, poison]))
    sources = [f"source {i % _SOURCES}" for i in range(len(clean))] + [POISONER] * len(poison)
    # the clean first rows, then the rest with the poison among it
    later = first + rng.permutation(len(stream) - first)
    arrival = np.concatenate([np.arange(first), later])
    points = scaled(np.concatenate(tests))
    truth = np.repeat([0, 1], [len(part) for part in tests])

    def built(rows: NDArray[np.intp]) -> SupportVectorMemory:
        memory = SupportVectorMemory.from_nu(NU, len(stream), gamma=1.0 / stream.shape[1])
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            memory.add(stream[batch], ids=batch.tolist(), subjects=[sources[i] for i in batch])
        memory.canonicalise()
        return memory

    def area(scores: Floats) -> float:
        return Ranking(-scores, truth).areas()[0]

    memory = built(arrival)
    during = area(memory.score(points))
    start = perf_counter()
    memory.forget(subject=POISONER)
    memory.canonicalise()
    forgot = perf_counter() - start
    start = perf_counter()
    never = built(arrival[arrival < len(clean)])
    rebuilt = perf_counter() - start
    scores, ideal = memory.score(points), never.score(points)
    return Poisoning(
        clean=len(clean),
        poisoned=len(poison),
        before=area(ideal),
        during=during,
        after=area(scores),
        same_digest=memory.digest() == never.digest(),
        same_scores=scores.tobytes() == ideal.tobytes(),
        forget_seconds=forgot,
        rebuild_seconds=rebuilt,
    )
