"""Checkpoints: one safetensors file with model, optimizer and what is needed to go on.

Tensors are named ``model.NAME`` and ``optimizer.NAME.FIELD``; the header's entry ``svmemory`` is a
JSON document with the format's number, the two configurations and the step. The file is replaced
in one move, so that a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ...errors import FileFormatError
from .model import ByteLM, ModelConfig

FORMAT = 1
NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds.

    Attributes
    ----------
    model, training : dict
        Configurations.
    step : int
        Steps done.
    tensors : dict of str to Tensor
    """

    model: dict[str, Any]
    training: dict[str, Any]
    step: int
    tensors: dict[str, Tensor]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Tensors whose name starts with ``prefix.``, without it."""
        start = prefix + "."
        return {n[len(start) :]: t for n, t in self.tensors.items() if n.startswith(start)}

    def build(self) -> ByteLM:
        """The model, ready to evaluate.

        Raises
        ------
        FileFormatError
            If the tensors do not fit the configuration.
        """
        try:
            with torch.device("meta"):  # nothing is drawn: the tensors are all there
                model = ByteLM(ModelConfig.from_dict(self.model))
            model.load_state_dict(self.part("model"), assign=True)
        except (TypeError, KeyError, ValueError, RuntimeError) as error:
            raise FileFormatError(f"the checkpoint does not fit its model: {error}") from None
        return model.eval()


def save(
    path: Path,
    model: ByteLM,
    optimizer: torch.optim.Optimizer,
    training: dict[str, Any],
    step: int,
) -> None:
    """Write a checkpoint; OSError if it cannot be written."""
    tensors = {f"model.{n}": t.detach() for n, t in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for field, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{field}"] = torch.as_tensor(value)
    tensors = {name: value.cpu().contiguous() for name, value in tensors.items()}
    about = {
        "format": FORMAT,
        "model": model.config.as_dict(),
        "training": training,
        "step": step,
    }
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(tensors, unfinished, metadata={"svmemory": json.dumps(about)})
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    FileFormatError
        If the file is no checkpoint of this package.
    OSError
        If it cannot be read.
    """
    with open(path, "rb"):
        pass  # what safetensors says about a missing file differs from system to system
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if "svmemory" not in header:
                raise FileFormatError(f"{path}: not a checkpoint of svmemory train")
            about = json.loads(header["svmemory"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if about["format"] != FORMAT:
            raise FileFormatError(f"{path}: format {about['format']}, this version reads {FORMAT}")
        return Checkpoint(about["model"], about["training"], int(about["step"]), tensors)
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path}: damaged or not a checkpoint: {error}") from None


def restore_optimizer(
    checkpoint: Checkpoint, model: ByteLM, optimizer: torch.optim.Optimizer
) -> None:
    """Put the optimizer's state back, parameter by parameter."""
    stored = checkpoint.part("optimizer")
    for name, parameter in model.named_parameters():
        start = name + "."
        # no field of an optimizer's state has a dot in its name, and a parameter's name may
        state = {
            n[len(start) :]: t
            for n, t in stored.items()
            if n.startswith(start) and "." not in n[len(start) :]
        }
        if state:
            optimizer.state[parameter] = {
                field: value if field == "step" else value.to(parameter.device)
                for field, value in state.items()
            }
