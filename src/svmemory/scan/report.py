"""What a byte scan found, and what that shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .files import Skipped

Verdict = Literal["found", "absent", "not shown"]


@dataclass(frozen=True)
class Place:
    """Where a needle was found: a file and an offset; no offset in the file's name."""

    file: str
    offset: int | None


@dataclass(frozen=True)
class Found:
    """A part of some rows in one encoding that files hold.

    Attributes
    ----------
    rows : tuple of str
        Ids of the rows that it belongs to.
    part : str
        "key", "raw key" (before it was scaled), "value", "id" or "subject".
    encoding : str
        Such as "float32 big-endian", or "base64 of float32 big-endian".
    occurrences : int
        Of the whole needle, or, where it is long, of its pieces.
    pieces, of : int
        Different pieces that were found, and that were looked for.
    places : tuple of Place
        The first ones.
    """

    rows: tuple[str, ...]
    part: str
    encoding: str
    occurrences: int
    pieces: int
    of: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Omitted:
    """A part in one encoding that was not looked for, and why; ``rows`` are ids."""

    part: str
    encoding: str
    why: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Control:
    """The same search for rows that are still held: it shows what the scan is able to see.

    ``rows`` are the ids that were looked for, ``seen`` what of them was found, ``files`` in how
    many files their numbers were. It shows nothing of the other files.
    """

    rows: tuple[str, ...]
    seen: tuple[Found, ...]
    files: int

    @property
    def shown(self) -> bool:
        """Whether the numbers of a live row were seen; its name alone is not enough."""
        return self.files > 0


@dataclass(frozen=True)
class ScanReport:
    """Outcome of a scan.

    Attributes
    ----------
    path : str
    rows : tuple of str
        Ids of the rows that were looked for.
    needles : int
        Byte strings that were looked for.
    files, bytes : int
        What was read.
    found : tuple of Found
    control : Control or None
        None if no live rows were given.
    omitted : tuple of Omitted
    shared : int
        Byte strings that were not looked for because live rows hold them too.
    unsearchable : tuple of str
        Ids of rows of whose numbers nothing could be looked for.
    skipped : tuple of Skipped
        What was not read below the folder.
    compressed : tuple of (str, str)
        Files, with their format, that were read but may hold rows in a form that is not seen:
        compressed or encrypted.
    """

    path: str
    rows: tuple[str, ...]
    needles: int
    files: int
    bytes: int
    found: tuple[Found, ...]
    control: Control | None
    omitted: tuple[Omitted, ...]
    shared: int
    unsearchable: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    compressed: tuple[tuple[str, str], ...]

    @property
    def doubts(self) -> list[str]:
        """Why finding nothing would not show that nothing is there; empty when it does."""
        doubts = []
        if self.control is None:
            doubts.append(
                "no control: without live rows nothing shows that this scan could have seen a row"
                " here; give the memory that holds them (--live MEMORY)"
            )
        elif not self.control.shown:
            doubts.append(
                f"the control failed: the numbers of live rows ({_some(self.control.rows)}) were"
                " not found either, so this scan could not have seen a row here"
            )
        if self.unsearchable:
            doubts.append(
                f"nothing of the numbers of {_some(self.unsearchable)} could be looked for"
            )
        given = [one.path for one in self.skipped if one.matters and one.given]
        if given:
            doubts.append(
                f"the file that the rows came from lies here and holds them: {_some(given)}; move"
                " it away, or say that it may stay (--keep-row-file)"
            )
        missed = [one.path for one in self.skipped if one.matters and not one.given]
        if missed:
            doubts.append(f"not read: {_some(missed)}")
        if self.compressed:
            doubts.append(
                "compressed or encrypted, so that bytes are not seen as they were:"
                f" {_some(f'{name} ({kind})' for name, kind in self.compressed)}"
            )
        if not self.files:
            doubts.append("there was no file to read")
        return doubts

    @property
    def verdict(self) -> Verdict:
        """One of "found", "absent", and "not shown": nothing was found, but there are doubts."""
        if self.found:
            return "found"
        return "not shown" if self.doubts else "absent"

    def as_dict(self) -> dict[str, Any]:
        """All fields, the verdict and the doubts, ready for JSON."""
        control = None
        if self.control is not None:
            control = {**asdict(self.control), "shown": self.control.shown}
        return {
            "verdict": self.verdict,
            "doubts": self.doubts,
            **asdict(self),
            "control": control,
            "compressed": [{"file": name, "format": kind} for name, kind in self.compressed],
        }


def _some(names: Iterable[str], most: int = 3) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
