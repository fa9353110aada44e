"""Tasks on their way to workers and back."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .group import Task
from .result import CohortResult
from .work import opened


class Source:
    """Tasks, one after another; remembers how many were read, and an error in reading them.

    joblib reads the source from threads of its own, where an error in it would pass for an error of
    the backend. So it ends the source, and is raised once everything before it has been delivered.
    """

    def __init__(self, tasks: Iterator[Task]) -> None:
        self._tasks = tasks
        self.count = 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        try:
            task = next(self._tasks)
        except StopIteration:
            raise
        except Exception as error:
            self.error = error
            raise StopIteration from None
        self.count += 1
        return task


@dataclass(frozen=True)
class Landing:
    """How a flight ended.

    Attributes
    ----------
    stranded : list of Task
        Taken, and not delivered when the call failed.
    suspects : list of (Task, Exception)
        What the backend gave up after several attempts, and why.
    failure : Exception or None
        What ended the call, unless the source did.
    """

    stranded: list[Task]
    suspects: list[tuple[Task, Exception]]
    failure: Exception | None


class Flight:
    """Tasks taken from a source and not delivered yet.

    Closing under the lock of taking makes sure that no late thread of a call that has failed takes
    a task which then nobody delivers.
    """

    def __init__(self, source: Iterator[Task]) -> None:
        self._source = source
        self._tasks: dict[int, Task] = {}
        self._lock = threading.Lock()
        self._aside: list[tuple[Task, Exception]] = []
        self._open = True

    def take(self) -> Iterator[Task]:
        """The source's tasks, until closed."""
        while True:
            with self._lock:
                task = next(self._source, None) if self._open else None
                if task is None:
                    return
                self._tasks[task.index] = task
            yield task

    def landed(self, outcomes: Iterable[tuple[int, bytes | Exception]]) -> Iterator[CohortResult]:
        """The results among the outcomes; a task whose outcome is an exception is set aside."""
        for index, outcome in outcomes:
            task = self._tasks.pop(index)
            if isinstance(outcome, bytes):
                yield opened(outcome, task)
            else:
                self._aside.append((task, outcome))

    def close(self, failure: Exception | None) -> Landing:
        """Take no more tasks."""
        with self._lock:
            self._open = False
            return Landing(list(self._tasks.values()), self._aside, failure)
