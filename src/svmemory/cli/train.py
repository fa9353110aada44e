"""``svmemory train``: a byte-level language model with a chosen attention."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import InputError
from .options import JsonFlag, QuietFlag
from .output import note, print_facts, print_json

if TYPE_CHECKING:
    from ..torch.language.curves import Curves


class Preset(StrEnum):
    """Sizes of a model."""

    tiny = "tiny"
    m3 = "3m"
    m10 = "10m"
    m32 = "32m"


class ReadoutForm(StrEnum):
    """Forms of the read."""

    dot = "dot"
    gaussian = "gaussian"
    mix = "mix"


class SolverName(StrEnum):
    """Ways to solve the gate."""

    batched = "batched"
    exact = "exact"
    naive = "naive"
    paper = "paper"


def train(
    text: Annotated[Path, typer.Option(metavar="FILE", help="Any file; its last tenth validates.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for checkpoint.safetensors and curves.")
    ],
    steps: Annotated[int, typer.Option(min=1, help="Training steps in all.")],
    attention: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="sv (the gate), softmax, window, linear, deltanet, ssm, rbf, or a control:"
            " detached, support, uniform, random, recent.",
        ),
    ] = "sv",
    preset: Annotated[Preset, typer.Option(help="Size of the model.")] = Preset.tiny,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Sequences a step, over all processes.")] = 16,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 3e-3,
    block: Annotated[
        int | None, typer.Option(min=1, help="Bytes of a sequence (default: the preset's).")
    ] = None,
    C: Annotated[float, typer.Option("--C", help="Largest weight of a memory row.")] = 0.25,
    gamma: Annotated[float, typer.Option(help="Kernel width at the start.")] = 0.25,
    ridge: Annotated[float, typer.Option(help="Ridge of the gate's problem.")] = 1e-3,
    chunk: Annotated[int, typer.Option(min=1, help="Positions between two solves.")] = 64,
    readout: Annotated[ReadoutForm, typer.Option(help="Form of the read.")] = ReadoutForm.dot,
    learn_gamma: Annotated[bool, typer.Option(help="Learn a width a head.")] = True,
    learn_cap: Annotated[bool, typer.Option(help="Learn a cap C a head.")] = False,
    with_values: Annotated[
        bool, typer.Option("--with-values", help="Compare rows by key and value in the gate.")
    ] = False,
    fade: Annotated[
        bool, typer.Option("--fade", help="Learn, for each head, how fast earlier rows fade.")
    ] = False,
    solver: Annotated[SolverName, typer.Option(help="How gates are solved.")] = SolverName.batched,
    window: Annotated[int, typer.Option(min=1, help="Positions that a window sees.")] = 128,
    dropout: Annotated[float, typer.Option(help="Share of attention weights dropped.")] = 0.0,
    eval_every: Annotated[int, typer.Option(min=1, help="Steps between validations.")] = 50,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 200,
    stop_after: Annotated[
        int | None, typer.Option(min=1, help="Stop after this step; go on with --resume.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from DIR's checkpoint.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite DIR's checkpoint.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads on a CPU.")] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda (default: what is there).")
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Train a byte-level language model; the same command with --resume goes on where it stopped.

    Under torchrun every process takes its share of the batch:
    torchrun --nproc-per-node 2 -m svmemory train ...
    """
    need_torch()
    from ..torch.language.model import PRESETS
    from ..torch.language.run import run_training
    from ..torch.language.train import TrainConfig
    from ..torch.registry import LayerOptions

    options = LayerOptions(
        C=C,
        ridge=ridge,
        gamma=gamma,
        chunk=chunk,
        readout=readout.value,
        learn_gamma=learn_gamma,
        learn_cap=learn_cap,
        with_values=with_values,
        fade=fade,
        solver=solver.value,
        window=window,
        dropout=dropout,
    )
    sizes = PRESETS[preset.value]
    model = replace(sizes, attention=attention, options=options, block=block or sizes.block)
    training = TrainConfig(
        steps=steps, batch=batch, seed=seed, lr=lr, eval_every=eval_every, save_every=save_every
    )
    silent = quiet or as_json
    with (
        _interrupts_explained(out, quiet),
        _bar(f"{attention}, {preset.value}", steps, silent) as progress,
    ):
        report = run_training(
            model,
            training,
            text,
            out,
            resume=resume,
            overwrite=force,
            until=stop_after,
            threads=threads,
            device=device,
            progress=progress,
        )
    if report is None:  # under torchrun the first process speaks
        return
    if as_json:
        print_json(asdict(report))
        return
    facts = {name.replace("_", " "): value for name, value in asdict(report).items()}
    print_facts({name: value for name, value in facts.items() if value is not None})
    if report.step < steps:
        note(f"stopped after step {report.step} of {steps}; the same with --resume goes on", quiet)


def need_torch() -> None:
    """Say what is missing where PyTorch is."""
    if find_spec("torch") is None:
        raise InputError("this needs PyTorch: install svmemory[torch]")


@contextmanager
def _interrupts_explained(out: Path, quiet: bool) -> Iterator[None]:
    """Say after Ctrl-C from where --resume would go on; under torchrun only the first does."""
    from ..torch.language import checkpoint

    try:
        yield
    except KeyboardInterrupt:
        path = out / checkpoint.NAME
        if os.environ.get("RANK", "0") == "0":
            if path.exists():
                step = checkpoint.load(path).step
                note(f"interrupted; the checkpoint is at step {step}: --resume goes on", quiet)
            else:
                note("interrupted before the first checkpoint", quiet)
        raise


@contextmanager
def _bar(label: str, steps: int, silent: bool) -> Iterator[Callable[[int, Curves], None] | None]:
    """A progress bar with the losses, when somebody looks; under torchrun only the first does."""
    console = Console(stderr=True)
    if silent or not console.is_terminal or os.environ.get("RANK", "0") != "0":
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[losses]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=steps, losses="")

        def show(step: int, curves: Curves) -> None:
            losses = f"loss {curves.loss[-1]:.3f}"
            if curves.validation:
                losses += f", validation {curves.validation[-1]:.3f} bits/byte"
            bar.update(task, completed=step, losses=losses)

        yield show
