"""What a study ran with: versions of the libraries, and the machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("svmemory", "numpy", "numba", "scipy", "scikit-learn", "torch", "polars", "matplotlib")
NUMERICAL = PACKAGES[:6]
"""Those whose version may change a number."""


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Installed versions; None for what is not there."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def environment() -> dict[str, Any]:
    """Versions and machine, for a reader who wants to repeat it."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **versions(),
    }


def machine() -> dict[str, Any]:
    """What a measured time depends on beside the versions."""
    found = environment()
    return {name: found[name] for name in ("system", "machine", "cores")} | {
        "processor": _processor()
    }


def _processor() -> str:
    """Its name; on Linux the platform module does not know it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
