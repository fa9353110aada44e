"""The scan: needles of the rows and of a control, one pass over the files, a report."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from ..errors import InputError
from .files import Name, shown
from .needles import NUMBERS, Form, ScanRow, blob, encodings, pieces, unfit
from .reading import PLACES, Reader, Sought, identity
from .report import Control, Found, Omitted, ScanReport
from .search import Searcher

Progress = Callable[[int, int], None]
Location = str | os.PathLike[str]

CONTROLS = 3
"""Live rows that are looked for as a control."""

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
    may_stay: bool = False,
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
        them are looked for as a control; without any, nothing is called absent.
    skip : iterable of paths, optional
        Files that ``rows`` came from: where one is met it is not read, and leaves a doubt.
    progress : callable, optional
        Called as ``progress(done, total)``, in bytes.
    may_stay : bool, optional
        Whether files in ``skip`` may lie there: then they leave no doubt.

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
    sought = Sought([*wanted, *controlled], _numbers(controlled))
    pile = Reader(sought)
    for text in {os.fsdecode(os.path.basename(os.path.abspath(one))) for one in (path, root)}:
        pile.name(Name(text, 0, text))
    pile.read(root, {identity(one) for one in skip}, may_stay, progress)
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


def _numbers(owners: Owners) -> set[bytes]:
    return {needle for needle, forms in owners.items() if any(f.part in NUMBERS for _, f in forms)}


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


def _found(wanted: Owners, rows: Sequence[ScanRow], sought: Sought) -> tuple[Found, ...]:
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
        for base64 in (False, True):
            hits = [(one, base64) for one in needles if (one, base64) in sought.counts]
            if hits:
                places = [place for hit in hits for place in sought.places[hit]]
                found.append(
                    Found(
                        rows=ids,
                        part=form.part,
                        encoding=f"base64 of {form.encoding}" if base64 else form.encoding,
                        occurrences=sum(sought.counts[hit] for hit in hits),
                        pieces=len(hits),
                        of=len(needles),
                        places=tuple(places[:PLACES]),
                    )
                )
    return tuple(found)


def _control(rows: Sequence[ScanRow], controlled: Owners, sought: Sought) -> Control:
    ids = tuple(row.id for row in rows)
    return Control(ids, _found(controlled, rows, sought), len(sought.seen))


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
    seen = {i for owners in wanted.values() for i, form in owners if form.part in ("key", "value")}
    return tuple(row.id for i, row in enumerate(rows) if i not in seen)
