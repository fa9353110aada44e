"""The engine: the maintained active set and its canonical form."""

from .dense import canonical
from .engine import Engine, Stats

__all__ = ["Engine", "Stats", "canonical"]
