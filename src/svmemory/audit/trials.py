"""Run many trials, in this process or in several."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from ..errors import InputError

Trial = TypeVar("Trial")
Progress = Callable[[int, int], None]


def run_trials(
    trial: Callable[[int], Trial], count: int, jobs: int = 1, progress: Progress | None = None
) -> list[Trial]:
    """Results of ``trial(0) .. trial(count - 1)``, in that order.

    Parameters
    ----------
    trial : callable
        A pure function of the trial's number; picklable when ``jobs > 1``.
    count, jobs : int
        Trials, and processes to share them between.
    progress : callable, optional
        Called as ``progress(done, count)`` after each trial.
    """
    if count < 1 or jobs < 1:
        raise InputError(f"trials and jobs must be at least 1, got {count} and {jobs}")
    results: list[Trial] = []

    def keep(result: Trial) -> None:
        results.append(result)
        if progress is not None:
            progress(len(results), count)

    if jobs == 1:
        for number in range(count):
            keep(trial(number))
        return results
    # Spawned, not forked: compiled code may own threads, which a fork would leave in the lurch.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for result in pool.map(trial, range(count), chunksize=max(1, count // (8 * jobs))):
            keep(result)
    return results
