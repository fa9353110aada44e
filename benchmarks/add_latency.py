"""Add one row, end to end from Python, against solving again and against the paper's algorithm.

New keys come from the distribution of the held ones. A key that falls inside moves nothing; one
that falls outside takes weight and moves the optimum.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import numpy as np

import peers
from common import Report, arguments, exponent
from deletion_latency import DIMENSION, bench
from trials import Bench, Turn, mean_ratio, ratio, summary
from workloads import GAMMA

# rows, nu, new rows, the paper takes part
FULL = ((512, 0.4, 300, True), (2048, 0.4, 200, True), (8192, 0.1, 200, False))
QUICK = ((128, 0.4, 20, True), (256, 0.1, 20, False))
PEERS = ("libsvm", "paper")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact."""
    args = arguments(__doc__).parse_args(argv)
    report = Report("add latency", args.quick, args.seed, {"d": DIMENSION, "gamma": GAMMA})
    for n, nu, new, paper in QUICK if args.quick else FULL:
        name = f"n = {n:,}, nu = {nu:g}"
        turns, b = run(n, nu, new, paper, args.seed)
        groups = {"any": turns}
        groups["with weight"] = [t for t in turns if t.was != "reserve"]
        groups["reserve"] = [t for t in turns if t.was == "reserve"]
        report.table(
            f"Add one row, {name}: time of the peer / ours, medians of ratios",
            ["new row", "turns", "events", "looks", *PEERS],
            [summary(kind, group, PEERS) for kind, group in groups.items() if group],
        )
        report.at_least(f"libsvm / ours, any new row, {name}", ratio(turns, "libsvm"))
        report.at_least(f"libsvm / ours, total time, {name}", mean_ratio(turns, "libsvm"))
        if paper:
            report.at_least(f"paper / ours, any new row, {name}", ratio(turns, "paper"))
        b.report_checks(report, name)
    growth(report, args.quick, args.seed)
    return report.finish(args.json)


def run(n: int, nu: float, new: int, paper: bool, seed: int) -> tuple[list[Turn], Bench]:
    """Turns of ``new`` keys that are added to n, and the bench."""
    b = bench(n, DIMENSION, nu, seed, 0, paper)
    keys = np.random.default_rng([seed, 2]).standard_normal((new + 3, DIMENSION))
    b.add(keys[:3], 0, 0)  # compile
    return b.add(keys[3:], 2, 5), b


def growth(report: Report, quick: bool, seed: int) -> None:
    """How the cost of one addition grows with the rows, nu fixed."""
    sizes = (128, 256, 512) if quick else (256, 512, 1024, 2048, 4096)
    cost: dict[str, list[float]] = {"reserve": [], "with weight": []}
    refit = []
    for n in sizes:
        b = bench(n, DIMENSION, 0.4, seed, 0, False)
        b.refits = {"libsvm": (peers.libsvm, 3)}
        keys = np.random.default_rng([seed, 3]).standard_normal((60, DIMENSION))
        turns: list[Turn] = b.add(keys, 1, 1)
        groups: dict[str, list[float]] = {"reserve": [], "with weight": []}
        for turn in turns:
            groups["reserve" if turn.was == "reserve" else "with weight"].append(turn.ours)
        for kind, seconds in groups.items():
            cost[kind].append(statistics.median(seconds))
        refit.append(statistics.median(t.peers["libsvm"] for t in turns if t.peers))
        b.report_checks(report, f"growth, n = {n:,}")
    report.table(
        "Growth with n at nu = 0.4: cost as n^p",
        ["operation", "p"],
        [
            ["add a row: reserve", exponent(sizes, cost["reserve"])],
            ["add a row: with weight", exponent(sizes, cost["with weight"])],
            ["libsvm refit", exponent(sizes, refit)],
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
