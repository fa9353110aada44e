"""One look for all figures: colours for colour-blind readers, a marker a series, units on axes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours
OURS = "#D55E00"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKERS = ("s", "^", "D", "v", "P", "X", "o")
PAPER = "#000000"

_LOOK: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
}


def styles(names: list[str], ours: str) -> dict[str, tuple[str, str]]:
    """A (colour, marker) for each series; ours always looks the same."""
    rest = zip(cycle(COLOURS), cycle(MARKERS), strict=False)
    return {name: (OURS, "o") if name == ours else next(rest) for name in names}


@contextmanager
def drawn(
    path: Path, width: float = 7.0, height: float = 4.2, panels: int = 1
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with panels side by side, written as PNG on leaving.

    Parameters
    ----------
    path : Path
        Where to write; its folder is made.
    width, height : float
        In inches, of the whole figure.
    panels : int
    """
    with mpl.rc_context(_LOOK):
        figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
        canvas = FigureCanvasAgg(figure)
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        yield figure, axes
        path.parent.mkdir(parents=True, exist_ok=True)
        # no software version inside: the same numbers give the same bytes
        canvas.print_figure(path, format="png", metadata={"Software": None})
