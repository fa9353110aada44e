"""What an issuer checks of the state that is left before signing for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract import Contract
from ..digest import Rows
from ..errors import EvidenceError, SVMemoryError
from ..reads import kernel_sums
from . import fresh
from .checks import Check
from .optimality import Optimality, judge
from .signer import Signer
from .state import StateRecord
from .tolerance import RESIDUAL


def measure(rows: Rows, contract: Contract) -> Optimality:
    """Conditions of a state, with compiled kernel sums."""
    active = rows.b > 0.0
    near = np.ascontiguousarray(rows.keys[active].T)
    weights = rows.b[active] / contract.held_mass(len(rows.ids))
    return judge(rows, contract, np.asarray(kernel_sums(near, weights, rows.keys, contract.gamma)))


def check_before_signing(
    after: StateRecord, optimality: Optimality | None, signer: Signer
) -> tuple[dict[str, Any], list[Check]]:
    """The certificate's equality section, and the checks that the issuer has run."""
    checks = []
    if optimality is not None:
        if not optimality.residual <= RESIDUAL:
            raise EvidenceError(
                f"the state after is not the optimum: KKT residual {optimality.residual:.2e}",
                "optimality",
            )
        reason = f"KKT residual {optimality.residual:.2e}, gap {optimality.gap:.2e}"
        checks.append(Check("conditions", "optimality", "pass", reason))
    solved, note = _solve(after, signer)
    if solved is None:
        checks.append(Check("fresh solve", "optimality", "not run", note))
        figures = dict.fromkeys(("digest", "weightDeviation", "scoreDeviation", "bitExact"))
        return {"check": "later", **figures, "note": note}, checks
    if solved.digest != after.digest:
        raise EvidenceError(
            "an independent fresh solve of the retained rows has another digest:"
            f" {solved.digest} instead of {after.digest}",
            "optimality",
        )
    checks.append(Check("fresh solve", "optimality", "pass", f"{note}: equal to the bit"))
    return {
        "check": "now",
        "digest": solved.digest,
        "weightDeviation": solved.weight_deviation.hex(),
        "scoreDeviation": solved.score_deviation.hex(),
        "bitExact": True,
        "note": note,
    }, checks


def _solve(after: StateRecord, signer: Signer) -> tuple[fresh.FreshSolve | None, str]:
    """An independent fresh solve, or None; and how it was done, or why it was not."""
    if signer.check == "later":
        return None, "the independent fresh solve was left to the verifier"
    if after.rows is None:
        return fresh.FreshSolve(after.digest, 0.0, 0.0, 0), "no rows are left: nothing to solve"
    too_large = fresh.too_large_to_solve(after.rows, after.contract)
    if too_large is not None:
        return None, f"left to the verifier: {too_large}"
    try:
        solved = fresh.solve_afresh(after.rows, after.contract)
    except SVMemoryError as error:
        return None, f"left to the verifier, as the independent solver did not arrive: {error}"[
            :500
        ]
    return solved, "interior-point solve of the retained rows, made exact in whole numbers"
