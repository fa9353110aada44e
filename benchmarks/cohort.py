"""One memory for each intensive-care stay, on one core and on two."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from common import Report, arguments, median_ratio, timed
from svmemory import SupportVectorMemory
from svmemory.audit.vitals import default_path, read_vitals, standardised
from svmemory.cohort import Group, build_cohort

GAMMA = 1.0 / 9.0  # sigma = 3
NU = 0.3
FILE = "vitals_setA_part1.npz"
TURNS = 3
QUICK_STAYS = 200
TARGET = 1.7

Floats = NDArray[np.float64]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact and no target was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help=f"stays (default: {FILE} of PhysioNet 2019)")
    args = parser.parse_args(argv)
    path = args.data or default_path() / FILE
    named = args.data is not None or path.exists()
    stays = read_vitals(path).stays if named else synthetic(args.seed)
    if args.quick:
        stays = stays[:QUICK_STAYS]
    groups = [Group(number, standardised(stay)) for number, stay in enumerate(stays)]
    settings = {
        "stays": len(groups),
        "rows": sum(map(len, stays)),
        "from": path.name if named else "synthetic",
        "nu": NU,
        "gamma": GAMMA,
        "load before": round(os.getloadavg()[0], 2),
    }
    report = Report("cohort", args.quick, args.seed, settings)
    compare(report, groups)
    report.settings["load after"] = round(os.getloadavg()[0], 2)
    return report.finish(args.json)


def synthetic(seed: int) -> tuple[Floats, ...]:
    """As many stays as the file has, of like lengths: random walks in six channels."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(3.6, 0.4, 10_168), 8, 336).astype(int)
    return tuple(rng.standard_normal((n, 6)).cumsum(axis=0) for n in lengths)


def compare(report: Report, groups: list[Group]) -> None:
    """Throughput of one job, of two, and of a plain loop, in turns; all digests are compared."""
    calls = {
        "1 job": partial(cohort, groups, 1),
        "2 jobs": partial(cohort, groups, 2),
        "plain loop": partial(plain_loop, groups),
    }
    started, _ = timed(partial(cohort, groups[:8], 2))
    expected = plain_loop(groups)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    same = len(expected) == len(groups)
    for turn in range(2 if report.quick else TURNS):
        for name in list(calls)[:: 1 if turn % 2 == 0 else -1]:
            taken, digests = timed(calls[name])
            seconds[name].append(taken)
            same = same and digests == expected
    rows = [
        [name, statistics.median(times), len(groups) / statistics.median(times)]
        for name, times in seconds.items()
    ]
    report.table("Median over turns", ["", "seconds", "memories a second"], rows)
    one, two, plain = (seconds[name] for name in calls)
    report.at_least("1 job / 2 jobs", median_ratio(one, two), TARGET)
    report.at_least("plain loop / 1 job", median_ratio(plain, one))
    report.check("all stays done, digests equal in all runs", same)
    turns = ", ".join(f"{a / b:.2f}" for a, b in zip(one, two, strict=True))
    report.notes.append(f"1 job / 2 jobs, turn by turn: {turns}")
    report.notes.append(f"Start of the workers, not counted above: {started:.1f} s")


def cohort(groups: list[Group], n_jobs: int) -> dict[str, str | None]:
    """Digest of every memory by name."""
    with threadpool_limits(1):  # one core a job, for linear algebra too
        results = build_cohort(groups, gamma=GAMMA, nu=NU, n_jobs=n_jobs)
        return {result.name: result.digest for result in results}


def plain_loop(groups: list[Group]) -> dict[str, str | None]:
    """The same by hand; files are not made."""
    digests: dict[str, str | None] = {}
    with threadpool_limits(1):
        for group in groups:
            keys = np.asarray(group.keys)
            memory = SupportVectorMemory.from_nu(NU, len(keys), gamma=GAMMA)
            memory.add(keys)
            digests[str(group.name)] = memory.digest()
    return digests


if __name__ == "__main__":
    sys.exit(main())
