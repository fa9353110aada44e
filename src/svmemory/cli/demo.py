"""``svmemory demo``: the whole promise on real patients."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import CHECK_FAILED
from .files import check_free
from .options import JsonFlag, QuietFlag
from .output import note, print_facts, print_json, print_table, progress_bar
from .summary import SETS

if TYPE_CHECKING:
    from ..demo import DemoReport


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PNG", help="The picture to write.")
    ] = Path("svmemory-demo.png"),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Hold 400 real patients, read others, forget one, and check that no trace is left."""
    from ..demo import run_demo  # scikit-learn and matplotlib take a second to load

    check_free(output, force=True)
    note(
        "the first run compiles the engine once, which can take most of a minute", quiet or as_json
    )
    with progress_bar("adding patients", quiet or as_json) as progress:
        report = run_demo(output, progress)
    if as_json:
        print_json({**asdict(report), "passed": report.passed})
    else:
        _print(report)
    if not report.passed:
        raise typer.Exit(CHECK_FAILED)


def _print(report: DemoReport) -> None:
    sets = ", ".join(f"{name} {report.sets[name]}" for name in SETS)
    typer.echo("1. Hold: scikit-learn's breast-cancer table")
    print_facts(
        {
            "memory": f"{report.rows} patients, 30 measurements each; {sets}",
            "contract": f"nu {report.nu:g} (C = 1/{report.nu * report.rows:g}), gamma"
            f" {report.gamma:g}, ridge {report.ridge:.3g}",
        }
    )
    typer.echo("\n2. Read: patients who are not in the memory")
    print_table(
        {
            "patient": [r.id for r in report.readouts],
            "malignant": [r.malignant for r in report.readouts],
            "benign": [r.benign for r in report.readouts],
            "diagnosis": [r.diagnosis for r in report.readouts],
        },
        "share read for each diagnosis",
    )
    typer.echo(
        f"accuracy on 100 such patients: {report.accuracy:.1%}"
        f" ({report.neighbours} nearest neighbours over all {report.rows} patients:"
        f" {report.neighbour_accuracy:.1%})"
    )
    typer.echo(f"\n3. Forget: {report.forgotten}")
    print_facts(
        {
            "was": f"{report.forgotten_set} row, weight {report.forgotten_weight:.6f}",
            "took": f"{report.forget_milliseconds:.2f} ms, {report.refits} refits",
            "digest with": report.digest_with,
            "digest after": report.digest_after,
            "digest never saw": report.digest_never_saw,
            "left by deletion": f"scores off by {report.score_deviation:.3g},"
            f" readouts by {report.readout_deviation:.3g}",
            "left by decay": f"scores off by {report.decay_score_deviation:.3g}, readouts by"
            f" {report.decay_readout_deviation:.3g} (weight times {report.decay_factor:g})",
        }
    )
    typer.echo("\n4. Check")
    for check in report.checks:
        typer.echo(f"{'pass' if check.passed else 'FAIL'}  {check.name}")
    typer.echo(f"\npicture: {report.picture}")
    if report.passed:
        typer.echo(
            f"Proved: after {report.forgotten} was forgotten, the state of the memory is byte for"
            " byte the state of a memory that never saw them."
        )
    else:
        failed = sum(not check.passed for check in report.checks)
        typer.echo(f"Not proved: {failed} of {len(report.checks)} checks failed.")
