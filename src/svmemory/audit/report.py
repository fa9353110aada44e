"""Show audit reports: tables with the paper's figure beside each of ours, or one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .compare import Spread
from .deletion import FIGURES, DeletionReport
from .lira import Rate
from .membership import MembershipReport
from .outcome import Report
from .walk import WalkReport

_COUNTS = {
    ("deletion", "gaussian"): {"completed": "300/300", "fast partitions": "99 %"},
    ("deletion", "redundant"): {"completed": "300/300", "fast partitions": "52 %"},
    ("deletion", "icu"): {"completed": "299/300", "fast partitions": "98 %"},
    ("drain", "gaussian"): {"completed": "16 of 760 steps fail"},
}
_DEVIATIONS = {
    ("deletion", "gaussian"): {"fast score": ("2.4e-9", "6.4e-3")},
    ("deletion", "redundant"): {
        "fast score": ("5.7e-7", "9.6e-4"),
        "fast readout": ("-", "52 % of range"),
    },
    ("deletion", "icu"): {"fast score": ("1.6e-9", "1.1e-2")},
    ("sequence", "gaussian"): {"fast score": ("-", "3e-2")},
    ("sequence", "redundant"): {"fast score": ("-", "0.18")},
    ("sequence", "duplicate"): {"fast score": ("-", "5e48")},
}
"""(median, worst) as published; for ``sequence`` and ``drain``, of the authors' release when run.

Its drains go from 64 to 26 rows, 20 times; a failing step raises "margin set emptied".
"""

_ANY_REGIME = {"completed": "66/80 unaided", "refits": "92 needed for all"}  # release, sequence
_DECAY = ("2.2e-2 to 2.4e-1", "-")  # over regimes


def document(
    audit: str, seed: int, ridge: float, reports: Sequence[Report], not_run: Mapping[str, str]
) -> dict[str, Any]:
    """One JSON-able document for all regimes of a run, with :func:`paper_figures` beside ours.

    ``not_run`` gives the reason for each regime that was left out; "passed" speaks of the others.
    """
    return {
        "audit": audit,
        "seed": seed,
        "ridge": ridge,
        "passed": all(report.passed for report in reports),
        "regimes": [report.as_dict() | {"paper": paper_figures(report)} for report in reports],
        "not_run": [{"regime": regime, "reason": reason} for regime, reason in not_run.items()],
    }


def paper_figures(report: Report) -> dict[str, str | dict[str, str]]:
    """The published figures for a report's audit and regime; empty where there are none."""
    deviations = {
        name: {"median": median, "worst": worst}
        for name, (median, worst) in _peer_deviations(report).items()
    }
    return _peer_counts(report) | deviations


def _peer_counts(report: Report) -> dict[str, str]:
    common = _ANY_REGIME if report.audit == "sequence" else {}
    return common | _COUNTS.get((report.audit, report.regime), {})


def _peer_deviations(report: Report) -> dict[str, tuple[str, str]]:
    common = {"decay score": _DECAY} if report.audit == "deletion" else {}
    return common | _DEVIATIONS.get((report.audit, report.regime), {})


def render(report: Report) -> RenderableType:
    """Tables of one report, the problems it met and its verdict."""
    if isinstance(report, DeletionReport):
        tables = _deletion_tables(report)
    elif isinstance(report, WalkReport):
        tables = _walk_tables(report)
    elif isinstance(report, MembershipReport):
        tables = _membership_tables(report)
    else:
        raise TypeError(f"no table for {type(report).__name__}")
    lines = [Text(f"  {problem}") for problem in report.problems[:5]]
    if len(report.problems) > len(lines):
        lines.append(Text(f"  and {len(report.problems) - len(lines)} more"))
    verdict = Text("passed") if report.passed else Text("failed: " + "; ".join(report.failures))
    return Group(*tables, *lines, verdict)


def render_not_run(audit: str, regime: str, reason: str) -> RenderableType:
    """The same for a regime that was left out."""
    return Text(f"\n  {audit}, {regime}: not run\n\n  {reason}")


