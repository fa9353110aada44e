"""One transaction on a memory: in the tables and in RAM, or in neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection

from ..errors import SVMemoryError
from ..memory import SupportVectorMemory
from . import records
from .content import Content, delete_unreadable
from .records import Record
from .results import Receipt
from .view import StoredView

Result = TypeVar("Result")


@dataclass
class Change:
    """A transaction under way.

    Attributes
    ----------
    connection : Connection
    record : Record
        The memory's line, locked; replaced when it is advanced.
    content : Content
        Its rows, as they were committed last.
    mutated : bool
        Whether the memory in RAM is ahead of the tables.
    """

    connection: Connection
    record: Record
    content: Content
    mutated: bool = False

    @property
    def memory(self) -> SupportVectorMemory:
        """The memory in RAM."""
        return self.content.memory

    def mutate(self, action: Callable[[], Result]) -> Result:
        """Change the memory in RAM; what fails with one of our errors has changed nothing."""
        before, self.mutated = self.mutated, True  # first: an interrupt may come at any time
        try:
            return action()
        except SVMemoryError:
            self.mutated = before
            raise

    def advance(self, rows: int = 0, next_id: int = 0) -> None:
        """Count the change, and the row numbers and ids that it used."""
        self.record = records.advance(self.connection, self.record, len(self.memory), rows, next_id)


class Changing(StoredView):
    """A memory in a store that can be changed."""

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Change rows inside the block; one writer at a time, committed at its end."""
        with self._lock:
            change: Change | None = None
            try:
                with self._store.database.writing() as connection:
                    content = self._refreshed(connection, lock=True)
                    change = Change(connection, self._record, content)
                    yield change
                self._record = change.record
            except BaseException:
                # Whether or not a commit that failed was one: the tables are asked next time.
                if change is None or change.mutated:
                    self._content = None
                raise

    @contextmanager
    def looking(self) -> Iterator[Change]:
        """As :meth:`changing`, for looks at what a change would do; nothing may be changed."""
        with self._lock, self._store.database.reading() as connection:
            content = self._refreshed(connection, lock=False)
            yield Change(connection, self._record, content)

    def repair(self) -> None:
        """Leave out rows that nobody can read any more, and solve afresh.

        A backup from before a deletion holds rows whose keys were destroyed since.
        """
        with self._lock, self._store.database.writing() as connection:
            record = records.again(connection, self._record, lock=True)
            self._content = None
            self._sealer(record)  # another vault would make every row unreadable
            lost = delete_unreadable(connection, record, self._store.vault)
            content = self._load(connection, record, solve=True)
            content.save_support(connection, record)
            records.advance(connection, record, len(content.memory))
            number = records.next_receipt(connection, record.memory)
            message = f"solved afresh; {lost} rows without a key left out"
            receipt = Receipt("repaired", self.name, number, records.now(), message)
            receipt = replace(receipt, rows_left=len(content.memory))
            records.keep_receipt(connection, record.memory, receipt)
