"""Groups of rows, and the numbered tasks that they become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..inputs import Label, as_label, listed


@dataclass(frozen=True)
class Group:
    """The rows of one memory.

    Parameters
    ----------
    name : str or int
        Names the group in its result; 1 and "1" are the same name.
    keys : array_like (n, d)
    values : array_like (n, dv) or (n,), optional
    ids : sequence of n str or int, optional
        Unique within the group. Without ids, rows are numbered from 0.
    subjects : sequence of n str, int or None, optional
    extra : object, optional
        Whatever ``apply`` needs besides the memory; it travels to the worker with the rows.
    """

    name: Label
    keys: ArrayLike
    values: ArrayLike | None = None
    ids: Iterable[Label] | None = None
    subjects: Iterable[Label | None] | None = None
    extra: Any = None


@dataclass(frozen=True)
class Task:
    """A group with its place in the input, or why it cannot be built."""

    index: int
    name: str
    group: Group | None
    problem: str | None = None


def split(
    by: Iterable[Label],
    keys: ArrayLike,
    values: ArrayLike | None = None,
    ids: Iterable[Label] | None = None,
    subjects: Iterable[Label | None] | None = None,
) -> list[Group]:
    """Cut columns of equal length into groups.

    Parameters
    ----------
    by : sequence of n str or int
        The group of each row.
    keys, values, ids, subjects
        As in :class:`Group`, for all rows. Their content is checked group by group, later.

    Returns
    -------
    list of Group
        In order of first appearance; rows keep their order.

    Raises
    ------
    InputError
        If a row has no group, or a column is not as long as ``by``.

    Examples
    --------
    >>> [(g.name, g.keys.tolist()) for g in split(["a", "b", "a"], [[1.0], [2.0], [3.0]])]
    [('a', [[1.0], [3.0]]), ('b', [[2.0]])]
    """
    if isinstance(by, str | bytes):
        raise InputError("by must be a sequence of labels, one a row, got one string")
    labels = listed(by)
    members: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(as_label(label, "group", row), []).append(row)
    columns = (
        ("keys", _numbers(keys, "keys")),
        ("values", None if values is None else _numbers(values, "values")),
        ("ids", None if ids is None else _labels(ids)),
        ("subjects", None if subjects is None else _labels(subjects)),
    )
    for what, column in columns:
        if column is not None and column.shape[:1] != (len(labels),):
            raise InputError(
                f"{what} have shape {column.shape}, but {len(labels)} group labels were given"
            )

    def part(index: int, rows: list[int]) -> Any:
        column = columns[index][1]
        return None if column is None else column[rows]

    return [
        Group(name, part(0, rows), part(1, rows), part(2, rows), part(3, rows))
        for name, rows in members.items()
    ]


def _numbers(columns: ArrayLike, what: str) -> NDArray[Any]:
    try:
        return np.asarray(columns)
    except ValueError:
        raise InputError(f"{what} must be a rectangular array: rows differ in length") from None


def _labels(labels: Iterable[Any]) -> NDArray[np.object_]:
    """Labels as they are: NumPy would turn [1, "a"] into text and [1, None] into floats."""
    items = listed(labels)
    column = np.empty(len(items), object)
    column[:] = items
    return column


def tasks(groups: Iterable[Group] | Mapping[Label, ArrayLike]) -> Iterator[Task]:
    """Number the groups; what is no group, or has a name for the second time, says so."""
    items: Iterable[Any] = groups
    if isinstance(groups, Mapping):
        items = (Group(name, keys) for name, keys in groups.items())
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Group):
            problem = f"InputError: item {index} is no Group but {type(item).__name__}"
            yield Task(index, f"item {index}", None, problem)
            continue
        try:
            name = as_label(item.name, "group name", index)
        except InputError as error:
            yield Task(index, f"item {index}", None, f"InputError: {error}")
            continue
        if name in seen:
            problem = f"DuplicateIdError: group {name!r} was already given as item {seen[name]}"
            yield Task(index, name, None, problem)
            continue
        seen[name] = index
        yield Task(index, name, item)
