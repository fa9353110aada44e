"""``svmemory keys``: make the keys that sign certificates, and show whose a public key is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import JsonFlag
from .output import print_facts, print_json

app = typer.Typer(help="Keys that sign certificates.", no_args_is_help=True)


@app.command()
def new(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Where the secret key goes; PATH.pub beside it.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Make a new key: PATH signs and is for its owner only, PATH.pub checks and is for everybody.

    Give PATH.pub, or its fingerprint, to whoever must trust your certificates, by a way of its own.
    """
    from ..certificate.keys import SecretKey

    key = SecretKey.generate()
    public = key.save(path)
    _show(path, public, key.public.fingerprint, as_json)


@app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="KEY", help="A public key (.pub).")],
    as_json: JsonFlag = False,
) -> None:
    """Print the fingerprint of a public key, to compare with what its owner says."""
    from ..certificate.keys import PublicKey

    _show(None, path, PublicKey.load(path).fingerprint, as_json)


def _show(secret: Path | None, public: Path, fingerprint: str, as_json: bool) -> None:
    document = {} if secret is None else {"secret": str(secret)}
    document |= {"public": str(public), "fingerprint": fingerprint}
    if as_json:
        print_json(document)
    else:
        print_facts(document)
