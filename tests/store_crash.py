"""Kill a process that works on a store, at random moments, and compare what is left.

    python tests/store_crash.py 200            # points; about half a minute

After each kill the store is opened again. Its generation says how many operations were committed,
and its digest must be that of a plain memory after just those. Keys of rows that it does not hold
must be in none of its files. Prints one line; exit 1 on any difference. A fork does the work, so
that nothing is imported or compiled anew for each point.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from svmemory import Contract, SupportVectorMemory
from svmemory.store import Store

CONTRACT = Contract.from_cap(0.5, 0.1)
LENGTH = 60
MOST = 12 * LENGTH  # rows that a workload can have


def operations(seed: int) -> list[tuple[str, list[int]]]:
    """A mixed workload: rows to add, forget (by id or subject), evict or prune."""
    draw = random.Random(seed)
    held: list[int] = []
    listed, fresh = [], 0
    for _ in range(LENGTH):
        verb = (
            draw.choice(["add", "add", "forget", "subject", "evict"]) if len(held) > 12 else "add"
        )
        if verb == "add":
            rows = list(range(fresh, fresh + draw.randint(1, 12)))
            fresh += len(rows)
            held += rows
        elif verb == "forget":
            rows = draw.sample(held, draw.randint(1, 4))
            held = [i for i in held if i not in rows]
        elif verb == "subject":
            rows = [draw.choice(held) // 3]
            held = [i for i in held if i // 3 != rows[0]]
        else:
            rows = [len(held) - 3]
        listed.append((verb, rows))
        if verb == "evict":
            held = []  # which rows stay is the memory's choice; start anew from what is added
            listed.append(("forget all", []))
    return listed


def rows_of(rows: list[int]) -> dict[str, object]:
    return {
        "keys": np.array([np.random.default_rng(i).normal(size=3) for i in rows]),
        "ids": [f"r{i}" for i in rows],
        "subjects": [f"s{i // 3}" for i in rows],
    }


def apply(memory: object, verb: str, rows: list[int]) -> None:
    """One operation on a stored memory."""
    if verb == "add":
        memory.add(**rows_of(rows))  # type: ignore[attr-defined]
    elif verb == "forget":
        memory.forget(ids=[f"r{i}" for i in rows])  # type: ignore[attr-defined]
    elif verb == "subject":
        memory.forget(subject=f"s{rows[0]}")  # type: ignore[attr-defined]
    elif verb == "evict":
        memory.evict(rows[0])  # type: ignore[attr-defined]
    else:
        memory.forget(ids=memory.ids)  # type: ignore[attr-defined]


def expected(seed: int) -> list[str]:
    """Digest of a plain memory after 0, 1, 2, ... operations."""
    from svmemory.store.eviction import evictable

    memory = SupportVectorMemory.from_contract(CONTRACT)
    digests = [memory.digest()]
    for verb, rows in operations(seed):
        if verb == "evict":
            memory.forget(ids=evictable(memory, rows[0]))
        else:
            apply(memory, verb, rows)
        digests.append(memory.digest())
    return digests


def work(path: Path, seed: int, encrypted: bool) -> None:
    """The whole workload, in a process that is about to be killed."""
    vault = path.with_suffix(".keys") if encrypted else None
    with Store(path, vault=vault) as store:
        memory = store.create("m", CONTRACT, encrypted=encrypted)
        for verb, rows in operations(seed):
            apply(memory, verb, rows)


def killed_after(seconds: float, path: Path, seed: int, encrypted: bool) -> bool:
    """Run :func:`work` in a fork and kill it; whether it was still at work."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(path, seed, encrypted)
            code = 0
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("the workload failed by itself")
    return os.WIFSIGNALED(status)


def left(path: Path, encrypted: bool) -> tuple[int, str, int] | None:
    """Operations committed, digest, and rows not held whose keys are in the files all the same.

    None if not even the memory was made.
    """
    with Store(path, vault=path.with_suffix(".keys") if encrypted else None) as store:
        if not store.names:
            return None
        memory = store.open("m")
        found = memory.generation, memory.digest()
        held = set(memory.ids)
    files = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.stem}.*"))
    gone = [i for i in range(MOST) if f"r{i}" not in held]
    keys = np.asarray(rows_of(gone)["keys"])
    here = [int(name[1:]) for name in held]
    if here and not encrypted:  # the search finds what is there
        control = np.asarray(rows_of(here)["keys"])
        if not all(key.tobytes() in files for key in control):
            raise RuntimeError("a row that is held was not found in the files")
    return *found, sum(key.tobytes() in files for key in keys)


def main(points: int, seed: int = 1) -> int:
    draw = random.Random(seed)
    wrong, traces, tries, at_work, places = 0, 0, 0, 0, set()
    digests = expected(seed)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        work(Path(folder, "whole.db"), seed, False)
        whole = time.perf_counter() - start
        while at_work < points:
            tries += 1
            encrypted = tries % 4 == 3
            path = Path(folder, f"{tries}.db")
            moment = draw.uniform(0.0, whole * (1.6 if encrypted else 1.0))
            at_work += killed_after(moment, path, seed, encrypted)
            found = left(path, encrypted)
            if found is not None:
                places.add(found[0])
                wrong += found[1] != digests[found[0]]
                traces += found[2]
    print(
        f"{at_work} kills of a process at work, after {len(places)} different operations of"
        f" {len(digests) - 1}: {wrong} stores differ from the committed prefix,"
        f" {traces} deleted rows left traces"
    )
    return int(wrong + traces > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *map(int, sys.argv[2:])))
