"""What is done for one group, in whatever process, and what comes back."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cloudpickle
import numpy as np

from .. import file
from ..contract import Contract
from ..errors import InputError
from ..inputs import as_matrix, listed
from ..memory import SupportVectorMemory
from .group import Group, Task
from .result import CohortResult, describe, failed

Apply = Callable[[SupportVectorMemory, Group], Any]


@dataclass(frozen=True)
class Work:
    """What every group of a cohort has in common; exactly one of C and nu is given."""

    gamma: float
    C: float | None
    nu: float | None
    ridge: float
    header: dict[str, Any]
    apply: Apply | None

    def contract(self, n: int) -> Contract:
        """Contract of a group of ``n`` rows: nu is turned into a cap here, once."""
        if self.nu is not None:
            return Contract.from_nu(self.nu, n, self.gamma, self.ridge)
        if self.C is None:
            raise InputError("give exactly one of C and nu")
        return Contract.from_cap(self.gamma, self.C, self.ridge)

    def memory(self, group: Group) -> SupportVectorMemory:
        """The group's memory."""
        ids = None if group.ids is None else listed(group.ids)
        keys = as_matrix(group.keys, "keys", None, ids)
        memory = SupportVectorMemory.from_contract(self.contract(len(keys)))
        memory.add(keys, group.values, ids, group.subjects)
        memory.header = {**deepcopy(self.header), "group": str(group.name)}
        return memory


def perform(packed_work: bytes, task: Task, packed_group: bytes | None) -> tuple[int, bytes]:
    """Build one group's memory and use it; whatever goes wrong in there is the result.

    All that travels is bytes, packed and opened here, so that what cannot be packed or opened is
    the failure of one group. Inside joblib it would end the whole call, and with Dask never end it.

    Returns
    -------
    int, bytes
        The task's number, and its result for :func:`opened`.
    """
    try:
        result = CohortResult(task.name, task.index, "failed", error=task.problem)
        if packed_group is not None:
            result = _result(_opened(packed_work), task, pickle.loads(packed_group))
        return task.index, pack(result)
    except (Exception, SystemExit) as error:  # an exit in apply would end the worker
        return task.index, pack(failed(task, error))


def opened(packed_result: bytes, task: Task) -> CohortResult:
    """The result of a task, as it came back from a worker."""
    try:
        return pickle.loads(packed_result)  # type: ignore[no-any-return]
    except Exception as error:
        return failed(task, error)


def packed(task: Task) -> tuple[Task, bytes | None]:
    """What :func:`perform` takes: the task without its group, and the group as bytes."""
    bare = Task(task.index, task.name, None, task.problem)
    if task.group is None:
        return bare, None
    try:
        return bare, pack(task.group)
    except Exception as error:
        return Task(task.index, task.name, None, describe(error)), None


def pack(thing: object) -> bytes:
    """Bytes for :func:`pickle.loads`, also of functions that are defined on the spot."""
    return bytes(cloudpickle.dumps(thing))


@lru_cache(maxsize=2)
def _opened(packed_work: bytes) -> Work:
    return pickle.loads(packed_work)  # type: ignore[no-any-return]


def ready(packed_work: bytes) -> bool:
    """True from a worker that can read the work, so that it can do it."""
    return isinstance(_opened(packed_work), Work)


def _result(work: Work, task: Task, group: Group) -> CohortResult:
    memory = work.memory(group)
    # The digest also puts the memory in canonical form. So apply does not see the engine's own
    # floats, which may differ between the machines of a cluster.
    digest = memory.digest() if memory.contract.ridge > 0 else None
    rows = len(memory)  # apply may change the memory
    data, output = None, None
    if work.apply is None:
        data = _file_bytes(memory, digest)
    else:
        output = work.apply(memory, group)
    return CohortResult(task.name, task.index, "done", rows, digest, data, output)


def _file_bytes(memory: SupportVectorMemory, digest: str | None) -> bytes:
    rows = memory._held.in_id_order()
    return file.to_bytes(file.Content(memory.contract, rows, digest, memory.header))


def warm_up(work: Work) -> None:
    """Compile, in this process, what the workers will need; they read it from the disk cache.

    Else every worker would compile for itself, a minute long.
    """
    noise = np.random.default_rng(0)
    group = Group("warm-up", noise.standard_normal((40, 3)), noise.standard_normal((40, 1)))
    memory = Work(1.0 / 3.0, None, 0.3, work.ridge, {}, None).memory(group)
    if work.ridge > 0:
        memory.digest()
    memory.read(memory.keys[:2])
    memory.score(memory.keys[:2])
    memory.forget(ids=["3"])
