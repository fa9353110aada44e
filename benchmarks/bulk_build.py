"""Build a memory from scratch in one call, against libsvm and against adding rows one by one."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

import peers
from common import Report, arguments, exponent, median_ratio, timed
from svmemory import Contract, SupportVectorMemory
from workloads import GAMMA, certified, gaussian, never_saw

DIMENSION = 6
TOGETHER = 20_000  # up to here a digest is compared, above it the conditions are certified
# rows, nu, turns, target
FULL = ((10_000, 0.05, 9, 1.0), (50_000, 0.01, 5, 1.0))
QUICK = ((600, 0.05, 3, 0.0), (1200, 0.02, 3, 0.0))

Floats = NDArray[np.float64]


def build(contract: Contract, keys: Floats, values: Floats) -> SupportVectorMemory:
    """A fresh memory, given all rows at once."""
    memory = SupportVectorMemory.from_contract(contract)
    memory.add(keys, values, range(len(keys)))
    return memory


def one_by_one(contract: Contract, keys: Floats, values: Floats) -> SupportVectorMemory:
    """A fresh memory, given its rows one call each, last row first."""
    memory = SupportVectorMemory.from_contract(contract)
    for row in reversed(range(len(keys))):
        memory.add(keys[[row]], values[[row]], [row])
    return memory


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact and no target was missed."""
    args = arguments(__doc__).parse_args(argv)
    report = Report("bulk build", args.quick, args.seed, {"d": DIMENSION, "gamma": GAMMA})
    for n, nu, turns, target in QUICK if args.quick else FULL:
        compare(report, n, nu, turns, target)
    growth(report)
    return report.finish(args.json)


def compare(report: Report, n: int, nu: float, turns: int, target: float) -> None:
    """One size: ours and libsvm take turns; what ours built is checked."""
    name = f"n = {n:,}, nu = {nu:g}"
    keys, values = gaussian(n, DIMENSION, report.seed)
    contract = Contract.from_nu(nu, n, GAMMA)
    build(contract, keys[:200], values[:200])  # compile
    seconds, memory = side_by_side(contract, keys, values, turns)
    report.at_least(
        f"libsvm / ours, {name}", median_ratio(seconds["libsvm"], seconds["ours"]), target
    )
    report.check(f"{name}: KKT residual at most 1e-9", certified(memory))
    if n > TOGETHER:
        return
    alone, slow = timed(partial(one_by_one, contract, keys, values))
    report.at_least(f"one by one / ours, {name}", alone / statistics.median(seconds["ours"]))
    report.check(f"{name}: digest is that of one-by-one", memory.digest() == slow.digest())


def side_by_side(
    contract: Contract, keys: Floats, values: Floats, turns: int
) -> tuple[dict[str, list[float]], SupportVectorMemory]:
    """Seconds of ours and of libsvm, and the memory that was built last."""
    seconds: dict[str, list[float]] = {"ours": [], "libsvm": []}
    for _ in range(turns):
        taken, memory = timed(partial(build, contract, keys, values))
        seconds["ours"].append(taken)
        seconds["libsvm"].append(timed(partial(peers.libsvm, keys, contract))[0])
    return seconds, memory


def growth(report: Report) -> None:
    """How the cost of a build grows with n, at nu fixed and at 1/C fixed."""
    sizes = (250, 500, 1000) if report.quick else (2500, 5000, 10_000, 20_000)
    rows: list[list[float | str]] = []
    for title, mass in (("nu = 0.05", None), ("1/C = 200", 200.0)):
        ours, libsvm = [], []
        for n in sizes:
            keys, values = gaussian(n, DIMENSION, report.seed)
            contract = Contract(GAMMA, 0.05 * n if mass is None else mass)
            seconds, memory = side_by_side(contract, keys, values, 3)
            ours.append(statistics.median(seconds["ours"]))
            libsvm.append(statistics.median(seconds["libsvm"]))
            other = never_saw(contract, keys, values, range(n), report.seed)
            exact = memory.digest() == other and certified(memory)
            report.check(f"growth, {title}, n = {n:,}: same digest in another order", exact)
        rows.append([title, exponent(sizes, ours), exponent(sizes, libsvm)])
    report.table("Growth of a build with n: cost as n^p", ["", "ours", "libsvm"], rows)


if __name__ == "__main__":
    sys.exit(main())