def _title(report: Report) -> str:
    return f"{report.audit}, {report.regime}: {report.rows} rows, ridge {report.ridge:g}"


def _peer(report: Report) -> str:
    return "paper" if report.audit == "deletion" else "release"


def _counts(report: Report, rows: Sequence[tuple[str, str, str]]) -> Table:
    """Rows of (what is counted, our count, name of the published count)."""
    table = Table(title=_title(report), title_justify="left", box=box.SIMPLE)
    table.add_column("count")
    table.add_column("here", justify="right")
    table.add_column(_peer(report))
    peer = _peer_counts(report)
    for label, here, name in rows:
        table.add_row(label, here, peer.get(name, "-"))
    return table


def _deviations(report: Report, names: Sequence[str]) -> Table:
    """One row for each named :class:`Spread` of the report."""
    table = Table(box=box.SIMPLE)
    table.add_column("deviation")
    for column in ("median", "p95", "worst"):
        table.add_column(column, justify="right")
    table.add_column(f"{_peer(report)} (median, worst)")
    peer = _peer_deviations(report)
    for name in names:
        value: Spread | None = getattr(report, name.replace(" ", "_"))
        table.add_row(name, *_spread(value), ", ".join(peer.get(name, ("-",))))
    return table


def _deletion_tables(report: DeletionReport) -> list[Table]:
    done = report.completed
    rational = report.rational_equal if report.rational_trials else None
    counts = [
        ("completed", f"{done}/{report.trials}", "completed"),
        ("refits", str(report.refits), "refits"),
        ("digests equal", _share(report.digests_equal, done), ""),
        ("partitions equal, canonical", _share(report.partitions_equal, done), ""),
        (
            "partitions equal, fast path",
            _share(report.fast_partitions_equal, done),
            "fast partitions",
        ),
        ("equal to the rational solve", _share(rational, report.rational_trials), ""),
    ]
    names = [f"{s} {f}" for s in ("fast", "canonical", "decay") for f in FIGURES]
    return [_counts(report, counts), _deviations(report, names)]


def _walk_tables(report: WalkReport) -> list[Table]:
    counts = [
        ("trajectories completed", f"{report.completed}/{report.trajectories}", "completed"),
        ("operations", f"{report.operations}/{report.operations_planned}", ""),
        ("refits", str(report.refits), "refits"),
        ("digests equal", _share(report.digests_equal, report.operations), ""),
    ]
    return [_counts(report, counts), _deviations(report, ["fast score"])]


def _membership_tables(report: MembershipReport) -> list[Table]:
    counts = Table(title=_title(report), title_justify="left", box=box.SIMPLE)
    counts.add_column("count")
    counts.add_column("here", justify="right")
    for label, here in (
        ("draws completed", f"{report.completed}/{report.draws}"),
        ("digests equal", _share(report.digests_equal, report.forgotten)),
        ("outputs identical", _share(report.identical, report.forgotten)),
        ("fast path's score, worst deviation", _spread(report.fast_score)[2]),
        ("members tested in each case, and others", str(report.tests)),
    ):
        counts.add_row(label, here)
    found = Table(box=box.SIMPLE)
    for column in ("record", "by its", "AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR"):
        found.add_column(column)
    for one in report.attacks:
        rates = (one.found.auc, one.found.at_1_percent, one.found.at_01_percent)
        found.add_row(one.case, one.outputs, *map(_rate, rates))
    return [counts, found]


def _rate(rate: Rate) -> str:
    low, high = (f"{bound:.3f}".removeprefix("0") for bound in (rate.low, rate.high))
    return f"{rate.value:.3f} {low}-{high}"


def _share(count: int | None, total: int) -> str:
    return "-" if count is None else f"{count}/{total}"


def _spread(value: Spread | None) -> tuple[str, str, str]:
    if value is None:
        return "-", "-", "-"
    median, p95, worst = (
        "0" if figure == 0 else f"{figure:.1e}" for figure in (value.median, value.p95, value.worst)
    )
    return median, p95, worst
