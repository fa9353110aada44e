"""Certificates of deletions in a store, as files: the log itself stays in the store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import InputError
from .certify import UNFINISHED
from .files import check_free

if TYPE_CHECKING:
    from ..certificate.signer import Signer
    from ..store import Receipt

Publish = Callable[[bytes | None, bytes | None], None]


@dataclass(frozen=True)
class Evidence:
    """The certificate that the options ask for; ``path`` is None where they ask for none."""

    path: Path | None
    key: Path | None
    issuer: str | None
    check: Literal["now", "later"]
    opening: Path | None
    request: str | None
    ground: str | None
    authoriser: str | None

    def check_options(self, force: bool) -> None:
        """Raise ``InputError`` for options that do not fit together, before anything is done."""
        rest = (self.key, self.issuer, self.opening, self.ground, self.authoriser)
        if self.path is None:
            if any(option is not None for option in rest) or self.check != "now":
                raise InputError("options about a certificate need --certificate OUT")
            return
        if self.key is None:
            raise InputError("--certificate needs --signer KEY; `svmemory keys new` makes one")
        files = [path for path in (self.path, self.opening, self.key) if path is not None]
        if len({os.path.realpath(path) for path in files}) < len(files):
            raise InputError("key, certificate and opening must be different files")
        for path in (self.path, self.opening):
            if path is not None:
                check_free(path, force)

    def signer(self) -> Signer | None:
        """Who signs, or None."""
        if self.path is None or self.key is None:
            return None
        from ..certificate.keys import SecretKey
        from ..certificate.signer import Request, Signer

        key = SecretKey.load(self.key)
        defaults = Request()
        request = Request(
            self.request,
            ground=defaults.ground if self.ground is None else self.ground,
            authoriser=self.authoriser or defaults.authoriser,
        )
        return Signer(
            key,
            f"the holder of {key.public.fingerprint}" if self.issuer is None else self.issuer,
            check=self.check,
            request=request,
        )

    @contextmanager
    def places(self) -> Iterator[Publish]:
        """Make sure, before anything is deleted, that the files can be written; yield the writer.

        The certificate is in the store's log as well. The opening is nowhere else.
        """
        made: list[tuple[Path, str]] = []
        try:
            for path in (self.path, self.opening):
                if path is not None:
                    made.append((path, _beside(path)))

            def publish(*contents: bytes | None) -> None:
                for (path, name), data in zip(made, contents, strict=False):
                    if data is not None:
                        Path(name).write_bytes(data)
                        if path == self.path:
                            os.chmod(name, 0o644)
                        os.replace(name, os.path.realpath(path))

            yield publish
        finally:
            for _, name in made:
                Path(name).unlink(missing_ok=True)

    def files(self, receipt: Receipt) -> dict[str, str | None]:
        """Files that were asked for; None where there was nothing to certify."""
        asked = {"certificate": self.path, "opening": self.opening}
        none = receipt.certificate is None
        return {
            name: None if none else str(path) for name, path in asked.items() if path is not None
        }


def _beside(path: Path) -> str:
    """An empty file, for its owner only, where ``path`` will be."""
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(
            prefix=f"{UNFINISHED}{target.name}.", suffix=".tmp", dir=target.parent
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
    os.close(handle)
    return name
