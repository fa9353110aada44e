"""An independent fresh solve of a state's rows, compared with the state to the bit.

It uses the rows and the contract, and nothing that the engine computed: an interior-point solver
(:mod:`svmemory.certificate.interior`) finds the sets from nothing, and exact arithmetic
(:mod:`svmemory.certificate.exact`) makes the canonical form of them and proves every condition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .. import problem
from ..contract import Contract
from ..digest import Rows, digest
from ..kernel import gaussian_kernel
from . import exact, interior
from .optimality import weighted_sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_ROWS = 2_500
"""Rows that are solved from nothing: some seconds, and memory for n x n numbers."""

MOST_MARGIN = 2_500
"""Margin rows up to which exact arithmetic takes seconds."""

MOST_VALUES = 200_000_000
"""Kernel values (rows times active rows) up to which every condition is checked."""


@dataclass(frozen=True)
class FreshSolve:
    """What an independent solve found.

    Attributes
    ----------
    digest : str
        ``sha256:`` and the digest of the rows with the masses found.
    weight_deviation, score_deviation : float
        Largest differences of weights, and of gate scores at the rows, from the state's.
    moved : int
        Rows whose set the exact conditions had to correct.
    """

    digest: str
    weight_deviation: float
    score_deviation: float
    moved: int


def solve_afresh(rows: Rows, contract: Contract) -> FreshSolve:
    """Canonical form of some rows (their masses are not looked at), compared with their masses.

    Raises
    ------
    ConvergenceError
        If the independent solver does not arrive; that says nothing about the state.
    """
    n = len(rows.ids)
    held = contract.held_mass(n)
    if held == n:
        return _compare(rows, contract, *_exact(rows, contract, "E" * n))
    kernel = gaussian_kernel(rows.keys, rows.keys, contract.gamma)
    labels = interior.solve(kernel, contract.ridge, held).labels

    def block(left: Ints, right: Ints) -> Floats:
        return np.asarray(kernel[np.ix_(left, right)])

    units = contract.ridge_units, contract.mass_units
    return _compare(rows, contract, *exact.canonical(block, n, *units, labels))


def confirm(rows: Rows, contract: Contract) -> FreshSolve:
    """The same from the sets that the masses of ``rows`` claim: proves them, or corrects them.

    Less independent than :func:`solve_afresh`, but as strong: what satisfies every condition
    exactly is the optimum. Needs no n x n numbers.
    """
    labels = "".join("R" if x <= 0.0 else "E" if x >= 1.0 else "S" for x in rows.b.tolist())
    return _compare(rows, contract, *_exact(rows, contract, labels))


def too_large_to_solve(rows: Rows, contract: Contract) -> str | None:
    """Why :func:`solve_afresh` is not run, or None."""
    n = len(rows.ids)
    if n > MOST_ROWS:
        return f"{n:,} rows are more than the {MOST_ROWS:,} that are solved from nothing"
    return too_large_to_confirm(rows, contract)


def too_large_to_confirm(rows: Rows, contract: Contract) -> str | None:
    """Why :func:`confirm` is not run, or None."""
    margin = int(((rows.b > 0.0) & (rows.b < 1.0)).sum())
    if margin > MOST_MARGIN:
        return f"{margin:,} margin rows are more than the {MOST_MARGIN:,} of exact arithmetic"
    values = len(rows.ids) * int((rows.b > 0.0).sum())
    if values > MOST_VALUES:
        return f"{values:,} kernel values are more than the {MOST_VALUES:,} of one check"
    return None


def _exact(rows: Rows, contract: Contract, labels: str) -> tuple[Floats, float, int]:
    def block(left: Ints, right: Ints) -> Floats:
        return gaussian_kernel(rows.keys[left], rows.keys[right], contract.gamma)

    units = contract.ridge_units, contract.mass_units
    return exact.canonical(block, len(rows.ids), *units, labels)


def _compare(rows: Rows, contract: Contract, b: Floats, mu: float, moved: int) -> FreshSolve:
    found = replace(rows, b=b, mu=mu)
    name = "sha256:" + digest(contract, found)
    if b.tobytes() == rows.b.tobytes() and mu == rows.mu:
        return FreshSolve(name, 0.0, 0.0, moved)
    held = contract.held_mass(len(rows.ids))
    scores = [
        2.0 * weighted_sums(one, contract) - problem.offset_from_mu(one.mu, contract.ridge, held)
        for one in (found, rows)
    ]
    return FreshSolve(
        name,
        float(np.abs(b - rows.b).max()) / held,
        float(np.abs(scores[0] - scores[1]).max()),
        moved,
    )
