"""What a training run logs, as JSON and as a picture."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

LN2 = math.log(2.0)


@dataclass
class Curves:
    """One entry a step, and one a validation.

    Attributes
    ----------
    loss : list of float
        Training loss, bits per byte.
    gradient : list of float
        Norm of the gradient before clipping.
    gate_gradient : list of float
        Norm of what reaches the keys through all gates; empty for models without a gate.
    support : list of float
        Mean number of prefix rows that a chunk reads, over all layers; empty without a gate.
    unconverged : list of int
        Gate problems that missed their optimum.
    validation_step, validation : list
        Steps done, and bits per byte on the validation windows.
    """

    loss: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    gate_gradient: list[float] = field(default_factory=list)
    support: list[float] = field(default_factory=list)
    unconverged: list[int] = field(default_factory=list)
    validation_step: list[int] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Lowest validation; not a number before the first."""
        return min(self.validation, default=math.nan)

    def until(self, step: int) -> Curves:
        """What was known after ``step`` steps."""
        known = sum(s <= step for s in self.validation_step)
        return Curves(
            self.loss[:step],
            self.gradient[:step],
            self.gate_gradient[:step],
            self.support[:step],
            self.unconverged[:step],
            self.validation_step[:known],
            self.validation[:known],
        )

    def covers(self, step: int) -> bool:
        """Whether everything that is logged was logged in each of ``step`` steps."""
        # a model without a gate, or of one chunk, logs nothing about gates
        gates = [len(x) for x in (self.gate_gradient, self.support, self.unconverged) if x]
        return (
            min(len(self.loss), len(self.gradient), *gates) >= step
            and len(self.validation) == len(self.validation_step)
            and all(isinstance(x, int | float) for column in asdict(self).values() for x in column)
        )

    def write(self, path: Path) -> None:
        """Write as JSON in one move; a float comes back with the same bits."""
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            unfinished.write_text(json.dumps(asdict(self), indent=1) + "\n")
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path) -> Curves:
        """Read what :meth:`write` wrote."""
        return cls(**json.loads(path.read_text()))

    def draw(self, path: Path, title: str) -> None:
        """Draw as PNG: loss and validation, and for gated models gradient and support."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        gated = bool(self.support)
        figure = Figure(figsize=(7.0, 7.0 if gated else 3.6), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        axes = figure.subplots(3 if gated else 1, 1, sharex=True, squeeze=False)[:, 0]
        steps = range(1, len(self.loss) + 1)
        axes[0].plot(steps, self.loss, linewidth=0.7, alpha=0.6, label="training")
        axes[0].plot(self.validation_step, self.validation, marker="o", label="validation")
        axes[0].set_ylabel("bits per byte")
        axes[0].set_title(title)
        axes[0].legend()
        if gated:
            axes[1].plot(steps, self.gradient, linewidth=0.7, label="all parameters")
            if any(self.gate_gradient):
                axes[1].plot(steps, self.gate_gradient, linewidth=0.7, label="keys, by the gate")
            axes[1].set_yscale("log")
            axes[1].set_ylabel("gradient norm")
            axes[1].legend()
            axes[2].plot(steps, self.support, linewidth=0.7)
            axes[2].set_ylabel("prefix rows read")
        axes[-1].set_xlabel("step")
        canvas.print_figure(path, format="png")
