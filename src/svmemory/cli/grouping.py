"""How a table becomes groups of rows, and groups become files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..errors import InputError
from ..scaling import Scaler
from ..tables import Table
from .plan import Columns, scaled_keys

if TYPE_CHECKING:
    from ..cohort import Group


def read_groups(
    records: Table, by: str, columns: Columns, scaler: Scaler | None
) -> tuple[list[Group], dict[str, str]]:
    """Groups of a table's rows; and the names of those with an unusable cell, with the reason.

    Raises
    ------
    InputError
        If a row has no group.
    """
    from ..cohort import Group, split  # brings in joblib: only for those who use it

    labels: list[str] = []
    for row, label in zip(records.rows, records.subjects(by), strict=True):
        if label is None:
            raise InputError(f"{records.path.name}: row {row}, column {by!r}: empty group")
        labels.append(label)
    try:
        return split(labels, *_content(records, columns, scaler)), {}
    except InputError:  # some cell is unusable: find out in which groups
        groups, refused = [], {}
    members: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        members.setdefault(label, []).append(i)
    for name, rows in members.items():
        part = Table(records.path, records.frame[rows], tuple(records.rows[i] for i in rows))
        try:
            groups.append(Group(name, *_content(part, columns, scaler)))
        except InputError as error:
            refused[name] = str(error)
    return groups, refused


def _content(table: Table, columns: Columns, scaler: Scaler | None) -> tuple[Any, Any, Any, Any]:
    """Keys, values, ids and subjects."""
    return (
        scaled_keys(table, columns.keys, columns.id, scaler),
        table.numbers(columns.values, columns.id) if columns.values else None,
        None if columns.id is None else table.subjects(columns.id),
        None if columns.subject is None else table.subjects(columns.subject),
    )


def file_names(groups: list[str]) -> dict[str, str]:
    """A file for each group, different also where upper and lower case are the same."""
    taken: dict[str, int] = {}
    files = {}
    for name in groups:
        stem = quote(name, safe=" ")
        number = taken[stem.casefold()] = taken.get(stem.casefold(), 0) + 1
        # In a stem, two digits follow every %: none looks like a numbered one.
        files[name] = f"{stem}.svm" if number == 1 else f"{stem}%{number}.svm"
    return files
