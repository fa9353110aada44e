"""The joblib backend that is active where a cohort is asked for."""

from __future__ import annotations

from typing import Any

from joblib.parallel import get_active_backend


def active_backend() -> tuple[Any, int]:
    """Backend and number of jobs that :func:`joblib.parallel_config` has set, or the default ones.

    Taken when a cohort is asked for: its results may be read after the context has ended.
    """
    backend, n_jobs = get_active_backend()
    if type(backend).__module__ == "joblib._dask":  # told by name: importing it imports Dask
        from .dask import PatientDaskBackend

        backend = PatientDaskBackend(backend)
    return backend, n_jobs
