"""All commands, mounted on one Typer application."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from ..audit.cli import app as audit_app
from ..errors import InputError
from .build import build
from .cohort import cohort
from .demo import demo
from .forget import forget, prune
from .info import digest, info
from .keys import app as keys_app
from .log import app as log_app
from .plot import plot
from .read import read, score
from .reproduce import reproduce
from .scan import scan_command
from .store import StoreAware
from .store import app as store_app
from .target import MemoryName, StoreTarget, StoreUrl, VaultUrl
from .train import train
from .verify import verify

app = typer.Typer(
    cls=StoreAware,
    help="A support-vector memory that forgets a record to the byte.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a bug's traceback should not frame and cut lines
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"svmemory {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 a check failed, 2 bad input, 3 pending, or nothing held."
)
def _root(
    context: typer.Context,
    store: StoreUrl = None,
    name: MemoryName = None,
    vault: VaultUrl = None,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """A support-vector memory that forgets a record to the byte.

    With --store, commands are about a memory in a store: see `svmemory store --help`.
    """
    if store is not None:
        context.obj = StoreTarget(store, name, vault)
    elif name is not None or vault is not None:
        raise InputError("--name and --vault need --store URL")


for command in (demo, build, cohort, info, read, score, forget, prune, verify, digest, plot, train):
    app.command()(command)
app.command()(reproduce)
app.command("scan")(scan_command)
app.add_typer(audit_app, name="audit")
app.add_typer(keys_app, name="keys")
app.add_typer(log_app, name="log")
app.add_typer(store_app, name="store")
