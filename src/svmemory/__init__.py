"""svmemory: a support-vector memory that can say what it keeps and forget to the byte."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from . import stale as stale  # first: it acts before compiled code is loaded
from .errors import (
    ContractError,
    ConvergenceError,
    DuplicateIdError,
    EmptyMemoryError,
    EvidenceError,
    FileFormatError,
    InputError,
    SVMemoryError,
    UnknownIdError,
)

if TYPE_CHECKING:
    from .contract import Contract
    from .engine import Stats
    from .estimator import OneClassSVDD
    from .memory import SupportVectorMemory
    from .results import (
        Exactness,
        ForgetResult,
        KKTReport,
        Partition,
        PlanResult,
        PruneResult,
    )

__version__ = "0.1.0"

__all__ = [
    "Contract",
    "ContractError",
    "ConvergenceError",
    "DuplicateIdError",
    "EmptyMemoryError",
    "EvidenceError",
    "Exactness",
    "FileFormatError",
    "ForgetResult",
    "InputError",
    "KKTReport",
    "OneClassSVDD",
    "Partition",
    "PlanResult",
    "PruneResult",
    "SVMemoryError",
    "Stats",
    "SupportVectorMemory",
    "UnknownIdError",
    "__version__",
]


_HOMES = {
    "Contract": "contract",
    "Exactness": "results",
    "ForgetResult": "results",
    "KKTReport": "results",
    "OneClassSVDD": "estimator",
    "Partition": "results",
    "PlanResult": "results",
    "PruneResult": "results",
    "Stats": "engine",
    "SupportVectorMemory": "memory",
}


def __getattr__(name: str) -> object:
    # Loaded when first used: the command line starts at once, and the estimator's scikit-learn is
    # only for those who use it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
