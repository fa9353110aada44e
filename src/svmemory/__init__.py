"""svmemory: a support-vector memory that can say what it keeps and forget to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import stale as stale  # first: it acts before compiled code is loaded
from .contract import Contract
from .engine import Stats
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
from .memory import SupportVectorMemory
from .results import (
    Exactness,
    ForgetResult,
    KKTReport,
    Partition,
    PlanResult,
    PruneResult,
)

if TYPE_CHECKING:
    from .estimator import OneClassSVDD

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


def __getattr__(name: str) -> object:
    # The estimator brings in scikit-learn: only for those who use it.
    if name == "OneClassSVDD":
        from .estimator import OneClassSVDD

        return OneClassSVDD
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
