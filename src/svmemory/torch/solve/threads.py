"""Independent problems shared out over threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")


def share_out(task: Callable[[int, T], None], count: int, make: Callable[[], T]) -> None:
    """Run ``task(i, scratch)`` for i < count on as many threads as PyTorch uses.

    ``make()`` gives each thread its scratch.

    The tasks are compiled code that lets go of the interpreter's lock. Threads live for one call:
    that costs some 0.1 ms and leaves nothing behind that a fork or a second caller could trip over.
    """
    tickets = itertools.count()

    def work() -> None:
        scratch = make()
        while (i := next(tickets)) < count:
            task(i, scratch)

    helpers = min(torch.get_num_threads(), count) - 1
    if helpers < 1:
        work()
        return
    with ThreadPoolExecutor(helpers) as pool:
        futures = [pool.submit(work) for _ in range(helpers)]
        work()
        for future in futures:
            future.result()
