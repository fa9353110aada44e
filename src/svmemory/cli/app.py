"""All commands, mounted on one Typer application."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from ..audit.cli import app as audit_app
from .build import build
from .cohort import cohort
from .demo import demo
from .forget import forget, prune
from .info import digest, info
from .plot import plot
from .read import read, score

app = typer.Typer(
    help="A support-vector memory that forgets a record to the byte.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a bug's traceback should not frame and cut lines
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"svmemory {__version__}")
        raise typer.Exit


@app.callback(epilog="Exit codes: 0 done, 1 a check failed, 2 bad input.")
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """A support-vector memory that forgets a record to the byte."""


for command in (demo, build, cohort, info, read, score, forget, prune, digest, plot):
    app.command()(command)
app.add_typer(audit_app, name="audit")
