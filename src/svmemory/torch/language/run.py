"""One training run from files to files, as the command line starts it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from ...errors import InputError
from . import checkpoint
from .model import ModelConfig
from .text import ByteText
from .train import CURVES, PICTURE, Progress, TrainConfig, Trainer
from .world import joined


@dataclass(frozen=True)
class RunReport:
    """What a run ended with.

    Attributes
    ----------
    attention : str
    parameters, step, processes : int
    training_loss : float
        Last step's, bits per byte.
    validation, best_validation : float or None
        Last and lowest, bits per byte; None before the first.
    support : float or None
        Mean number of prefix rows that a chunk read in the last step; None without a gate.
    matched_window : int or None
        Window of the same state: round(support) + chunk.
    seconds, bytes_per_second : float
        Of this call.
    checkpoint, curves, picture : str
        Files written.
    """

    attention: str
    parameters: int
    step: int
    processes: int
    training_loss: float
    validation: float | None
    best_validation: float | None
    support: float | None
    matched_window: int | None
    seconds: float
    bytes_per_second: float
    checkpoint: str
    curves: str
    picture: str


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Round tiny numbers to zero meanwhile: some processors are many times slower on them.

    Only meanwhile, because it changes what all other code of this process computes.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def run_training(
    model: ModelConfig,
    training: TrainConfig,
    text: Path,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    until: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> RunReport | None:
    """Train, and write checkpoint, curves and picture to ``out``.

    Sets PyTorch's number of threads, if given, and lets the processor treat numbers below 1e-38 as
    zero, without which a CPU can be 50 times slower.

    Parameters
    ----------
    model, training : ModelConfig, TrainConfig
    text, out : Path
        What to train on, and the folder to write to, which is made if need be.
    resume, overwrite : bool
        Go on from a checkpoint in ``out``, or replace it. Without either one must not be there.
    until : int, optional
        Stop after this step, at least 1.
    threads, device
        Of PyTorch.
    progress : callable, optional
        ``progress(step, curves)`` after every step.

    Returns
    -------
    RunReport or None
        None in all processes but the first.

    Raises
    ------
    InputError, FileFormatError, ConvergenceError, OSError
    """
    if until is not None and until < 1:
        raise InputError(f"until must be at least 1, got {until}")
    if threads is not None:
        torch.set_num_threads(threads)
    path = out / checkpoint.NAME
    if path.exists() and not (resume or overwrite):
        raise InputError(f"{path} exists: go on with --resume, or replace it with --force")
    if resume and not path.exists():
        raise InputError(f"{path} is not there: nothing to go on from")
    data = ByteText.from_file(text, model.block)
    with joined(device) as world, denormals_flushed():
        trainer = Trainer(model, training, data, out, world, resume=resume)
        os.makedirs(out, exist_ok=True)  # now that all settings have been checked
        before, start = trainer.step, time.perf_counter()
        curves = trainer.run(until, progress)
        seconds = time.perf_counter() - start
        if not world.first:
            return None
        curves.draw(out / PICTURE, f"{model.attention}, seed {training.seed}")
        support = curves.support[-1] if curves.support else None
        done = (trainer.step - before) * training.batch * model.block
        return RunReport(
            attention=model.attention,
            parameters=sum(p.numel() for p in trainer.model.parameters()),
            step=trainer.step,
            processes=world.size,
            training_loss=curves.loss[-1],
            validation=curves.validation[-1] if curves.validation else None,
            best_validation=curves.best if curves.validation else None,
            support=support,
            matched_window=None if support is None else round(support) + model.options.chunk,
            seconds=seconds,
            bytes_per_second=done / seconds if seconds > 0 else 0.0,
            checkpoint=str(path),
            curves=str(out / CURVES),
            picture=str(out / PICTURE),
        )
