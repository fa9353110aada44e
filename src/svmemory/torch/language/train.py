"""Training of the byte-level model: AdamW, warm-up and cosine, checkpoints to go on from.

A run is a function of its configuration: the batch of a step depends on the seed and the step, the
dropout of a step on the seed, the step and the process. So a run that is stopped and goes on ends
in the same bits as one that is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import ConvergenceError, FileFormatError, InputError
from . import checkpoint
from .curves import LN2, Curves
from .model import ByteLM, ModelConfig, next_byte_loss
from .text import ByteText
from .world import World

CURVES = "curves.json"
PICTURE = "curves.png"

Progress = Callable[[int, Curves], None]


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Attributes
    ----------
    steps, batch, seed : int
        Steps in all; sequences a step, over all processes; seed of everything random.
    lr : float
        Learning rate at its highest; it rises over the first twentieth of the steps and falls to a
        tenth along a cosine.
    weight_decay, clip : float
        AdamW's decay of matrices, and the norm to which gradients are cut.
    eval_every, eval_windows, save_every : int
        Steps between validations, windows used for one, and steps between checkpoints.
    """

    steps: int
    batch: int = 16
    seed: int = 0
    lr: float = 3e-3
    weight_decay: float = 0.1
    clip: float = 1.0
    eval_every: int = 50
    eval_windows: int = 64
    save_every: int = 200

    def __post_init__(self) -> None:
        whole = ("steps", "batch", "eval_every", "eval_windows", "save_every")
        for name in whole:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.lr > 0:
            raise InputError(f"lr must be > 0, got {self.lr}")

    def rate(self, step: int) -> float:
        """Learning rate of step ``step``, counted from 0."""
        rise = max(1, self.steps // 20)
        if step < rise:
            return self.lr * (step + 1) / rise
        way = (step - rise) / max(1, self.steps - rise)
        return self.lr * (0.1 + 0.45 * (1.0 + math.cos(math.pi * way)))


class Trainer:
    """One run.

    Sets PyTorch's global random state, and expects it for itself while it runs.

    Parameters
    ----------
    model, training : ModelConfig, TrainConfig
    text : ByteText
    out : Path
        Folder for checkpoint and curves.
    world : World
    resume : bool
        Go on from the checkpoint in ``out``.

    Raises
    ------
    InputError
        If the batch cannot be shared out, or the checkpoint is of another run or text.
    FileFormatError, OSError
        If the checkpoint cannot be read or gone on from.
    """

    def __init__(
        self,
        model: ModelConfig,
        training: TrainConfig,
        text: ByteText,
        out: Path,
        world: World,
        *,
        resume: bool = False,
    ) -> None:
        if training.batch % world.size:
            raise InputError(f"batch {training.batch} does not divide by {world.size} processes")
        self.config = training
        self.text = text
        self.out = out
        self.world = world
        self.step = 0
        self.curves = Curves()
        torch.manual_seed(training.seed)
        self.model = ByteLM(model).to(world.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameter_groups(training.weight_decay), lr=training.lr, betas=(0.9, 0.95)
        )
        if resume:
            self._resume()
        self._shared = world.shared(self.model)
        self._windows = text.validation_windows(training.eval_windows)

    def run(self, until: int | None = None, progress: Progress | None = None) -> Curves:
        """Train up to ``until`` steps (default: all) and save.

        Raises
        ------
        ConvergenceError
            If the loss is no longer a finite number; the last checkpoint stays.
        """
        end = self.config.steps if until is None else min(until, self.config.steps)
        while self.step < end:
            self._advance()
            last = self.step == end
            if self.step % self.config.eval_every == 0 or self.step == self.config.steps:
                self.curves.validation_step.append(self.step)
                self.curves.validation.append(self.validate())
            if last or self.step % self.config.save_every == 0:
                self.save()
            if progress is not None:
                progress(self.step, self.curves)
        return self.curves

    def validate(self) -> float:
        """Bits per byte on the validation windows."""
        self.model.eval()
        mine = self._windows[self.world.rank :: self.world.size]
        total = torch.zeros((), dtype=torch.float64)
        with torch.no_grad():
            for windows in torch.split(mine, self.config.batch):
                loss = next_byte_loss(self.model, windows.to(self.world.device))
                total += loss.double().cpu() * len(windows)
        self.model.train()
        total = total.to(self.world.device)
        return self.world.mean(total) * self.world.size / len(self._windows) / LN2

    def save(self) -> None:
        """Write curves, then the checkpoint: what the checkpoint needs is there before it."""
        if self.world.first:
            self.curves.write(self.out / CURVES)
            path = self.out / checkpoint.NAME
            settings = asdict(self.config)
            checkpoint.save(path, self.model, self.optimizer, settings, self.step, self.text.digest)
        self.world.wait()

    def _advance(self) -> None:
        config, step = self.config, self.step
        for group in self.optimizer.param_groups:
            group["lr"] = config.rate(step)
        # one stream a step and process: dropout does not depend on what ran before
        torch.manual_seed((config.seed * 1_000_003 + step) * 1_009 + self.world.rank)
        batch = self.world.share(self.text.batch(config.seed, step, config.batch))
        self.optimizer.zero_grad(set_to_none=True)
        loss = next_byte_loss(self._shared, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        self._log(loss, norm)
        self.optimizer.step()
        self.step += 1

    def _log(self, loss: Tensor, norm: Tensor) -> None:
        value = self.world.mean(loss) / LN2
        if not (math.isfinite(value) and math.isfinite(float(norm))):
            raise ConvergenceError(
                f"step {self.step + 1}: loss {value:g}, gradient norm {float(norm):g}"
            )
        self.curves.loss.append(value)
        self.curves.gradient.append(float(norm))
        facts = [f for f in (m.gate_facts() for m in self.model.gated_layers()) if f is not None]
        if facts:
            mine = (
                sum(f.gradient**2 for f in facts),
                sum(f.support for f in facts) / len(facts),
                sum(f.unconverged for f in facts),
            )
            square, support, bad = (
                self.world.mean(torch.tensor(x, dtype=torch.float64)) for x in mine
            )
            # a process has the gradient of the mean over its own part of the batch
            self.curves.gate_gradient.append(math.sqrt(square / self.world.size))
            self.curves.support.append(support)
            self.curves.unconverged.append(round(bad * self.world.size))

    def _resume(self) -> None:
        found = checkpoint.load(self.out / checkpoint.NAME)
        refuse_another_run(found, self.model.config, self.config, self.text.digest)
        try:
            found.load_into(self.model)
            checkpoint.restore_optimizer(found, self.model, self.optimizer)
            curves = Curves.read(self.out / CURVES)
            if not curves.covers(found.step):
                raise ValueError(f"{CURVES} does not reach step {found.step}")
            self.curves = curves.until(found.step)
        except (RuntimeError, TypeError, ValueError) as error:
            raise FileFormatError(f"{self.out}: the run cannot go on: {error}") from None
        self.step = found.step


def refuse_another_run(
    found: checkpoint.Checkpoint, model: ModelConfig, training: TrainConfig, text: str
) -> None:
    """InputError unless a checkpoint is of a run with these settings on the text of this digest.

    A setting that did not exist when it was stored had its default then.
    """
    for name, stored, given, default in (
        ("model", found.model, model.as_dict(), ModelConfig(1, 1, 1, 1).as_dict()),
        ("training", found.training, asdict(training), asdict(TrainConfig(steps=1))),
    ):
        differing = _differing(_completed(stored, default), given)
        if differing:
            raise InputError(f"the checkpoint has another {name}: {', '.join(differing)}")
    if found.text not in (None, text):
        raise InputError("the checkpoint is of a run on another text")


def _completed(stored: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """What was stored, and the default of every setting that did not exist then."""
    return {
        name: _completed(stored[name], value)
        if isinstance(value, dict) and isinstance(stored.get(name), dict)
        else stored.get(name, value)
        for name, value in {**stored, **default}.items()
    }


def _differing(stored: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """Settings that differ, as ``name stored, not given``."""
    found = []
    for name in sorted(stored.keys() | given.keys()):
        old, new = stored.get(name), given.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differing(old, new)
        elif old != new:
            found.append(f"{name} {old}, not {new}")
    return found
