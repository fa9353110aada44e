"""Audits that a memory which forgot rows is, byte for byte, the memory that never saw them.

Each function runs one study of one regime and returns a report with ``passed``, ``failures`` and
``as_dict()``. The command line shows the same reports: ``svmemory audit
deletion|sequence|drain|membership``.
"""

from __future__ import annotations

from .compare import Spread
from .deletion import DeletionReport, run_deletion
from .drain import run_drain
from .lira import Outcome, Rate
from .membership import Attack, MembershipReport, run_membership
from .outcome import SCORE_LIMIT, Report
from .regimes import REGIMES, Regime, audit_contract, draw_keys, paper_rows
from .sequence import run_sequence
from .vitals import Vitals, read_vitals
from .walk import WalkReport

__all__ = [
    "REGIMES",
    "SCORE_LIMIT",
    "Attack",
    "DeletionReport",
    "MembershipReport",
    "Outcome",
    "Rate",
    "Regime",
    "Report",
    "Spread",
    "Vitals",
    "WalkReport",
    "audit_contract",
    "draw_keys",
    "paper_rows",
    "read_vitals",
    "run_deletion",
    "run_drain",
    "run_membership",
    "run_sequence",
]
