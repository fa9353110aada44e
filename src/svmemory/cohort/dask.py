"""Joblib's Dask backend, completed for workers that die. Imported only where Dask is in use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib._dask import DaskDistributedBackend

from .work import perform

Callback = Callable[[Any], None]

PATIENCE = 60.0
"""Seconds without any worker after which a cohort gives up."""


class PatientDaskBackend(DaskDistributedBackend):  # type: ignore[misc]
    """Dask backend in which every task ends, whatever becomes of the workers.

    Dask runs the tasks of a dead worker elsewhere. A batch of which several workers died (its
    setting ``allowed-failures``) it gives up with an exception, of which joblib (1.6) never learns,
    so that it would wait forever. Here the exception is the result of the batch, and the other
    batches go on. A cluster that has no worker for a while ends the call.

    Parameters
    ----------
    active : DaskDistributedBackend
        Joblib's own, whose client and settings are used.
    """

    def __init__(self, active: DaskDistributedBackend) -> None:
        super().__init__(
            client=active.client,
            wait_for_workers_timeout=active.wait_for_workers_timeout,
            **active.submit_kwargs,
        )
        self._call = object()

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Cores of the cluster, but at least 2.

        joblib does a single job in the calling process: there a group that kills its worker would
        kill the caller.
        """
        return max(2, int(super().effective_n_jobs(n_jobs)))

    def start_call(self) -> None:
        """Begin to collect results, and to watch the workers."""
        super().start_call()
        self._call = object()
        self.client.loop.add_callback(self._watch, self._call)

    def submit(self, func: Any, callback: Callback) -> Future[Any]:
        """Send a batch to the cluster."""
        future: Future[Any] = super().submit(func, callback)

        def see(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                return
            if all(call is perform for call, _, _ in func.items):
                callback([(task.index, error) for _, (_, task, _), _ in func.items])
            else:
                callback(error)  # joblib raises it in the calling thread

        future.add_done_callback(see)
        return future

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel what is on the cluster; joblib alone would let it run on."""
        unfinished = list(self._results)
        super().abort_everything(ensure_ready)
        self.client.cancel(unfinished)
        self._results.clear()
        self._callbacks.clear()

    async def _watch(self, call: object) -> None:
        last = time.monotonic()
        while self._continue and self._call is call:
            await asyncio.sleep(PATIENCE / 20)
            try:
                cores = await self.client.scheduler.ncores()
            except (OSError, RuntimeError):  # the scheduler cannot be reached
                cores = {}
            if cores:
                last = time.monotonic()
            elif time.monotonic() - last > PATIENCE:
                error = TimeoutError(f"the cluster had no worker for {PATIENCE:g} seconds")
                for callback in list(self._callbacks.values()):
                    callback(error)
                return
