"""``svmemory --store URL``: the commands on a store, and how the command line finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ..errors import InputError
from . import PENDING
from .build import EncryptFlag, build
from .files import open_memory
from .options import JsonFlag
from .output import print_facts, print_json
from .store_change import add, evict, expire, forget, prune, save
from .store_look import digest, info, listing, log, plot, read, receipts, score
from .target import MemoryName, StoreTarget, StoreUrl, VaultUrl, in_words, need_target

app = typer.Typer(
    help="Memories in a store: an SQLite file or a PostgreSQL database.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(epilog="`svmemory --store URL --name MEMORY COMMAND` is the same.")
def _root(
    context: typer.Context, store: StoreUrl = None, name: MemoryName = None, vault: VaultUrl = None
) -> None:
    """Memories in a store: transactions, many processes, and no bytes of what was forgotten."""
    if store is not None:
        context.obj = StoreTarget(store, name, vault)


def put(
    context: typer.Context,
    memory: Annotated[Path, typer.Argument(metavar="FILE", help="A memory file (.svm).")],
    encrypt: EncryptFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Put a memory file into a store, under a new name. The file stays as it is."""
    target = need_target(context)
    name = target.need_name()
    opened = open_memory(memory)
    with target.store(create=True) as store:
        stored = store.put(name, opened.memory, encrypted=encrypt)
        document = {"memory": name, "rows": len(stored), "encrypted": stored.encrypted}
    if as_json:
        print_json(document)
    else:
        print_facts(document)


def drop(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Really delete all rows.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Delete a memory with all its rows; its receipts and its log stay in the database."""
    target = need_target(context)
    name = target.need_name()
    if not yes:
        raise InputError(f"this deletes all rows of {name!r}; give --yes if you mean it")
    with target.store() as store:
        receipt = store.drop(name)
    shredded = None if receipt.shredded is None else receipt.shredded.message
    purged = in_words(receipt.purged)
    document: dict[str, Any] = {
        **receipt.kept(),
        "memory": name,
        "purged": purged,
        "shredded": shredded,
    }
    if as_json:
        print_json(document)
    else:
        keys = {} if shredded is None else {"keys": shredded}
        print_facts({"receipt": receipt.message, "bytes purged": purged, **keys})
    if receipt.pending:
        raise typer.Exit(PENDING)


def purge(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Rewrite the store's files if a deletion could not: exit code 3 if it still cannot be done."""
    with need_target(context).store() as store:
        why = store.purge()
    if as_json:
        print_json({"purged": why or "done"})
    else:
        print_facts({"bytes purged": why or "done"})
    if why is not None:
        raise typer.Exit(PENDING)


class Encrypting(TyperCommand):
    """A command with --encrypt: that it needs --vault is said before a store is made."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        if ctx.params.get("encrypt") and need_target(ctx).vault is None:
            raise InputError("--encrypt needs --vault URL, where the keys of the rows will be")
        return super().invoke(ctx)


app.command(cls=Encrypting)(build)
app.command(cls=Encrypting)(put)
for command in (
    add, info, digest, read, score, plot, forget, prune, expire, evict, receipts, log, save, drop,
    purge,
):  # fmt: skip
    app.command()(command)
app.command("list")(listing)


class StoreAware(TyperGroup):
    """Commands on files; with ``--store``, those on a store."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name."""
        if ctx.params.get("store") is None or cmd_name == "store":
            return super().get_command(ctx, cmd_name)
        group = get_command(app)
        return group.commands.get(cmd_name) if isinstance(group, TyperGroup) else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words on the command line mean."""
        known = super().get_command(ctx, args[0]) is not None
        if known and self.get_command(ctx, args[0]) is None:
            raise InputError(
                f"{args[0]} does not take a store: leave out --store (`save` writes a memory of a"
                " store to a file, `log` its certificates)"
            )
        return super().resolve_command(ctx, args)
