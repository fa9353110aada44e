"""Connections to a store's database: transactions, errors as sentences, and purging.

What differs between SQLite and PostgreSQL is in :mod:`svmemory.store.sqlite` and
:mod:`svmemory.store.postgres`; nothing else in this package knows which one it talks to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from ..errors import InputError, StoreError
from . import postgres, sqlite

Target = str | os.PathLike[str] | Engine
Waiting = Callable[[str], None]  # told, once, what a purge waits for


class Server(Protocol):
    """What a kind of database must offer; the modules ``sqlite`` and ``postgres`` do."""

    def prepare(self, engine: Engine) -> None:
        """Set up every connection that ``engine`` will open."""

    def read_options(self) -> dict[str, object]:
        """Execution options of a transaction that sees one moment."""

    def write_options(self) -> dict[str, object]:
        """Execution options of a transaction that will write."""

    def lock_all(self, connection: Connection) -> None:
        """Let nobody else make or change tables until this transaction ends."""

    def exists(self) -> bool:
        """Whether there is a database to connect to; a server is taken to have it."""

    def purge(self, engine: Engine, waiting: Waiting | None) -> str | None:
        """Take what deleted rows left out of the files; why it could not be done, or None."""

    def explain(self, message: str) -> str:
        """A driver's message as a sentence for people."""


class Database:
    """A database behind an SQLAlchemy engine.

    Parameters
    ----------
    target : str, path or Engine
        An SQLAlchemy URL, the path of an SQLite file, or an engine of your own. On your own engine,
        the settings that every connection needs are made as well.
    create : bool
        Whether an SQLite file may be made where there is none.
    what : str
        What it is for, in messages: "store" or "vault".
    """

    def __init__(self, target: Target, create: bool, what: str = "store") -> None:
        self._own = not isinstance(target, Engine)
        url = target.url if isinstance(target, Engine) else _url(target, what)
        self.name = url.render_as_string(hide_password=True)
        kind = url.get_backend_name()
        if kind not in ("sqlite", "postgresql"):
            raise StoreError(f"{self.name}: a {what} is an SQLite file or a PostgreSQL database")
        self.server: Server = (
            sqlite.SQLite(url, create, what) if kind == "sqlite" else postgres.Postgres()
        )
        self.engine = target if isinstance(target, Engine) else _engine(url, self.name)
        self._closed = False
        self.server.prepare(self.engine)

    def __repr__(self) -> str:
        return f"Database({self.name!r})"

    def close(self) -> None:
        """Close every connection, unless the engine is the caller's."""
        self._closed = True
        if self._own:
            self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction in which nothing changes, whatever others do."""
        self._need_open()
        with self.translated(), self.engine.connect() as connection:
            connection = connection.execution_options(**self.server.read_options())
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or leaves no trace."""
        self._need_open()
        with self.translated(), self.engine.connect() as connection:
            connection = connection.execution_options(**self.server.write_options())
            with connection.begin():
                yield connection

    def purge(self, waiting: Waiting | None = None) -> str | None:
        """Take what deleted rows left out of the files; why it could not be done, or None."""
        try:
            with self.translated():
                return self.server.purge(self.engine, waiting)
        except StoreError as error:
            return str(error)

    def _need_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self.name}: this store was closed")

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise what the driver raises as a StoreError of one sentence."""
        try:
            yield
        except DBAPIError as error:
            cause = " ".join(str(error.orig).split())
            raise StoreError(f"{self.name}: {self.server.explain(cause)}") from error
        except SQLAlchemyError as error:
            raise StoreError(f"{self.name}: {' '.join(str(error).split())}") from error


def _url(target: str | os.PathLike[str], what: str) -> URL:
    """URL of a target; what has no scheme is the path of an SQLite file."""
    text = os.fspath(target)
    if not text:
        raise InputError(f"a {what} needs a URL or a path")
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
        if url.drivername in ("postgres", "postgresql"):  # SQLAlchemy would look for psycopg2
            url = url.set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"{text.split('://')[0]}://...: not a database URL ({error})") from None
    return url


def _engine(url: URL, name: str) -> Engine:
    try:
        # A server may have closed a connection that waited for long: ask before each use.
        return create_engine(url, pool_pre_ping=True)
    except (ImportError, NoSuchModuleError, ArgumentError) as error:
        fix = "; pip install 'svmemory[postgres]'" if "postgres" in url.drivername else ""
        raise StoreError(f"{name}: no driver for this database ({error}){fix}") from None
