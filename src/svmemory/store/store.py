"""A store: many memories in one database, shared by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from ..contract import Contract
from ..errors import InputError, StoreError
from ..inputs import as_label
from ..memory import SupportVectorMemory
from . import cleaning, migrations, records, schema
from .change import Change
from .content import Content, Folder
from .database import Database, Target
from .results import Receipt
from .sealing import Sealer
from .stored import StoredMemory, next_id
from .times import Time, as_times
from .vault import Vault, same_file


class Store:
    """Memories by name in an SQLite file or a PostgreSQL database.

    Parameters
    ----------
    url : str, path or sqlalchemy.Engine
        Path of an SQLite file, an SQLAlchemy URL (``sqlite:///file``,
        ``postgresql://user@host/database``), or an engine of your own.
    vault : Vault, str, path or sqlalchemy.Engine, optional
        Where the keys of encrypted memories are: another database.
    create : bool
        Whether a store may be made where there is none.
    purge : {"now", "later"}
        Every deletion rewrites the store's files, which takes a time that grows with the store;
        or leave that to a call of :meth:`purge`. Receipts say which.
    waiting : callable, optional
        Called with a sentence when a purge has to wait for another program.

    Raises
    ------
    StoreError
        If there is no store, or it cannot be used; nothing was changed.

    Notes
    -----
    Opening finishes what a crash may have left undone: the purge of deleted bytes and the
    destruction of their keys. A store must not be carried into a forked process: open it there.

    Examples
    --------
    >>> import tempfile
    >>> from svmemory import Contract
    >>> from svmemory.store import Store
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store(f"{folder.name}/store.db") as store:
    ...     memory = store.create("demo", Contract.from_cap(gamma=0.5, C=0.5))
    ...     added = memory.add([[0.0], [1.0], [4.0]], ids=["a", "b", "c"])
    ...     print(memory.forget(ids="b").message)
    ...     print(memory.forget(ids="b").kind)
    1 row forgotten, 2 left
    nothing held
    >>> folder.cleanup()
    """

    def __init__(
        self,
        url: Target,
        *,
        vault: Vault | Target | None = None,
        create: bool = True,
        purge: Literal["now", "later"] = "now",
        waiting: Callable[[str], None] | None = None,
    ) -> None:
        if purge not in ("now", "later"):
            raise InputError(f"purge must be 'now' or 'later', got {purge!r}")
        self._purge_now = purge == "now"
        self._waiting = waiting
        self.database = Database(url, create)
        self.vault: Vault | None = None
        try:
            if self.database.server.exists():
                self._found(create)  # or nothing is made, no vault either
            if vault is not None:  # first: a store without its vault is not worth making
                self.vault = vault if isinstance(vault, Vault) else Vault(vault, create)
                if same_file(self.database, self.vault.database):
                    raise InputError("the vault must be another database than the store")
            self._prepare(create)
            cleaning.finish_shreds(self.database, self.vault)
            if self._purge_now:
                self.purge()
        except BaseException:
            self.close()
            raise

    def _prepare(self, create: bool) -> None:
        """Make the tables, or bring them to the present version."""
        if self._found(create) == schema.VERSION:
            return
        with self.database.writing() as connection:
            self.database.server.lock_all(connection)
            version = schema.version_of(connection)  # another process may have been faster
            if version is not None:
                migrations.upgrade(connection, version)
            else:
                schema.create(connection)

    def _found(self, create: bool) -> int | None:
        """Version of the tables that are there; None if a store is to be made."""
        with self.database.reading() as connection:
            version = schema.version_of(connection)
            if version is None:
                schema.require_free(connection)
        if version is None and not create:
            raise StoreError(f"{self.database.name}: a database, but no store")
        return version

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.database.name!r})"

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
        if self.vault is not None:
            self.vault.close()

    @property
    def names(self) -> list[str]:
        """Names of the memories."""
        return [listed.name for listed in self.listing()]

    def listing(self) -> list[records.Listed]:
        """Names, sizes and ages of the memories, by name."""
        with self.database.reading() as connection:
            return records.listing(connection)

    def dropped(self, name: str) -> list[records.Archive]:
        """Receipts and logs of memories of this name that were dropped, oldest first."""
        with self.database.reading() as connection:
            return records.archives(connection, name)

    def create(
        self,
        name: str,
        contract: Contract,
        header: dict[str, Any] | None = None,
        *,
        encrypted: bool = False,
        cold: Folder | None = None,
    ) -> StoredMemory:
        """A new memory without rows.

        Parameters
        ----------
        name : str
            Free in this store; without control characters, blanks at its ends or a "-" first.
        contract : Contract
        header : dict, optional
            Notes, JSON.
        encrypted : bool
            Encrypt rows with a key per subject; the store needs a vault.
        cold : path, optional
            As in :class:`svmemory.SupportVectorMemory`.
        """
        memory = SupportVectorMemory.from_contract(contract)
        memory.header = dict(header or {})
        return self.put(name, memory, encrypted=encrypted, cold=cold)

    def put(
        self,
        name: str,
        memory: SupportVectorMemory,
        *,
        times: Iterable[Time] | None = None,
        encrypted: bool = False,
        cold: Folder | None = None,
    ) -> StoredMemory:
        """A new memory with the rows, contract and header of another, in one transaction.

        Parameters
        ----------
        name, encrypted, cold
            As in :meth:`create`.
        memory : SupportVectorMemory
        times : sequence of datetime or str, optional
            Of its rows, as in :meth:`svmemory.store.stored.StoredMemory.add`.
        """
        label = _new_name(name)
        if encrypted and self.vault is None:
            raise InputError("an encrypted memory needs a vault: Store(url, vault=...)")
        names, n = memory.ids, len(memory)
        moments = as_times(times, n)
        values = memory.values
        try:
            with self.database.writing() as connection:
                vault = self.vault if encrypted else None
                record = records.create(
                    connection,
                    label,
                    memory.contract,
                    memory.header,
                    None if vault is None else vault.token,
                )
                sealer = None if vault is None else Sealer(vault, record.token)
                change = Change(connection, record, Content(memory, sealer))
                if n:
                    keys = memory.keys
                    columns = keys[:, :0] if values is None else values
                    change.content.insert(
                        connection, record, names, memory.subjects, keys, columns, moments
                    )
                    change.advance(rows=n, next_id=next_id(names))
        except StoreError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise InputError(f"the store holds a memory {label!r} already") from None
            raise
        return self.open(label, cold=cold)

    def open(self, name: str, *, cold: Folder | None = None, solve: bool = False) -> StoredMemory:
        """A memory of this store, its rows and weights checked.

        Parameters
        ----------
        name : str
        cold : path, optional
            As in :class:`svmemory.SupportVectorMemory`.
        solve : bool
            Repair: leave rows out whose keys were destroyed (as in a backup from before a
            deletion), and solve afresh instead of using the stored weights.

        Raises
        ------
        InputError
            If there is no such memory.
        StoreError
            If it is damaged, or its keys are not at hand.
        """
        with self.database.reading() as connection:
            record = records.find(connection, as_label(name, "name", 0))
        memory = StoredMemory(self, record, cold)
        if solve:
            memory.repair()
        with memory.current():
            return memory

    def drop(self, name: str) -> Receipt:
        """Delete a memory with all its rows; its receipts and its log stay in the database."""
        with self.database.writing() as connection:
            named = records.find(connection, as_label(name, "name", 0))
            record = records.again(connection, named, lock=True)
            keys = connection.scalars(
                select(schema.rows.c.vault_key)
                .where(schema.rows.c.memory == record.memory, schema.rows.c.vault_key.is_not(None))
                .distinct()
            ).all()
            records.drop(connection, record)
            if keys:
                connection.execute(
                    schema.shreds.insert(),
                    [{"memory": record.memory, "vault_key": bytes(key)} for key in keys],
                )
            number = records.next_receipt(connection, record.memory)
            message = f"memory {name!r} dropped with all its rows"
            receipt = Receipt("dropped", name, number, records.now(), message)
            records.keep_receipt(connection, record.memory, receipt)
            cleaning.count_erasure(connection)
        return self.cleaned(receipt, record.memory)

    def purge(self) -> str | None:
        """Take what deleted rows left out of the store's files, if that has still to be done.

        Every deletion does this; it can fail when another program keeps the store busy, and the
        receipt says so. Returns why it could not be done, or None.
        """
        return cleaning.purge(self.database, self._waiting)

    def cleaned(self, receipt: Receipt, memory: int) -> Receipt:
        """The receipt of a committed deletion, completed by what follows it."""
        shredded, undone = None, []
        try:
            if self.vault is not None:
                shredded = cleaning.shred(self.database, self.vault, memory)
            elif cleaning.unshredded(self.database, memory):
                undone.append("pending: keys are not destroyed: open the store with vault=")
        except StoreError as error:  # the deletion is committed: the next opening does the rest
            undone.append(f"pending: keys are not destroyed: {error}")
        try:
            why = self.purge() if self._purge_now else "pending: left to a later purge"
        except StoreError as error:
            why = f"pending: {error}"
        undone += [why] if why else []
        return replace(receipt, purged="; ".join(undone) or "done", shredded=shredded)


def _new_name(name: object) -> str:
    """A name that can be typed and read on a command line; InputError otherwise."""
    label = as_label(name, "name", 0)
    if label != label.strip() or label.startswith("-") or not label.isprintable():
        raise InputError(
            f"the name {label!r} of a memory must not have blanks at its ends, control characters,"
            " or '-' as its first character"
        )
    return label
