"""Run tasks through joblib and deliver a result for every one, even when workers are killed.

When a worker dies, joblib ends the whole call, and nobody knows which of the tasks in flight it was
working on. So these are run again, one a worker, while the others wait. If that ends in the same
way, at most as many tasks as there are workers are suspect, and each of them is run alone: then a
death has one culprit. It is tried again a bounded number of times, then reported as lost.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from joblib import Parallel, delayed

from .flight import Flight, Landing
from .group import Task
from .result import CohortResult, lost
from .work import packed, perform, ready

Results = Generator[CohortResult, None, None]

_WAVE = 100  # tasks a worker in one call of a backend that cannot stream its results
_MOST_FRUITLESS = 3  # failures of the backend that no task can have caused


class Delivery:
    """One run over a cohort.

    Parameters
    ----------
    work : bytes
        A packed :class:`svmemory.cohort.work.Work`.
    backend : joblib backend
    n_jobs : int
    retries : int
        How often a task that was alone when its worker died is tried again.
    """

    def __init__(self, work: bytes, backend: Any, n_jobs: int, retries: int) -> None:
        self._work = work
        self._backend = backend
        self._n_jobs = n_jobs
        self._retries = retries
        self._out_of_order: Exception | None = None  # why no worker can be had any more
        self._fruitless = 0

    @property
    def in_this_process(self) -> bool:
        """Whether there are no worker processes."""
        if getattr(self._backend, "supports_sharedmem", False):  # threads
            return True
        return bool(self._backend.effective_n_jobs(self._n_jobs) == 1)

    def check(self) -> None:
        """Have one worker open the work, and raise whatever prevents it."""
        self._parallel("list", careful=True)([delayed(ready)(self._work)])

    def run(self, tasks: Iterator[Task]) -> Results:
        """A result for every task, in order of completion."""
        while True:
            end = yield from self._stream(tasks, careful=False)
            for task, _ in end.suspects:
                yield from self._alone(task)
            if end.failure is None:
                return
            yield from self._carefully(iter(end.stranded))
            if not end.stranded:
                self._note_fruitless(end.failure)

    def _carefully(self, tasks: Iterator[Task]) -> Results:
        while True:
            end = yield from self._stream(tasks, careful=True)
            for task in (*(task for task, _ in end.suspects), *end.stranded):
                yield from self._alone(task)
            if end.failure is None:
                return
            if not end.stranded:
                self._note_fruitless(end.failure)

    def _alone(self, task: Task) -> Results:
        failure: Exception | None = None
        for _ in range(1 + self._retries):
            source = iter([task])
            end = yield from self._stream(source, careful=True)
            if end.suspects:  # the backend has tried it several times already
                failure = end.suspects[0][1]
                break
            failure = end.failure
            if failure is None or not (end.stranded or [*source]):
                return  # its result is out
        if failure is not None:
            yield lost(task, failure)
            self._check_order()

    def _note_fruitless(self, failure: Exception) -> None:
        """After a failure with no task in flight."""
        self._fruitless += 1
        if self._fruitless > _MOST_FRUITLESS:
            self._out_of_order = failure
        else:
            self._check_order()

    def _check_order(self) -> None:
        """Find out whether there are workers left."""
        try:
            self.check()
        except Exception as error:
            self._out_of_order = error

    def _stream(
        self, tasks: Iterator[Task], careful: bool
    ) -> Generator[CohortResult, None, Landing]:
        """Results until the end of the tasks or a failure."""
        if self._out_of_order is not None:
            for task in tasks:
                yield lost(task, self._out_of_order)
            return Landing([], [], None)
        flight = Flight(tasks)
        failure = None
        try:
            yield from self._flow(flight, careful)
        except Exception as error:
            failure = error
        return flight.close(failure)

    def _flow(self, flight: Flight, careful: bool) -> Results:
        calls = (delayed(perform)(self._work, *packed(task)) for task in flight.take())
        if not self._backend.supports_return_generator:
            size = (1 if careful else _WAVE) * self._backend.effective_n_jobs(self._n_jobs)
            while wave := list(islice(calls, size)):
                yield from flight.landed(self._parallel("list", careful)(wave))
            return
        outcomes = self._parallel("generator_unordered", careful)(calls)
        try:
            yield from flight.landed(outcomes)
        finally:
            with warnings.catch_warnings():  # joblib warns of results that nobody waited for
                warnings.simplefilter("ignore")
                outcomes.close()

    def _parallel(self, return_as: str, careful: bool) -> Any:
        """A call to joblib; a careful one has at most one task a worker in flight."""
        return Parallel(
            self._n_jobs,
            self._backend,
            return_as,
            batch_size=1 if careful else "auto",
            pre_dispatch="n_jobs" if careful else "2 * n_jobs",
        )
