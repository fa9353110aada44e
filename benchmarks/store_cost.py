"""What a store adds to a memory in RAM: opening, adding, forgetting, and the purge of the files.

*Forget* is the transaction alone; *forget and purge* is what a store does by default, and the purge
rewrites the whole file. *Open* checks the stored optimum; *solved* is a solve from scratch instead.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from common import Report, arguments, timed
from svmemory import Contract, SupportVectorMemory
from svmemory.store import Store
from workloads import gaussian

DIMENSION, NU, GAMMA = 16, 0.2, 0.05
FULL, QUICK = (2_000, 20_000), (300,)
TURNS = 10
KINDS = ("plain", "encrypted")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if every digest was that of a memory in RAM."""
    args = arguments(__doc__).parse_args(argv)
    sizes = QUICK if args.quick else FULL
    settings = {"d": DIMENSION, "nu": NU, "gamma": GAMMA, "turns": TURNS}
    report = Report("store cost", args.quick, args.seed, settings)
    table = []
    for n in sizes:
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                table.append([n, kind, *_measure(Path(folder), n, kind, report, args.seed)])
    columns = ["rows", "store", "open", "solved", "add", "add in RAM", "forget"]
    report.table(
        "Milliseconds; one row a call, medians",
        [*columns, "forget and purge", "forget in RAM", "kB"],
        table,
    )
    return report.finish(args.json)


def _measure(folder: Path, n: int, kind: str, report: Report, seed: int) -> list[float]:
    keys, values = gaussian(n + TURNS, DIMENSION, seed)
    names = [f"row-{i:06d}" for i in range(n + TURNS)]
    contract = Contract.from_nu(NU, n, GAMMA)
    ram = SupportVectorMemory.from_contract(contract)
    ram.add(keys[:n], values[:n], names[:n], names[:n])
    ram.copy().forget(names[0])  # compiles
    path, vault = folder / "store.db", folder / "keys.db"
    with Store(path, vault=vault) as store:
        store.put("m", ram, encrypted=kind == "encrypted")
    with Store(path, vault=vault, purge="later") as later, Store(path, vault=vault) as now:
        opened, memory = timed(lambda: later.open("m"))
        fresh = SupportVectorMemory.from_contract(contract)
        solved, _ = timed(lambda: fresh.add(keys[:n], values[:n], names[:n], names[:n]))
        added = [_each(_adding(memory, keys, values, names, n + i)) for i in range(TURNS)]
        in_ram = [_each(_adding(ram, keys, values, names, n + i)) for i in range(TURNS)]
        forgot = [_each(lambda i=i: memory.forget(names[i])) for i in range(TURNS)]
        now.purge()
        purging = now.open("m")
        both = [_each(lambda i=i: purging.forget(names[i])) for i in range(TURNS, 2 * TURNS)]
        gone = [_each(lambda i=i: ram.forget(names[i])) for i in range(2 * TURNS)]
        same = memory.digest() == purging.digest() == ram.digest()
    report.check(f"{n} rows, {kind}: the digest is that of a memory in RAM", same)
    size = path.stat().st_size / 1000
    medians = map(statistics.median, (added, in_ram, forgot, both, gone))
    return [1e3 * opened, 1e3 * solved, *(1e3 * x for x in medians), size]


def _each(call: Callable[[], object]) -> float:
    return timed(call)[0]


def _adding(
    memory: object, keys: np.ndarray, values: np.ndarray, names: list[str], i: int
) -> Callable[[], object]:
    part = slice(i, i + 1)
    return lambda: memory.add(keys[part], values[part], names[part], names[part])  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
