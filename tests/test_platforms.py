"""The same bytes on other processors, thread counts and linear algebra."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from svmemory import SupportVectorMemory
rng = np.random.default_rng(0)
for n, d, C in ((24, 6, 1 / 9.6), (64, 3, 1 / 25), (300, 5, 1 / 120)):
    keys = rng.normal(size=(n, d)).round(2)
    keys[n // 2 :: 5] = keys[0]
    m = SupportVectorMemory(0.25, C)
    m.add(keys, keys)
    m.forget(ids=range(0, n, 7))
    print(m.digest(), m.mu.hex())
"""


def digests(tmp_path, **environment):
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return digests(tmp_path_factory.mktemp("here"))


@pytest.mark.parametrize(
    "environment",
    [
        {"NUMBA_CPU_NAME": "generic"},
        {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        {"OPENBLAS_CORETYPE": "Prescott"},
    ],
    ids=["generic-cpu", "one-thread", "two-threads", "old-blas-kernels"],
)
def test_same_digests(here, tmp_path, environment):
    if "NUMBA_CPU_NAME" in environment:
        environment = {**environment, "NUMBA_CACHE_DIR": str(tmp_path)}  # compile anew
    assert digests(tmp_path, **environment) == here
    assert here.count("\n") == 3
