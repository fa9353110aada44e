"""How a table becomes a memory: its columns, their scaling, the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..contract import Contract
from ..errors import ContractError, InputError
from ..inputs import LARGEST
from ..memory import SupportVectorMemory
from ..scaling import Floats, Scaler, range_scaler, scale_gamma, standard_scaler
from ..tables import Table, read_table
from .files import OpenedMemory
from .output import ProgressCallback

DEFAULT_RIDGE = 1e-8


@dataclass(frozen=True)
class Columns:
    """The columns of a table that a memory is built from."""

    keys: list[str]
    values: list[str]
    id: str | None
    subject: str | None


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed at build and never changes afterwards."""

    columns: Columns
    scaler: Scaler | None
    contract: Contract
    gamma_from: str

    def header(self) -> dict[str, Any]:
        """What the file carries beside the memory, as JSON values."""
        return {
            "key_columns": self.columns.keys,
            "value_columns": self.columns.values,
            "id_column": self.columns.id,
            "subject_column": self.columns.subject,
            "scaler": None if self.scaler is None else self.scaler.to_header(),
            "gamma_from": self.gamma_from,
        }

    def build(self, table: Table, progress: ProgressCallback | None) -> SupportVectorMemory:
        """A memory that holds the rows of ``table``."""
        columns = self.columns
        memory = SupportVectorMemory.from_contract(self.contract)
        memory.add(
            scaled_keys(table, columns.keys, columns.id, self.scaler),
            values_of(table, columns.values, columns.id) if columns.values else None,
            ids=None if columns.id is None else table.ids(columns.id),
            subjects=None if columns.subject is None else table.subjects(columns.subject),
            progress=progress,
        )
        memory.header = self.header()
        return memory


def plan_like(opened: OpenedMemory) -> Plan:
    """The plan by which another memory was built."""
    header = opened.header
    columns = Columns(
        opened.columns("key"),
        opened.columns("value"),
        header.get("id_column"),
        header.get("subject_column"),
    )
    gamma_from = str(header.get("gamma_from", "number"))
    return Plan(columns, opened.scaler, opened.memory.contract, gamma_from)


def plan_new(
    table: Table,
    columns: Columns,
    scaler: Scaler | None,
    nu: float | None,
    cap: float | None,
    gamma: str,
    ridge: float,
) -> Plan:
    """A plan under a contract declared by ``nu`` or ``cap``, and by ``gamma``, a number or "scale".

    ``nu`` and "scale" are resolved here, once, from the rows of ``table``.
    """
    if gamma == "scale":
        width = scale_gamma(scaled_keys(table, columns.keys, columns.id, scaler))
    else:
        try:
            width = float(gamma)
        except ValueError:
            raise ContractError(f"gamma must be a number or 'scale', got {gamma!r}") from None
    if nu is not None and cap is None:
        contract = Contract.from_nu(nu, len(table), width, ridge)
    elif cap is not None and nu is None:
        contract = Contract.from_cap(width, cap, ridge)
    else:
        raise InputError("give exactly one of --nu and --C")
    return Plan(columns, scaler, contract, "scale" if gamma == "scale" else "number")


def choose_scaler(
    table: Table,
    columns: Columns,
    standardize: bool,
    scale_from: Path | None,
    ranges: Sequence[str],
) -> Scaler | None:
    """The scaler that the options ask for, None without one.

    Raises
    ------
    InputError
        If more than one is asked for.
    """
    if standardize + (scale_from is not None) + bool(ranges) > 1:
        raise InputError("give at most one of --standardize, --scale-from and --range")
    if standardize:
        return standard_scaler(table.numbers(columns.keys, columns.id), columns=columns.keys)
    if scale_from is not None:
        other = read_table(scale_from)
        return standard_scaler(other.numbers(columns.keys, columns.id), "from-file", columns.keys)
    return range_scaler(ranges, columns.keys) if ranges else None


def scaled_keys(
    table: Table, columns: Sequence[str], id_column: str | None, scaler: Scaler | None
) -> Floats:
    """Key columns of a table as the memory sees them: (rows, d).

    Raises
    ------
    InputError
        If a cell cannot be used, or a key is too large for the kernel; names the cell.
    """
    cells = table.numbers(columns, id_column)
    keys = cells if scaler is None else scaler.apply(cells)
    _check_size(table, columns, id_column, cells, keys)
    return keys


def values_of(table: Table, columns: Sequence[str], id_column: str | None) -> Floats:
    """Value columns of a table, (rows, dv); raises as :func:`scaled_keys` does."""
    values = table.numbers(columns, id_column)
    _check_size(table, columns, id_column, values, values)
    return values


def _check_size(
    table: Table, columns: Sequence[str], id_column: str | None, cells: Floats, used: Floats
) -> None:
    """Raise ``InputError`` for the first of ``used`` that a memory refuses as too large.

    The memory would name its own row and the scaled number; here the cell is still known.
    """
    huge = ~(np.abs(used) <= LARGEST)
    if not huge.any():
        return
    i, j = (int(k) for k in np.argwhere(huge)[0])
    scaled = "" if used is cells else f", scaled {used[i, j]:.3g},"
    raise InputError(
        f"{table.place(i, columns[j], id_column)}: {cells[i, j]:.10g}{scaled} is too large; beyond"
        f" {LARGEST:g} squares overflow: use another {'range or ' if scaled else ''}unit"
    )
