"""Which store and which memory in it a command is about: ``svmemory --store URL --name MEMORY``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, SVMemoryError
from ..tables import Table
from .files import OpenedMemory
from .output import note

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
    quiet: bool = False

    def need_name(self) -> str:
        """The memory's name; InputError if none was given."""
        if self.name is None:
            raise InputError("give the memory in the store: --store URL --name MEMORY")
        return self.name

    @contextmanager
    def store(self, create: bool = False) -> Iterator[Store]:
        """The store, open inside the block."""
        from ..store import Store  # SQLAlchemy takes a while to load

        def waiting(sentence: str) -> None:
            note(sentence, self.quiet)

        with (
            in_options(),
            Store(self.url, vault=self.vault, create=create, waiting=waiting) as store,
        ):
            yield store

    @contextmanager
    def memory(self) -> Iterator[StoredMemory]:
        """The memory, its store open inside the block."""
        name = self.need_name()
        with self.store() as store:
            if name not in store.names and store.dropped(name):
                raise InputError(
                    f"memory {name!r} was dropped from this store; `receipts --dropped` and"
                    " `log --dropped` show what is left of it"
                )
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
    options = context.params
    return replace(target, quiet=bool(options.get("quiet") or options.get("as_json")))


@contextmanager
def in_options() -> Iterator[None]:
    """Raise errors of the store in the words of the command line."""
    try:
        yield
    except SVMemoryError as error:
        message = in_words(str(error))
        if message == str(error):
            raise
        raise type(error)(message) from None


_OPTIONS = {
    "open the store with vault=": "give its vault with --vault URL",
    "readmit=True": "--readmit",
    "Store(url, vault=...)": "--vault URL",
}


def in_words(message: str) -> str:
    """A sentence of the store with the command line's options in place of Python's."""
    for python, option in _OPTIONS.items():
        message = message.replace(python, option)
    return message


def times_of(table: Table, column: str, id_column: str | None) -> list[str]:
    """A column of times as text; InputError names the cell that is empty or no time."""
    from ..store.times import as_time

    result = []
    for i, text in enumerate(table.labels(column)):
        place = table.place(i, column, id_column)
        if text is None:
            raise InputError(f"{place}: empty; a time is needed")
        as_time(text, f"{place}: it")
        result.append(text)
    return result
