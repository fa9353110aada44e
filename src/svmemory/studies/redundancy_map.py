"""Where support selection wins and where it does not: the rare-item task over its parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .figures import drawn
from .redundancy_task import PEERS, Task, recalls
from .settings import Settings
from .statistics import Interval, excludes_zero, mean_interval

LETTERS = MappingProxyType(
    {
        "h2o": "H",
        "h2o_softmax": "A",
        "self_mass": "M",
        "snapkv": "S",
        "recency": "L",
        "random": "R",
        "k_centre": "K",
        "facility_location": "F",
    }
)
KEY = (
    "K k-centre, F facility location, S SnapKV-style, H/A H2O on the warm-up queries by kernel "
    "mass / by softmax, M H2O self-mass, L recency, R random"
)
MEASURES = ("rare recall", "recall of all items")


@dataclass(frozen=True)
class Cell:
    """Support against the best of its peers at one setting.

    Attributes
    ----------
    best : str
        The peer with the best mean over these contexts; chosen after the fact, so it is helped.
    difference : float
        Mean recall of the support minus that of ``best``.
    interval : (low, high)
        Of the difference, over contexts.
    kept : float
        Share of the rows that is kept.
    """

    best: str
    difference: float
    interval: Interval
    kept: float


@dataclass(frozen=True)
class Grid:
    """Two parameters of a task, varied together.

    Attributes
    ----------
    rows, columns : (name of the axis, values)
    tasks : dict
        By (row, column).
    """

    rows: tuple[str, Sequence[float]]
    columns: tuple[str, Sequence[float]]
    tasks: dict[tuple[int, int], Task]

    def label(self, place: tuple[int, int]) -> str:
        """A cell's setting in a few words."""
        named = zip((self.rows, self.columns), place, strict=True)
        return ", ".join(f"{name.split(' ')[0]} {values[at]:g}" for (name, values), at in named)


def grids(quick: bool) -> list[Grid]:
    """Redundancy against noise; dimension against budget.

    The kernel width grows as the square root of the dimension, as typical distances do; else all
    rows would be support in many dimensions, and there would be nothing to choose.
    """
    copies = [3, 10, 30] if quick else [2, 5, 10, 20, 40]
    noises = [0.05, 0.15, 0.6] if quick else [0.05, 0.15, 0.3, 0.6, 1.0]
    dimensions = [2, 4, 16] if quick else [2, 4, 8, 16, 32]
    nus = [0.15, 0.45, 0.75] if quick else [0.15, 0.3, 0.45, 0.6, 0.8]
    paper = Task()
    first = {
        (i, j): replace(paper, copies=c, noise=s)
        for (i, c), (j, s) in product(enumerate(copies), enumerate(noises))
    }
    second = {
        (i, j): replace(paper, dimension=d, nu=nu, sigma=paper.sigma * math.sqrt(d / 4))
        for (i, d), (j, nu) in product(enumerate(dimensions), enumerate(nus))
    }
    return [
        Grid(
            ("copies of a frequent item", copies),
            ("noise of a row (item spread 1.5)", noises),
            first,
        ),
        Grid(
            ("dimension d", dimensions), ("nu of the support, which sets the budget", nus), second
        ),
    ]


def measure(settings: Settings, task: Task, contexts: int) -> dict[str, list[list[float]]]:
    """Recalls of all policies: by name, one (rare, all) a context; kept on disk."""
    first = settings.seed

    def make() -> dict[str, Any]:
        runs = [recalls(task, first + i, oracles=False) for i in range(contexts)]
        return {name: [list(run[name]) for run in runs] for name in runs[0]}

    made_of = {"task": asdict(task), "contexts": contexts, "seed": first}
    return settings.kept("redundancy/cell", made_of, make)


def compare(found: dict[str, list[list[float]]], measure: int) -> Cell:
    """One cell from the recalls of its policies; ``measure`` is 0 for rare items, 1 for all."""
    recall: dict[str, NDArray[np.float64]] = {
        name: np.array(values)[:, measure] for name, values in found.items()
    }
    best = max(PEERS, key=lambda name: float(recall[name].mean()))
    difference, interval = mean_interval(recall["support"] - recall[best])
    return Cell(best, difference, interval, float(recall["kept"].mean()))


def draw_map(
    path: Path, grids: Sequence[Grid], cells: Sequence[dict[tuple[int, int], Cell]], measure: int
) -> None:
    """One panel a grid; colour and number are the difference, the letter is the best peer."""
    reach = 0.15
    with drawn(path, width=10.5, height=4.9, panels=len(grids)) as (figure, axes):
        for ax, grid, found in zip(axes, grids, cells, strict=True):
            shape = (len(grid.rows[1]), len(grid.columns[1]))
            values = np.array([found[place].difference for place in np.ndindex(shape)])
            image = ax.imshow(values.reshape(shape), cmap="PuOr_r", vmin=-reach, vmax=reach)
            ax.grid(False)
            for (i, j), cell in found.items():
                sure = excludes_zero(cell.interval)
                ax.text(
                    j,
                    i,
                    f"{cell.difference:+.3f} {LETTERS[cell.best]}\nkept {cell.kept:.0%}",
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    fontweight="bold" if sure else "normal",
                    color="white" if abs(cell.difference) > 0.7 * reach else "black",
                )
            ax.set_yticks(range(shape[0]), [f"{v:g}" for v in grid.rows[1]])
            ax.set_xticks(range(shape[1]), [f"{v:g}" for v in grid.columns[1]])
            ax.set_ylabel(grid.rows[0])
            ax.set_xlabel(grid.columns[0])
        bar = figure.colorbar(image, ax=axes, shrink=0.85, extend="both")
        bar.set_label(f"{MEASURES[measure]}: support minus best peer")
        figure.supxlabel(f"{KEY}; bold: 95 % interval excludes 0", fontsize=8)
