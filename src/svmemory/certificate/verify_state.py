"""Check the retained rows against a certificate: digests, conditions, and a fresh solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import file
from ..contract import Contract
from ..digest import Rows
from ..errors import ConvergenceError, EvidenceError, SVMemoryError
from ..inputs import LARGEST
from . import fresh
from .checks import Check
from .optimality import Optimality, judge, optimality_document, weighted_sums
from .state import StateRecord, contract_document, json_digest
from .tolerance import FIGURE, RESIDUAL

Removed = tuple[str, str | None]
"""Id and subject of a removed row."""


def read_state(data: bytes) -> StateRecord:
    """The state in a memory file's bytes.

    Raises
    ------
    EvidenceError
        Layer "encoding": it is no memory file, or not the bytes that its content is written as.
        Layer "digest": the digest it carries is not that of its rows.
    """
    try:
        content = file.from_bytes(data)
        again = file.to_bytes(content)
    except (SVMemoryError, RecursionError) as error:
        raise EvidenceError(f"the memory file cannot be used: {error}", "encoding") from None
    if again != data:
        raise EvidenceError(
            "the memory file is not written as svmemory writes it: it was changed, or another"
            " program wrote it",
            "encoding",
        )
    if content.rows is not None:
        _require_numbers(content.rows)
    state = StateRecord(content.contract, content.rows, content.header)
    if content.contract.ridge > 0.0 and state.digest != f"sha256:{content.digest}":
        raise EvidenceError(
            f"the memory file carries the digest {content.digest}, and its rows have"
            f" {state.digest.removeprefix('sha256:')}: a row, a weight or the digest was changed",
            "digest",
        )
    return state


def _require_numbers(rows: Rows) -> None:
    """Refuse numbers that no memory holds, as NaN, which would pass every comparison."""
    for name, array, least, most in (
        ("keys", rows.keys, -LARGEST, LARGEST),
        ("values", rows.values, -LARGEST, LARGEST),
        ("masses", rows.b, 0.0, 1.0),
    ):
        if not np.all((array >= least) & (array <= most)):
            raise EvidenceError(
                f"the memory file holds {name} that are not from {least:g} to {most:g}", "digest"
            )


def verify_state(
    state: StateRecord, predicate: dict[str, Any], removed: Sequence[Removed] = ()
) -> list[Check]:
    """Compare a state with what a certificate says of the state after.

    ``removed`` are rows that must not be there, where an opening names them.
    """
    after = predicate["state"]["after"]
    changed = "this is another memory, or it has changed since: the rows or their weights"
    same = _same("state digest", state.digest, after["digest"], changed)
    checks = [
        same,
        _same("rows' Merkle root", state.root, after["root"], "the rows"),
        _same(
            "contract",
            contract_document(state.contract, state.header),
            predicate["contract"],
            "gamma, the cap, the ridge, the kernel or the scaling",
        ),
        _same(
            "file header",
            json_digest(state.header),
            after["header"],
            "columns, scaling or other notes in the file",
        ),
        _same(
            "sizes",
            state.sizes() | {"status": state.status},
            {name: after[name] for name in (*state.sizes(), "status")},
            "the number of rows or their sets",
        ),
    ]
    if removed:
        checks.append(_absent(state, removed))
    if same.verdict == "fail":
        reason = "these are not the rows that the certificate speaks of"
        return [*checks, Check("optimum", "optimality", "not run", reason)]
    if state.rows is None:
        reason = "no rows are left: nothing to solve"
        return [*checks, Check("optimum", "optimality", "pass", reason)]
    return [*checks, *_optimum(state.rows, state.contract, predicate)]


def _same(name: str, found: Any, claimed: Any, what: str) -> Check:
    if found == claimed:
        return Check(name, "digest", "pass", "computed again and equal")
    if isinstance(found, dict):
        parts = [part for part in found if found[part] != claimed[part]]
        reason = "; ".join(
            f"{part} is {found[part]} and the certificate says {claimed[part]}" for part in parts
        )
    else:
        reason = f"it is {found} and the certificate says {claimed}"
    return Check(name, "digest", "fail", f"{reason}: {what} differ")


def _absent(state: StateRecord, removed: Sequence[Removed]) -> Check:
    name, rows = "removed rows absent", state.rows
    held = set(() if rows is None else rows.ids)
    there = [row for row, _ in removed if row in held]
    if there:
        return Check(name, "digest", "fail", f"{there[0]!r} was removed and is in the file")
    people = {subject for _, subject in removed if subject is not None}
    left = [] if rows is None else [s for s in rows.subjects if s in people]
    if left:
        first = left[0]
        reason = (
            f"they are absent, but other rows of the same subjects are held: {left.count(first)} of"
            f" {first!r}"
        )
        return Check(name, "digest", "warn", reason)
    reason = f"none of the {len(removed)} rows that the opening names is in the file"
    rest = ", and no other row of their subjects" if people else ""
    return Check(name, "digest", "pass", reason + rest)


def _optimum(rows: Rows, contract: Contract, predicate: dict[str, Any]) -> list[Check]:
    if contract.ridge == 0.0:
        reason = "at ridge 0 the weights need not be unique"
        return [Check("optimum", "optimality", "not run", reason)]
    found = judge(rows, contract, weighted_sums(rows, contract))
    checks = [_conditions(found), _figures(found, predicate["optimality"])]
    solved, solve = _run(
        "fresh solve", fresh.solve_afresh, fresh.too_large_to_solve, rows, contract
    )
    if solved is not None:
        return [*checks, solve, _exact(solved, predicate)]
    # The exact conditions at the sets of the file are as strong; the solve is then not missed.
    confirmed, exact = _run("bit-exact", fresh.confirm, fresh.too_large_to_confirm, rows, contract)
    if confirmed is not None:
        exact = _exact(confirmed, predicate)
        solve = Check(solve.name, solve.layer, solve.verdict, solve.reason, matters=False)
    return [*checks, solve, exact]


def _conditions(found: Optimality) -> Check:
    figures = f"KKT residual {found.residual:.2e}, gap {found.gap:.2e}"
    if not found.residual <= RESIDUAL:  # not a number is no optimum
        return Check("conditions", "optimality", "fail", f"{figures}: not the optimum")
    reason = f"{figures}, any gate score within {found.score_bound:.2e} of the optimum's"
    return Check("conditions", "optimality", "pass", reason)


def _figures(found: Optimality, claimed: dict[str, Any]) -> Check:
    """Whether the certificate's figures are the ones that these rows have."""
    slack, mass = found.slack, found.mass
    ours: dict[str, float | None] = {
        "residual": found.residual,
        "gap": found.gap,
        "slack": slack,
        "mass": mass,
        "offset": found.offset,
    }
    texts = {**claimed, **claimed["complementarity"]}
    name = "figures of optimality"
    for figure, value in ours.items():
        text = texts[figure]
        theirs = None if text is None else float.fromhex(text)
        if (value is None) != (theirs is None) or (
            value is not None and theirs is not None and not abs(value - theirs) <= FIGURE
        ):
            reason = f"{figure} is {value} and the certificate says {theirs}"
            return Check(name, "optimality", "fail", reason)
    low, high = (float.fromhex(claimed["offsetInterval"][end]) for end in ("low", "high"))
    bound = float.fromhex(claimed["scoreBound"])
    if not low <= found.offset <= high or low > found.offset_high or high < found.offset_low:
        reason = "the offset interval does not hold the offset"
        return Check(name, "optimality", "fail", reason)
    if not 0.5 * found.score_bound - FIGURE <= bound <= 2.0 * found.score_bound + FIGURE:
        reason = f"the score bound is {found.score_bound:.2e} and the certificate says {bound:.2e}"
        return Check(name, "optimality", "fail", reason)
    if optimality_document(found) == claimed:
        return Check(name, "optimality", "pass", "computed again and equal")
    reason = (
        f"computed again and within the tolerance of {FIGURE:.1e} (the score bound: of a factor of"
        " 2; its offset interval holds the offset)"
    )
    return Check(name, "optimality", "pass", reason)


