"""Peak memory of building and deleting, and memory at rest; every figure from a fresh process.

The peak counts what resident memory grew by, beyond the interpreter with all libraries loaded and
the input keys in place.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

import peers
from common import Report, arguments, exponent, forget_peak, resident_bytes
from paper_algorithm import PaperMemory
from svmemory import Contract, SupportVectorMemory
from workloads import GAMMA, certified, gaussian, never_saw

Floats = NDArray[np.float64]

DIMENSION = 6
NU = 0.1
DELETIONS = 20


Job = tuple[Callable[..., Any], tuple[Any, ...]]


def alone(jobs: Sequence[Job]) -> list[Any]:
    """Results of function calls, each in a fresh process, two at a time: no time is measured."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as pool:
        running = [pool.submit(call, *arguments) for call, arguments in jobs]
        return [job.result() for job in running]


def start() -> int:
    """Resident bytes now, after tidying up; the peak is counted from here."""
    gc.collect()
    forget_peak()
    return resident_bytes()


def ours(n: int, seed: int) -> tuple[int, Floats, float, bool]:
    """Peak of a build and 20 deletions; then, for the paper's start, weights of all rows."""
    keys, values = gaussian(n, DIMENSION, seed)
    contract = Contract.from_nu(NU, n, GAMMA)
    _warm(contract)
    base = start()
    memory = SupportVectorMemory.from_contract(contract)
    memory.add(keys, values, range(n))
    for row in range(DELETIONS):
        memory.forget(row)
    growth = resident_bytes(peak=True) - base
    rest = list(range(DELETIONS, n))
    exact = memory.copy().digest() == never_saw(contract, keys[rest], values[rest], rest, seed)
    full = SupportVectorMemory.from_contract(contract)
    full.add(keys)
    full.canonicalise()
    weights = np.where(full.masses == 1.0, contract.C, full.weights)
    return growth, weights, contract.C, exact and certified(memory)


def libsvm(n: int, seed: int) -> int:
    """Peak of one refit, with the cache that the speed benchmarks give it."""
    keys, _ = gaussian(n, DIMENSION, seed)
    contract = Contract.from_nu(NU, n, GAMMA)
    peers.libsvm(keys[:200], Contract.from_nu(NU, 200, GAMMA))
    base = start()
    peers.libsvm(keys, contract)
    return resident_bytes(peak=True) - base


def paper(n: int, seed: int, weights: Floats, cap: float) -> int:
    """Peak of the dense kernel matrix and 20 deletions."""
    keys, _ = gaussian(n, DIMENSION, seed)
    base = start()
    memory = PaperMemory(keys, weights, cap, GAMMA)
    for _ in range(DELETIONS):
        memory.delete(0)
    return resident_bytes(peak=True) - base


def at_rest(n: int, seed: int) -> tuple[int, int]:
    """Bytes of a memory with 1/C = 200 built from n rows in one call, and bytes of the rows."""
    contract = Contract(GAMMA, 200.0)
    _warm(contract)
    base = start()
    memory = SupportVectorMemory.from_contract(contract)
    memory.add(*gaussian(n, DIMENSION, seed))
    gc.collect()
    return resident_bytes() - base, len(memory) * (DIMENSION + 3) * 8


def _warm(contract: Contract) -> None:
    """Load and compile everything, so that none of it is counted later."""
    keys, values = gaussian(900, DIMENSION, 99)
    memory = SupportVectorMemory.from_contract(Contract(contract.gamma, 30.0))
    memory.add(keys[:600], values[:600])
    memory.add(keys[600:], values[600:])
    memory.forget(["1", "2"])
    memory.digest()
    certified(memory)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything measured was exact."""
    args = arguments(__doc__).parse_args(argv)
    settings = {"d": DIMENSION, "dv": 3, "nu": NU, "deletions": DELETIONS}
    report = Report("memory use", args.quick, args.seed, settings)
    sizes = (1024, 2048) if args.quick else (2048, 4096, 8192)
    lengths = (20_000,) if args.quick else (20_000, 200_000)
    first = alone(
        [(ours, (n, args.seed)) for n in sizes]
        + [(libsvm, (n, args.seed)) for n in sizes]
        + [(at_rest, (n, args.seed)) for n in lengths]
    )
    count = len(sizes)
    built, refitted, held_at_rest = first[:count], first[count : 2 * count], first[2 * count :]
    starts = [
        (n, args.seed, weights, cap) for n, (_, weights, cap, _) in zip(sizes, built, strict=True)
    ]
    dense_peaks = alone([(paper, start_from) for start_from in starts])
    rows, peaks = [], []
    for n, (mine, _, _, exact), theirs, dense in zip(
        sizes, built, refitted, dense_peaks, strict=True
    ):
        report.check(f"n = {n:,}: digest is that of a fresh memory, and certified", exact)
        peaks.append((mine, theirs, dense))
        rows.append([n, mine / 1e6, theirs / 1e6, dense / 1e6, theirs / mine, dense / mine])
    report.table(
        "Peak growth of resident memory",
        ["rows", "ours, MB", "libsvm, MB", "paper, MB", "libsvm / ours", "paper / ours"],
        rows,
    )
    ours_peak, libsvm_peak, paper_peak = zip(*peaks, strict=True)
    report.table(
        "Growth with n at nu = 0.1: peak as n^p",
        ["", "p"],
        [
            ["ours", exponent(sizes, ours_peak)],
            ["libsvm", exponent(sizes, libsvm_peak)],
            ["paper", exponent(sizes, paper_peak)],
        ],
    )
    report.at_least(f"paper / ours, n = {sizes[-1]:,}", paper_peak[-1] / ours_peak[-1])
    report.at_least(f"libsvm / ours, n = {sizes[-1]:,}", libsvm_peak[-1] / ours_peak[-1])
    rest = []
    for n, (held, data) in zip(lengths, held_at_rest, strict=True):
        rest.append([n, data / 1e6, held / 1e6, held / data])
    report.table(
        "At rest, 1/C = 200, built in one call",
        ["rows", "keys and values, MB", "resident, MB", "ratio"],
        rest,
    )
    report.at_most(f"resident / keys and values, {rest[-1][0]:,} rows at rest", rest[-1][-1])
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
