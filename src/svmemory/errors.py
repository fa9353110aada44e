"""Every error svmemory raises on purpose, so that callers can catch one family.

Each class also inherits from the built-in exception that NumPy and scikit-learn users expect, so
``except ValueError`` around bad input keeps working.
"""

from __future__ import annotations


class SVMemoryError(Exception):
    """Base of all errors raised by svmemory."""

    def __str__(self) -> str:
        # KeyError would print the repr of its argument: a sentence in quotes.
        return str(self.args[0]) if self.args else ""


class ContractError(SVMemoryError, ValueError):
    """A contract number (gamma, C, nu, ridge) is unusable."""


class InputError(SVMemoryError, ValueError):
    """Rows that cannot be held: wrong shape or type, NaN or infinity, a width that differs."""


class DuplicateIdError(InputError):
    """An id is given twice, or is already held."""


class UnknownIdError(SVMemoryError, KeyError):
    """An id or a subject that the memory does not hold."""


class EmptyMemoryError(SVMemoryError, LookupError):
    """A memory without rows (or without values) was asked to read or score."""


class FileFormatError(SVMemoryError, ValueError):
    """A file is not an svmemory memory, is damaged, or breaks an invariant."""


class ConvergenceError(SVMemoryError, RuntimeError):
    """A solver could not reach the optimum it must reach; the memory is unchanged."""


class EvidenceError(SVMemoryError, ValueError):
    """A certificate, a log, a key or a state that is no evidence, and why.

    Attributes
    ----------
    layer : str
        What failed: "encoding", "signature", "key", "chain", "digest" or "optimality".
    """

    def __init__(self, message: str, layer: str) -> None:
        super().__init__(message, layer)
        self.layer = layer


class StoreError(SVMemoryError, RuntimeError):
    """A store cannot be opened, read or written; what it holds is what it was."""


class ErasedIdError(InputError):
    """An id was erased from this store; ``readmit=True`` lets it in again."""


class PreviewError(InputError):
    """What would be deleted is no longer what a preview showed."""
