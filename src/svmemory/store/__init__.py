"""A durable memory: transactions, several processes, and no bytes of what was forgotten.

Needs SQLAlchemy and cryptography; ``import svmemory`` loads neither.
"""

from ..preview import Preview
from .results import Receipt
from .store import Store
from .stored import StoredMemory
from .vault import Vault

__all__ = ["Preview", "Receipt", "Store", "StoredMemory", "Vault"]
