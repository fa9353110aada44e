"""What the gates of a trained model see: how wide their kernels are and how alike two rows."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import NamedTuple

import torch

from svmemory.torch.language import checkpoint
from svmemory.torch.language.text import ByteText

WINDOWS = 4


class View(NamedTuple):
    """Means over layers and heads: kernel width, and kernel value of two rows of a window."""

    gamma: float
    likeness: float


@torch.no_grad()
def view(path: Path, text: Path) -> View:
    """Run the model of a checkpoint on some validation windows and look at all gates' rows."""
    model = checkpoint.load(path).build()
    windows = ByteText.from_file(text, model.config.block).validation_windows(WINDOWS)[:, :-1]
    gammas: list[float] = []
    alike: list[float] = []

    def look(layer: torch.nn.Module, inputs: tuple[torch.Tensor], _: torch.Tensor) -> None:
        _, k, v = layer.queries_keys_values(inputs[0])
        rows = layer.gate_rows(k, v)
        gamma = layer.gamma()
        kernel = torch.exp(-gamma.view(-1, 1, 1) * torch.cdist(rows, rows).square())
        n = rows.shape[-2]
        others = kernel.sum(dim=(-1, -2)) - kernel.diagonal(dim1=-2, dim2=-1).sum(-1)
        gammas.extend(gamma.tolist())
        alike.extend((others / (n * (n - 1))).mean(0).tolist())

    handles = [layer.register_forward_hook(look) for layer in model.gated_layers()]
    model(windows)
    for handle in handles:
        handle.remove()
    return View(statistics.mean(gammas), statistics.mean(alike))
