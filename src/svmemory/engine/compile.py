"""How the engine's internal functions are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

inner: Any = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
"""For functions that only compiled code calls: without entry points they compile faster."""
