"""Settings and fixtures that every test file shares."""

from __future__ import annotations

import os
from pathlib import Path

# Where tests run side by side, libraries with threads of their own wait for one another: a step of
# milliseconds takes seconds. Read when such a library loads, so this stands before all imports.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# The same examples in every run, and no time limit on one: the first call of a compiled function
# takes seconds, and a suite that fails once in a hundred runs teaches people to rerun it.
settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

BESIDE_THE_CLONE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of real data sets (docs/how-to/data.md says where to get them)."""
    folder = Path(os.environ.get("SVMEMORY_DATA") or BESIDE_THE_CLONE)
    if not folder.is_dir():
        pytest.skip("no data sets: set SVMEMORY_DATA to a folder of them (docs/how-to/data.md)")
    return folder
