"""Two processes write to one memory at once; nothing may be lost.

python tests/store_race.py URL
"""

from __future__ import annotations

import os
import sys

from stores import CONTRACT, never_saw, people
from svmemory.store import Store

EACH = 24


def worker(url: str, first: int) -> None:
    """Adds rows one by one, and forgets every fourth of them a little later."""
    with Store(url) as store:
        memory = store.open("m")
        for i in range(first, first + EACH):
            memory.add(**people(range(i, i + 1)))
            if i % 4 == 3:
                receipt = memory.forget(ids=f"row-{i - 2:04d}")
                if receipt.removed != [f"row-{i - 2:04d}"]:
                    raise RuntimeError(f"{receipt}")


def main(url: str) -> int:
    with Store(url) as store:
        store.create("m", CONTRACT)
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                worker(url, number * EACH)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    failed = [os.waitpid(child, 0)[1] for child in children]
    expected = [i for i in range(2 * EACH) if i % 4 != 1]
    with Store(url) as store:
        memory = store.open("m")
        same = memory.digest() == never_saw(expected)
        changes, numbers = memory.generation, [kept["number"] for kept in memory.receipts()]
    print(f"{changes} changes, {len(numbers)} receipts, digest {'equal' if same else 'differs'}")
    whole = changes == 2 * EACH + EACH // 2 and numbers == list(range(1, EACH // 2 + 1))
    return int(any(failed) or not same or not whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
