"""Forget one row, end to end from Python, against solving again and against the paper's algorithm.

Random victims are mostly reserve rows when nu is small, and their median says little about the
rest; so victims with weight are also measured on their own, and the ratio of total times is beside
the median of ratios.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import numpy as np

import peers
from common import Report, arguments, exponent
from floor import Floor, measure
from svmemory import Contract
from trials import Bench, Refit, Turn, mean_ratio, ratio, summary
from workloads import GAMMA, gaussian

DIMENSION = 6
# rows, nu, random victims, active victims, refits by Clarabel, the paper takes part, target
FULL = (
    (512, 0.4, 400, 200, 5, True, 30.0),
    (2048, 0.4, 300, 100, 1, True, 200.0),
    (8192, 0.1, 300, 100, 0, False, 500.0),
)
QUICK = ((128, 0.4, 20, 10, 1, True, 0.0), (256, 0.1, 20, 10, 0, False, 0.0))
PAPER_TARGET = 20.0
# The authors' own release, which is not part of this repository: how long it took to delete a row
# with weight, as a multiple of libsvm's refit at tol 1e-9. Both were measured on one machine of two
# cores (6.0 ms and 3.3 ms at 512 rows, 55 ms and 41 ms at 2,048), so the multiple can be carried
# over to a run of this script.
RELEASE = {512: 6.0 / 3.3, 2048: 55.0 / 41.0}
PEERS = ("libsvm", "clarabel", "paper", "paper's walk")


def bench(n: int, d: int, nu: float, seed: int, clarabel: int, paper: bool) -> Bench:
    """Memory of n Gaussian keys with 1/C = nu n."""
    keys, values = gaussian(n, d, seed)
    gamma = GAMMA if d == DIMENSION else 1.0 / d
    refits: dict[str, tuple[Refit, int]] = {"libsvm": (peers.libsvm, sys.maxsize)}
    if clarabel and peers.has_clarabel():
        refits["clarabel"] = (peers.clarabel, clarabel)
    return Bench(keys, values, Contract.from_nu(nu, n, gamma), refits, paper)


def victims(b: Bench, seed: int, random: int, active: int) -> tuple[list[Turn], list[Turn]]:
    """Turns of random victims, and of victims drawn among the rows with weight."""
    rng = np.random.default_rng([seed, 1])
    paper, b.paper = b.paper, False  # a peer for rows with weight
    b.forget(rng.permutation(len(b.keys))[:3].tolist(), 0, 0)  # compile
    any_row = b.forget(rng.permutation(len(b.keys))[:random].tolist(), 2, 5)
    drawn = rng.permutation(b.active())[:active].tolist()
    b.paper = paper
    return any_row, b.forget(drawn, 2, 5)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact and no target was missed."""
    args = arguments(__doc__).parse_args(argv)
    report = Report("deletion latency", args.quick, args.seed, {"d": DIMENSION, "gamma": GAMMA})
    for n, nu, random, active, clarabel, paper, target in QUICK if args.quick else FULL:
        name = f"n = {n:,}, nu = {nu:g}"
        b = bench(n, DIMENSION, nu, args.seed, clarabel, paper)
        any_row, with_weight = victims(b, args.seed, random, active)
        reserve = [t for t in any_row if t.was == "reserve"]
        rows = [summary("random", any_row, PEERS), summary("with weight", with_weight, PEERS)]
        if reserve:
            rows.append(summary("reserve", reserve, PEERS))
        report.table(
            f"Forget one row, {name}: time of the peer / ours, medians of ratios",
            ["victims", "turns", "events", "looks", *PEERS],
            rows,
        )
        report.at_least(f"libsvm / ours, random victims, {name}", ratio(any_row, "libsvm"), target)
        report.at_least(f"libsvm / ours, total time, {name}", mean_ratio(any_row, "libsvm"))
        report.at_least(f"libsvm / ours, victims with weight, {name}", ratio(with_weight, "libsvm"))
        if paper:
            claim = f"paper / ours, victims with weight, {name}"
            report.at_least(claim, ratio(with_weight, "paper"), PAPER_TARGET)
            claim = f"paper's walk alone / ours, victims with weight, {name}"
            report.at_least(claim, ratio(with_weight, "paper's walk"))
        if n in RELEASE:
            claim = f"authors' release / ours, by way of libsvm, victims with weight, {name}"
            report.at_least(claim, RELEASE[n] * ratio(with_weight, "libsvm"), PAPER_TARGET)
        b.report_checks(report, name)
    growth(report, args.quick, args.seed)
    return report.finish(args.json)


def growth(report: Report, quick: bool, seed: int) -> None:
    """How the cost of one deletion grows with the rows, and how far it is from its floor."""
    sizes = (128, 256, 512) if quick else (256, 512, 1024, 2048, 4096)
    rows, cost, active_cost, refit, looks = [], [], [], [], []
    for n in sizes:
        b = bench(n, DIMENSION, 0.4, seed, 0, False)
        b.refits = {"libsvm": (peers.libsvm, 3)}
        any_row, with_weight = victims(b, seed, 60, 40)
        reserve = [t.ours for t in any_row if t.was == "reserve"]
        floor = measure(b.memory)
        reached = [t.ours / floor.forget(t.events) for t in with_weight]
        cost.append(statistics.median(reserve))
        active_cost.append(statistics.median(t.ours for t in with_weight))
        refit.append(statistics.median(t.peers["libsvm"] for t in any_row if t.peers))
        looks.append(statistics.median(t.looks for t in with_weight))
        rows.append(_growth_row(n, floor, with_weight, looks[-1], statistics.median(reached)))
        b.report_checks(report, f"growth, n = {n:,}")
    report.table(
        "Forget one row with weight, nu = 0.4: work, floor, and time / time of the floor",
        ["rows", "margin", "with weight", "events", "looks", "floor kB", "floor kflop", "x floor"],
        rows,
    )
    report.table(
        "Growth with n at nu = 0.4: cost as n^p",
        ["operation", "p"],
        [
            ["forget a reserve row", exponent(sizes, cost)],
            ["forget a row with weight", exponent(sizes, active_cost)],
            ["libsvm refit", exponent(sizes, refit)],
        ],
    )


def _growth_row(
    n: int, floor: Floor, turns: Sequence[Turn], looks: float, reached: float
) -> list[float]:
    events = statistics.median(t.events for t in turns)
    return [
        n,
        floor.margin,
        floor.active,
        events,
        looks,
        floor.bytes(events) / 1e3,
        floor.flops(events) / 1e3,
        reached,
    ]


if __name__ == "__main__":
    sys.exit(main())
