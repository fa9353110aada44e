"""The processes of a run started by torchrun; a run without torchrun is a world of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """One process among all.

    Attributes
    ----------
    rank, size : int
        Number of this process, and how many there are.
    device : torch.device
    """

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def shared(self, model: nn.Module) -> nn.Module:
        """The model, with gradients averaged over all processes."""
        if self.size == 1:
            return model
        # a block of one chunk has no gate: its width gets no gradient
        return DistributedDataParallel(model, find_unused_parameters=True)

    def share(self, batch: Tensor) -> Tensor:
        """The part of a batch that falls to this process."""
        return batch[self.rank :: self.size].to(self.device)

    def mean(self, value: Tensor) -> float:
        """Mean of a number over all processes."""
        total = value.detach().to(self.device, torch.float64, copy=True)  # it is summed in place
        if self.size > 1:
            distributed.all_reduce(total)
        return float(total) / self.size

    def wait(self) -> None:
        """Return when all processes have come here."""
        if self.size > 1:
            distributed.barrier()


@contextmanager
def joined(device: str | None = None) -> Iterator[World]:
    """Join the processes that torchrun started.

    Parameters
    ----------
    device : str, optional
        By default a GPU if there is one, else the CPU.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda" and size > 1:
        kind = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    place = torch.device(kind)
    if size == 1:
        yield World(0, 1, place)
        return
    if place.type == "cuda":
        torch.cuda.set_device(place)
    distributed.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield World(rank, size, place)
    finally:
        distributed.destroy_process_group()
