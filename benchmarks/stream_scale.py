"""A long stream into one memory: what a row costs at the end, what memory grows by, and the peers.

Rows of a redundant mixture arrive 1,000 at a time under 1/C = 200. Three things are beside it:
libsvm refitted after every 1,000 rows (timed at eight sizes as the stream passes them, and summed
by interpolation on the log-log line), SGDOneClassSVM over Nystroem features on the same blocks
(which is approximate), and the memory itself at 10,000 rows. With --cold FOLDER, keys and values
live in a file there instead of in memory.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

import peers
from common import Report, arguments, exponent, resident_bytes, timed
from svmemory import Contract, SupportVectorMemory
from workloads import CERTIFIED, GAMMA, Mixture, never_saw

MASS = 200.0
BLOCK = Mixture.BLOCK
DIMENSION = 6
ROW_BYTES = (DIMENSION + 1) * 8  # a key and its value
SINGLES = 100  # rows added, and forgotten, one call each
# Length of the stream; rows at which the early cost is taken, and at which a fresh memory is built.
FULL = (1_000_000, 10_000, 20_000)
QUICK = (6_000, 3_000, 4_000)


class Plan(NamedTuple):
    """Rows in all, rows at the early look, rows at the comparison with a fresh memory."""

    rows: int
    early: int
    digest: int


@dataclass
class Stream:
    """What is measured along the way.

    Attributes
    ----------
    blocks, sketch : list of float
        Seconds of each block: ours, and SGDOneClassSVM's.
    singles, forgets : dict
        Rows held: median seconds to add, and to forget, one row by one call.
    refits : dict
        Rows held: seconds of libsvm's refit.
    resident : list of int
        Bytes beyond the start, now and then.
    """

    memory: SupportVectorMemory
    blocks: list[float] = field(default_factory=list)
    sketch: list[float] = field(default_factory=list)
    singles: dict[int, float] = field(default_factory=dict)
    forgets: dict[int, float] = field(default_factory=dict)
    refits: dict[int, float] = field(default_factory=dict)
    resident: list[int] = field(default_factory=list)
    digest: bool = False


def run(plan: Plan, seed: int, cold: Path | None) -> tuple[Stream, peers.Sketch]:
    """Feed the stream; the peers take turns with it, libsvm in a process of its own."""
    rows = plan.rows
    contract = Contract(GAMMA, MASS)
    source = Mixture(seed)
    warm(contract, source, cold)
    sketch = peers.Sketch(contract, rows, seed)
    sketch.add(source.block(0)[0])
    marks = sorted({int(BLOCK * round(n / BLOCK)) for n in np.geomspace(BLOCK, rows, 8)})
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(peers.libsvm_on_stream, seed, BLOCK, contract).result()  # load the libraries
        stream = Stream(SupportVectorMemory.from_contract(contract, cold=cold))
        gc.collect()
        start = resident_bytes()
        for number in range(rows // BLOCK):
            keys, values = source.block(number)
            stream.blocks.append(timed(partial(stream.memory.add, keys, values))[0])
            stream.sketch.append(timed(partial(sketch.add, keys))[0])
            held = (number + 1) * BLOCK
            if held in marks:
                times = 3 if held <= 50_000 else 1
                seconds = [
                    pool.submit(peers.libsvm_on_stream, seed, held, contract).result()
                    for _ in range(times)
                ]
                stream.refits[held] = statistics.median(seconds)
                print(f"{held:,} rows", file=sys.stderr)  # a long run shows where it is
            if held in (plan.early, rows):
                one_by_one(stream, source, held)
            if held == plan.digest:
                stream.digest = same_digest(stream.memory, source, held, seed)
            if held % max(BLOCK, rows // 20) == 0:
                gc.collect()
                stream.resident.append(resident_bytes() - start)
    return stream, sketch


def warm(contract: Contract, source: Mixture, cold: Path | None) -> None:
    """Load and compile everything, so that none of it is counted later."""
    memory = SupportVectorMemory.from_contract(contract, cold=cold)
    for number in range(3):
        keys, values = source.block(number)
        memory.add(keys[:400], values[:400])
    memory.add(keys[400:401], values[400:401])
    memory.forget(5)
    memory.copy().digest()
    memory.kkt()


def one_by_one(stream: Stream, source: Mixture, held: int) -> None:
    """Add rows that the stream will not bring, one call each, and forget them one call each."""
    keys, values = source.block(10_000_000 + held)
    names = [f"single {row}" for row in range(SINGLES)]
    adds = [
        timed(partial(stream.memory.add, keys[[row]], values[[row]], [names[row]]))[0]
        for row in range(SINGLES)
    ]
    forgets = [timed(partial(stream.memory.forget, name))[0] for name in names]
    stream.singles[held] = statistics.median(adds)
    stream.forgets[held] = statistics.median(forgets)


def same_digest(memory: SupportVectorMemory, source: Mixture, held: int, seed: int) -> bool:
    """Whether the digest is that of a fresh memory, all in RAM, given the rows in another order."""
    parts = [source.block(number) for number in range(held // BLOCK)]
    keys = np.concatenate([keys for keys, _ in parts])
    values = np.concatenate([values for _, values in parts])
    return memory.digest() == never_saw(memory.contract, keys, values, range(held), seed)


def refit_work(refits: dict[int, float], rows: int) -> float:
    """Seconds of refitting at every multiple of 1,000 rows, from those that were timed."""
    sizes = np.array(sorted(refits))
    times = np.array([refits[size] for size in sizes.tolist()])
    every = np.arange(BLOCK, rows + 1, BLOCK)
    return float(np.exp(np.interp(np.log(every), np.log(sizes), np.log(times))).sum())


def tell(report: Report, stream: Stream, sketch: peers.Sketch, plan: Plan, cold: bool) -> None:
    """Tables, claims and checks."""
    rows, blocks, first = plan.rows, stream.blocks, plan.early // BLOCK
    early = statistics.median(blocks[first - 2 : first + 3])
    late = statistics.median(blocks[-max(5, len(blocks) // 20) :])
    report.at_most(f"cost of a block: at the end / at {plan.early:,} rows", late / early, 2.0)
    for what, seconds in (("add", stream.singles), ("forget", stream.forgets)):
        ratio = seconds[rows] / seconds[plan.early]
        report.at_most(f"{what} one row by one call: at the end / at {plan.early:,} rows", ratio)
    growth = max(stream.resident)
    if cold:
        report.at_most("growth of resident memory, MB", growth / 1e6, 100.0)
    else:
        report.at_most(
            "growth of resident memory / keys and values", growth / (rows * ROW_BYTES), 4.0
        )
    report.at_least(
        "libsvm refitted every 1,000 rows / ours, work in all",
        refit_work(stream.refits, rows) / sum(blocks),
        100.0,
    )
    report.at_least(
        "SGDOneClassSVM + Nystroem / ours, work in all", sum(stream.sketch) / sum(blocks)
    )
    sizes = sorted(stream.refits)
    report.table(
        "libsvm's refits timed, against ours per block of 1,000 at the same size",
        ["rows", "one refit / one block"],
        [[size, stream.refits[size] / blocks[size // BLOCK - 1]] for size in sizes],
    )
    held = [BLOCK * (i + 1) for i in range(len(blocks))]
    sampled = range(min(first, len(blocks) - 2), len(blocks))
    report.table(
        "Growth with the rows held: cost as n^p",
        ["", "p"],
        [
            ["ours, one block", exponent([held[i] for i in sampled], [blocks[i] for i in sampled])],
            ["libsvm, one refit", exponent(sizes, [stream.refits[size] for size in sizes])],
        ],
    )
    approximation(report, stream.memory, sketch)
    sets = stream.memory.partition
    stats = stream.memory.stats
    report.table(
        "The memory at the end",
        ["rows", "margin", "error", "events", "looks at reserve rows", "refits"],
        [
            [
                len(stream.memory),
                len(sets.margin),
                len(sets.error),
                stats.events,
                stats.reserve_checks,
                stats.refits,
            ]
        ],
    )
    kkt = stream.memory.kkt()
    report.check(f"KKT residual over all {rows:,} rows at most 1e-9", kkt.residual <= CERTIFIED)
    report.check(f"digest at {plan.digest:,} rows is that of a fresh memory", stream.digest)


def approximation(report: Report, memory: SupportVectorMemory, sketch: peers.Sketch) -> None:
    """How near the approximate peer comes to the optimum, near the stream and far from it."""
    near = Mixture(report.seed).block(20_000_000)[0]
    far = near + np.random.default_rng(report.seed).standard_normal(near.shape)
    points = np.concatenate([near, far])
    exact, approximate = memory.score(points), sketch.score(points)
    rank = spearmanr(exact, approximate).statistic
    share = len(points) // 20
    lowest = set(np.argsort(exact)[:share].tolist())
    shared = len(lowest & set(np.argsort(approximate)[:share].tolist())) / share
    report.table(
        "SGDOneClassSVM + Nystroem against the optimum, on new rows and jittered new rows",
        ["rank correlation of scores", "share of the 5 % most unusual that agree"],
        [[float(rank), shared]],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact and no target was missed."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--cold", type=Path, metavar="FOLDER", help="keep keys and values in a file in this folder"
    )
    args = parser.parse_args(argv)
    plan = Plan(*(QUICK if args.quick else FULL))
    settings = {
        "rows": plan.rows,
        "1/C": MASS,
        "d": DIMENSION,
        "gamma": GAMMA,
        "cold": bool(args.cold),
    }
    name = "stream scale, cold tier" if args.cold else "stream scale"
    report = Report(name, args.quick, args.seed, settings)
    stream, sketch = run(plan, args.seed, args.cold)
    tell(report, stream, sketch, plan, bool(args.cold))
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
