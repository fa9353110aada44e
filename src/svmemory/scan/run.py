"""The scan: needles of the rows and of a control, one pass over the files, a report."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import InputError
from .files import File, Skipped, blocks, compressed, shown, walk
from .needles import Form, ScanRow, blob, encodings, pieces, unfit
from .report import Control, Found, Omitted, Place, ScanReport
from .search import Searcher

Progress = Callable[[int, int], None]
Location = str | os.PathLike[str]

CONTROLS = 3
"""Live rows that are looked for as a control."""

_PLACES = 5  # listed of each needle
_TOGETHER = 500  # live rows compared at once
_SHARED = "live rows hold the same bytes"

Owners = dict[bytes, list[tuple[int, Form]]]
"""Needles, each with the rows (by position) and the forms it belongs to."""


def scan(
    path: Location,
    rows: Sequence[ScanRow],
    live: Sequence[ScanRow] = (),
    skip: Iterable[Location] = (),
    progress: Progress | None = None,
) -> ScanReport:
    """Look for the bytes of rows in every file at or below ``path``.

    Parameters
    ----------
    path : path
        A file or a folder.
    rows : sequence of ScanRow
        Rows that should be gone.
    live : sequence of ScanRow, optional
        Rows that may be there. Bytes that they share with ``rows`` are not looked for, and some of
        them are looked for as a control.
    skip : iterable of paths, optional
        Files that are not read, such as the one that ``rows`` came from.
    progress : callable, optional
        Called as ``progress(done, total)``, in bytes.

    Raises
    ------
    InputError
        If there are no rows, or ``path`` is neither a file nor a folder.
    """
    if not rows:
        raise InputError("give at least one row to look for")
    root = os.path.realpath(path)
    if not (os.path.isfile(root) or os.path.isdir(root)):
        exists = os.path.lexists(path)
        raise InputError(
            f"{shown(os.fspath(path))}: {'no file or folder' if exists else 'is not there'}"
        )
    wanted, omitted = _needles(rows)
    shared = _among(list(wanted), live)
    for needle in shared:
        del wanted[needle]
    control = [live[i * len(live) // CONTROLS] for i in range(min(CONTROLS, len(live)))]
    controlled = _needles(control)[0]
    for needle in _among(list(controlled), rows):
        del controlled[needle]
    sought = _Sought([*wanted, *controlled])
    pile = _read(root, sought, {_identity(one) for one in skip}, progress)
    return ScanReport(
        path=shown(os.fspath(path)),
        rows=tuple(row.id for row in rows),
        needles=len(wanted),
        files=pile.files,
        bytes=pile.bytes,
        found=_found(wanted, rows, sought),
        control=_control(control, controlled, sought) if live else None,
        omitted=_omissions(rows, omitted, wanted),
        shared=len(shared),
        unsearchable=_unsearchable(rows, wanted),
        skipped=tuple(pile.skipped),
        compressed=tuple(pile.compressed),
    )


@dataclass
class _Sought:
    """What is looked for, and what was found of it so far."""

    needles: list[bytes]
    counts: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    places: dict[bytes, list[Place]] = field(default_factory=lambda: defaultdict(list))

    def hit(self, needle: bytes, place: Place) -> None:
        self.counts[needle] += 1
        if len(self.places[needle]) < _PLACES:
            self.places[needle].append(place)


@dataclass
class _Pile:
    """What was read."""

    files: int = 0
    bytes: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    compressed: list[tuple[str, str]] = field(default_factory=list)


def _needles(rows: Sequence[ScanRow]) -> tuple[Owners, dict[tuple[int, Form], str]]:
    """Needles of rows, and what of them can be none, with the reason."""
    owners: Owners = defaultdict(list)
    omitted: dict[tuple[int, Form], str] = {}
    for i, row in enumerate(rows):
        for one in encodings(row):
            if one.data is None:
                omitted[i, one.form] = "too large for this encoding"
                continue
            parts = list(dict.fromkeys(pieces(one.data)))
            fit = [part for part in parts if unfit(one.form, part) is None]
            for part in fit:
                owners[part].append((i, one.form))
            if not fit:
                omitted[i, one.form] = str(unfit(one.form, parts[0]))
    return dict(owners), omitted


def _among(needles: Sequence[bytes], rows: Sequence[ScanRow]) -> set[bytes]:
    """Needles that occur in what rows would leave in a file."""
    searcher = Searcher(needles)
    between = os.urandom(32)  # no needle reaches over it into the next row
    found = set()
    for start in range(0, len(rows), _TOGETHER):
        data = between.join(blob(rows[start : start + _TOGETHER]))
        found |= {searcher.needles[number] for number, _ in searcher.find(data)}
    return found


def _read(
    root: str, sought: _Sought, skip: set[tuple[int, int]], progress: Progress | None
) -> _Pile:
    searcher = Searcher(sought.needles)
    pile = _Pile()
    files: list[File] = []
    total = 0
    for one in walk(root):
        if isinstance(one, Skipped):
            pile.skipped.append(Skipped(shown(one.path), one.why, one.matters))
            continue
        if skip and _identity(one.path) in skip:
            pile.skipped.append(Skipped(shown(one.name), "given as input", False))
            continue
        files.append(one)
        total += _size(one.path)
    done = 0
    for one in files:
        name = shown(one.name)
        for number, _ in searcher.find(os.fsencode(one.name)):
            sought.hit(searcher.needles[number], Place(name, None))
        try:
            for offset, repeated, data in blocks(one.path, max(0, searcher.longest - 1)):
                if offset == 0 and (kind := compressed(data)):
                    pile.compressed.append((name, kind))
                for number, at in searcher.find(data):
                    needle = searcher.needles[number]
                    if at + len(needle) > repeated:  # else it was found in the block before
                        sought.hit(needle, Place(name, offset + at))
                pile.bytes += len(data) - repeated
                done += len(data) - repeated
                if progress is not None:
                    progress(min(done, total), total)
        except OSError as error:
            reason = f"cannot be read ({error.strerror or error})"
            pile.skipped.append(Skipped(name, reason, True))
        else:
            pile.files += 1
    return pile


def _found(wanted: Owners, rows: Sequence[ScanRow], sought: _Sought) -> tuple[Found, ...]:
    """What was found of some needles, one entry for each group of rows and form."""
    groups: dict[tuple[tuple[str, ...], Form], list[bytes]] = defaultdict(list)
    for needle, owners in wanted.items():
        by_form: dict[Form, list[str]] = defaultdict(list)
        for i, form in owners:
            by_form[form].append(rows[i].id)
        for form, names in by_form.items():
            groups[tuple(dict.fromkeys(names)), form].append(needle)
    found = []
    for (ids, form), needles in groups.items():
        hits = [needle for needle in needles if sought.counts.get(needle)]
        if hits:
            places = [place for needle in hits for place in sought.places[needle]]
            found.append(
                Found(
                    rows=ids,
                    part=form.part,
                    encoding=form.encoding,
                    occurrences=sum(sought.counts[needle] for needle in hits),
                    pieces=len(hits),
                    of=len(needles),
                    places=tuple(places[:_PLACES]),
                )
            )
    return tuple(found)


def _control(rows: Sequence[ScanRow], controlled: Owners, sought: _Sought) -> Control:
    return Control(tuple(row.id for row in rows), _found(controlled, rows, sought))


def _omissions(
    rows: Sequence[ScanRow], omitted: dict[tuple[int, Form], str], wanted: Owners
) -> tuple[Omitted, ...]:
    """Parts of rows of which no needle is left, by reason."""
    left = {owner for owners in wanted.values() for owner in owners}
    reasons: dict[tuple[Form, str], list[str]] = defaultdict(list)
    for i, row in enumerate(rows):
        for one in encodings(row):
            if (i, one.form) not in left:
                why = omitted.get((i, one.form), _SHARED)
                reasons[one.form, why].append(row.id)
    return tuple(
        Omitted(form.part, form.encoding, why, tuple(dict.fromkeys(ids)))
        for (form, why), ids in reasons.items()
    )


def _unsearchable(rows: Sequence[ScanRow], wanted: Owners) -> tuple[str, ...]:
    seen = {
        i
        for owners in wanted.values()
        for i, form in owners
        if form.part in ("key", "value") and not form.in_base64
    }
    return tuple(row.id for i, row in enumerate(rows) if i not in seen)


def _identity(path: Location) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (-1, -1)
    return status.st_dev, status.st_ino


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0
