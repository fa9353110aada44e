"""A subject with a tenth of the rows forgotten in one call, against building anew without it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np

import peers
from common import Report, arguments, median_ratio, timed
from svmemory import Contract, SupportVectorMemory
from workloads import GAMMA, certified, gaussian

DIMENSION = 6
SHARE = 0.1
# rows, nu, turns, target
FULL = ((20_000, 0.01, 5, 1.0), (20_000, 0.05, 5, 1.0), (20_000, 0.2, 3, 1.0))
QUICK = ((600, 0.05, 3, None),)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact and no target was missed."""
    args = arguments(__doc__).parse_args(argv)
    settings = {"d": DIMENSION, "gamma": GAMMA, "share of the subject": SHARE}
    report = Report("subject forget", args.quick, args.seed, settings)
    for n, nu, turns, target in QUICK if args.quick else FULL:
        compare(report, n, nu, turns, target)
    return report.finish(args.json)


def compare(report: Report, n: int, nu: float, turns: int, target: float | None) -> None:
    """One memory: forgetting, building anew and libsvm's refit take turns."""
    name = f"{n:,} rows, nu = {nu:g}"
    keys, values = gaussian(n, DIMENSION, report.seed)
    rng = np.random.default_rng([report.seed, 4])
    gone = np.zeros(n, dtype=bool)
    gone[rng.choice(n, int(SHARE * n), replace=False)] = True
    stays = np.flatnonzero(~gone)
    subjects = ["the subject" if g else f"other {i % 97}" for i, g in enumerate(gone)]
    kept = [subjects[i] for i in stays]
    contract = Contract.from_nu(nu, n, GAMMA)
    full = SupportVectorMemory.from_contract(contract)
    full.add(keys, values, range(n), subjects)

    def anew() -> SupportVectorMemory:
        fresh = SupportVectorMemory.from_contract(contract)
        fresh.add(keys[stays], values[stays], stays, kept)
        return fresh

    full.copy().forget(full.ids[:20])  # compile
    ours, build, refit, with_weight = [], [], [], 0
    for _ in range(turns):
        memory = full.copy()
        seconds, result = timed(partial(memory.forget, subject="the subject"))
        ours.append(seconds)
        seconds, fresh = timed(anew)
        build.append(seconds)
        refit.append(timed(partial(peers.libsvm, keys[stays], contract))[0])
        with_weight = sum(was != "reserve" for was in result.former.values())
        good = certified(memory) and memory.digest() == fresh.digest()
        report.check(f"{name}: digest is that of the memory built anew", good)
    report.at_least(f"building anew / forgetting, {name}", median_ratio(build, ours), target)
    report.at_least(f"libsvm refit / forgetting, {name}", median_ratio(refit, ours))
    report.table(
        name,
        ["rows forgotten", "of these with weight", "refits"],
        [[int(gone.sum()), with_weight, result.refits]],
    )


if __name__ == "__main__":
    sys.exit(main())