def _run(
    name: str,
    solve: Callable[[Rows, Contract], fresh.FreshSolve],
    too_large: Callable[[Rows, Contract], str | None],
    rows: Rows,
    contract: Contract,
) -> tuple[fresh.FreshSolve | None, Check]:
    why = too_large(rows, contract)
    if why is not None:
        return None, Check(name, "optimality", "not run", why)
    try:
        solved = solve(rows, contract)
    except ConvergenceError as error:
        reason = f"the independent solver did not arrive, which says nothing: {error}"
        return None, Check(name, "optimality", "not run", reason)
    if solved.weight_deviation == 0.0 and solved.score_deviation == 0.0:
        reason = "the same weights and the same offset, to the last bit"
        return solved, Check(name, "optimality", "pass", reason)
    reason = (
        f"another optimum: weights differ by up to {solved.weight_deviation:.2e}, gate scores by"
        f" up to {solved.score_deviation:.2e}"
    )
    return solved, Check(name, "optimality", "fail", reason)


def _exact(solved: fresh.FreshSolve, predicate: dict[str, Any]) -> Check:
    claimed = predicate["state"]["after"]["digest"]
    if solved.digest != claimed:
        reason = f"the canonical form of these rows has the digest {solved.digest}"
        return Check("bit-exact", "optimality", "fail", reason)
    reason = "the exact optimum of these rows, rounded, has the state's digest"
    return Check("bit-exact", "optimality", "pass", reason)
