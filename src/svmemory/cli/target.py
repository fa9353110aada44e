"""Which store and which memory in it a command is about: ``svmemory --store URL --name MEMORY``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .files import OpenedMemory

if TYPE_CHECKING:
    from ..store import Store, StoredMemory

StoreUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Work on a store, an SQLite file or a database URL, and not on memory files.",
        show_default=False,
    ),
]
MemoryName = Annotated[
    str | None,
    typer.Option(metavar="MEMORY", help="The memory in the store.", show_default=False),
]
VaultUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Where the keys of encrypted memories are.", show_default=False
    ),
]


@dataclass(frozen=True)
class StoreTarget:
    """A store, and perhaps a memory in it."""

    url: str
    name: str | None
    vault: str | None

    def need_name(self) -> str:
        """The memory's name; InputError if none was given."""
        if self.name is None:
            raise InputError("give the memory in the store: --store URL --name MEMORY")
        return self.name

    @contextmanager
    def store(self, create: bool = False) -> Iterator[Store]:
        """The store, open inside the block."""
        from ..store import Store  # SQLAlchemy takes a while to load

        with Store(self.url, vault=self.vault, create=create) as store:
            yield store

    @contextmanager
    def memory(self) -> Iterator[StoredMemory]:
        """The memory, its store open inside the block."""
        name = self.need_name()
        with self.store() as store:
            yield store.open(name)

    @contextmanager
    def opened(self) -> Iterator[OpenedMemory]:
        """A copy of the memory in the form that commands on files work with."""
        with self.memory() as memory:
            yield as_opened(memory)


def as_opened(memory: StoredMemory) -> OpenedMemory:
    """A copy of a stored memory in the state that its file would have, its name for a path."""
    copy = memory.snapshot()
    if copy.contract.ridge > 0:
        copy.canonicalise()
    return OpenedMemory(Path(memory.name), copy, (0, 0, 0))


def target_of(context: typer.Context) -> StoreTarget | None:
    """The store that the command line names, if any."""
    return context.obj if isinstance(context.obj, StoreTarget) else None


def need_target(context: typer.Context) -> StoreTarget:
    """The store that the command line names."""
    target = target_of(context)
    if target is None:
        raise InputError("give a store: svmemory --store URL [--name MEMORY] COMMAND")
    return target
