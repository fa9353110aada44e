"""The engine: the maintained active set and its canonical form."""

from .dense import canonical
from .engine import Engine
from .stats import Stats

__all__ = ["Engine", "Stats", "canonical"]
