"""Checkpoints: one safetensors file with model, optimizer and what is needed to go on.

Tensors are named ``model.NAME`` and ``optimizer.NAME.FIELD``; the header's entry ``svmemory`` is a
JSON document with the format's number, the two configurations, the step and the SHA-256 of the
text (checkpoints of before it was stored have none). The file is replaced
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
    text : str or None
        SHA-256 of the text, in hex.
    """

    model: dict[str, Any]
    training: dict[str, Any]
    step: int
    tensors: dict[str, Tensor]
    text: str | None = None

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
            self.load_into(model, assign=True)
        except (TypeError, AttributeError, KeyError, ValueError, RuntimeError) as error:
            raise FileFormatError(f"the checkpoint does not fit its model: {error}") from None
        return model.eval()

    def load_into(self, model: ByteLM, assign: bool = False) -> None:
        """Put the tensors into a model, copied or, with ``assign``, as they are.

        Raises
        ------
        FileFormatError
            If a tensor is missing, left over, or of another shape or type.
        InputError
            If a layer has other settings.
        """
        stored = self.part("model")
        # settings of layers are compared by the layers, and older checkpoints have none
        expected = {n: t for n, t in model.state_dict().items() if not n.endswith("_extra_state")}
        names = {n for n in stored if not n.endswith("_extra_state")}
        for name in sorted(expected.keys() | names):
            _compare(f"model.{name}", stored.get(name), expected.get(name))
        model.load_state_dict(stored, assign=assign)


def _compare(name: str, stored: Tensor | None, expected: Tensor | None) -> None:
    """FileFormatError unless a stored tensor has the shape and type of the expected one."""
    if stored is None:
        raise FileFormatError(f"the checkpoint lacks the tensor {name}")
    if expected is None:
        raise FileFormatError(f"the checkpoint has a tensor {name} that its model has not")
    if stored.shape != expected.shape or stored.dtype != expected.dtype:
        raise FileFormatError(
            f"the checkpoint's tensor {name} is {stored.dtype} {tuple(stored.shape)}, "
            f"not {expected.dtype} {tuple(expected.shape)}"
        )


def save(
    path: Path,
    model: ByteLM,
    optimizer: torch.optim.Optimizer,
    training: dict[str, Any],
    step: int,
    text: str | None = None,
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
        "text": text,
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
        model, training, step = about["model"], about["training"], about["step"]
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path}: damaged or not a checkpoint: {error}") from None
    if not (isinstance(model, dict) and isinstance(training, dict)):
        raise FileFormatError(f"{path}: damaged: model and training must be objects")
    last = training.get("steps", step)
    if not (_is_whole(step) and _is_whole(last) and 0 <= step <= last):
        raise FileFormatError(f"{path}: damaged: step {step!r} of {last!r}")
    return Checkpoint(model, training, step, tensors, about.get("text"))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def restore_optimizer(
    checkpoint: Checkpoint, model: ByteLM, optimizer: torch.optim.Optimizer
) -> None:
    """Put AdamW's state back, parameter by parameter.

    Raises
    ------
    FileFormatError
        If a tensor is missing, or of another shape or type.
    """
    stored = checkpoint.part("optimizer")
    for name, parameter in model.named_parameters():
        start = name + "."
        # no field of an optimizer's state has a dot in its name, and a parameter's name may
        state = {
            n[len(start) :]: t
            for n, t in stored.items()
            if n.startswith(start) and "." not in n[len(start) :]
        }
        # no gradient ever reaches what acts on a prefix alone where sequences have one chunk
        if checkpoint.step and (state or not name.endswith(("log_ratio", "fade.power"))):
            for field, like in (
                ("step", torch.zeros(())),
                ("exp_avg", parameter),
                ("exp_avg_sq", parameter),
            ):
                _compare(f"optimizer.{name}.{field}", state.get(field), like)
        if state:
            optimizer.state[parameter] = {
                field: value if field == "step" else value.to(parameter.device)
                for field, value in state.items()
            }
