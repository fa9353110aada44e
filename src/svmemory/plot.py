"""A picture of a memory: where its rows lie, what they weigh, how far they are inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .errors import EmptyMemoryError, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .memory import SupportVectorMemory

Floats = NDArray[np.float64]

# Okabe-Ito colours (safe for colour-blind readers), a marker each, drawn in this order.
_STYLE = {
    "reserve": ("#56B4E9", "o"),
    "margin": ("#009E73", "s"),
    "error": ("#D55E00", "^"),
}


def plot_memory(memory: SupportVectorMemory, path: str | Path, title: str | None = None) -> None:
    """Write a PNG with three panels: keys in 2-D by set, weights, and the slack g of every row.

    Parameters
    ----------
    memory : SupportVectorMemory
        With at least one row.
    path : str or Path
        Ends in ``.png``.
    title : str, optional
        Put above the panels, before the numbers of rows and the contract.

    Raises
    ------
    InputError
        If ``path`` does not end in ``.png``.
    EmptyMemoryError
        If the memory has no rows.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise InputError(f"{target.name}: the picture is a PNG; use a name that ends in .png")
    if len(memory) == 0:
        raise EmptyMemoryError("nothing to plot: the memory has no rows")
    figure = Figure(figsize=(15.0, 5.4), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    map_axes, weight_axes, slack_axes = figure.subplots(1, 3)
    masks = set_masks(memory)
    _draw_keys(map_axes, memory, masks)
    _draw_weights(weight_axes, memory, masks)
    _draw_slack(slack_axes, memory, masks)
    contract = memory.contract
    facts = (
        f"{len(memory)} rows, {memory.dimension}-dimensional keys, {memory.status};"
        f"  gamma = {contract.gamma:.4g}, C = {contract.C:.4g}, ridge = {contract.ridge:.3g}"
    )
    figure.suptitle(facts if title is None else f"{title}\n{facts}", fontsize=12)
    figure.savefig(target, format="png")


def set_masks(memory: SupportVectorMemory) -> dict[str, NDArray[np.bool_]]:
    """For each set (``reserve``, ``margin``, ``error``), which rows are in it: (n,) bool."""
    partition = memory.partition
    masks = {}
    for name in _STYLE:
        members = set(getattr(partition, name))
        masks[name] = np.array([row in members for row in memory.ids], dtype=bool)
    return masks


def slack(memory: SupportVectorMemory) -> Floats:
    """Slack of every row, ``g_i = rho - (1 + ridge) + 2 (K a)_i + 2 ridge a_i``: (n,).

    Zero on the margin, at most 0 in the error set, at least 0 in reserve.
    """
    ridge = memory.contract.ridge
    # score(x) = 2 sum_i a_i k(x, x_i) - rho, at the rows themselves
    kernel_sum = np.asarray(memory.score(memory.keys)) + memory.offset
    result: Floats = memory.offset - (1.0 + ridge) + kernel_sum + 2.0 * ridge * memory.weights
    return result


def principal_plane(keys: Floats) -> tuple[Floats, Floats]:
    """Project keys on their two main directions.

    Parameters
    ----------
    keys : (n, d) array, n >= 1

    Returns
    -------
    plane : (n, 2) array
        Coordinates in key units; a direction that does not exist (d = 1 or n = 1) is 0.
    share : (2,) array
        Share of the total variance along each (0 when the keys are all equal).
    """
    centred = keys - keys.mean(axis=0)
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    # The sign of a direction is arbitrary: make its largest loading positive.
    for k in range(min(2, len(right))):
        if right[k, np.argmax(np.abs(right[k]))] < 0:
            left[:, k] *= -1.0
    plane, share = np.zeros((len(keys), 2)), np.zeros(2)
    kept = min(2, len(singular))
    plane[:, :kept] = left[:, :kept] * singular[:kept]
    total = float((singular**2).sum())
    if total > 0:
        share[:kept] = singular[:kept] ** 2 / total
    return plane, share


def _draw_keys(
    axes: Axes, memory: SupportVectorMemory, masks: dict[str, NDArray[np.bool_]]
) -> None:
    plane, share = principal_plane(memory.keys)
    weights = memory.weights
    # The marker's area grows with the weight; rows without weight stay small.
    area = 14.0 + 76.0 * weights / weights.max()
    for name, (colour, marker) in _STYLE.items():
        rows = masks[name]
        axes.scatter(
            plane[rows, 0],
            plane[rows, 1],
            s=area[rows],
            color=colour,
            marker=marker,
            alpha=0.75,
            linewidths=0.4,
            edgecolors="white",
            label=f"{name} ({int(rows.sum())} rows)",
        )
    axes.set_aspect("equal", adjustable="datalim")  # so that distances compare
    axes.set_title("Keys, by set; larger marker = larger weight")
    axes.set_xlabel(f"first principal direction, key units ({share[0]:.0%} of variance)")
    axes.set_ylabel(f"second principal direction, key units ({share[1]:.0%} of variance)")
    axes.legend(loc="best", fontsize=9)


def _draw_weights(
    axes: Axes, memory: SupportVectorMemory, masks: dict[str, NDArray[np.bool_]]
) -> None:
    weights = memory.weights
    rank = _ranks(-weights)
    cap = 1.0 / memory.contract.held_mass(len(memory))
    axes.axhline(cap, color="black", linewidth=1.0, linestyle="--", label=f"cap {cap:.4g}")
    for name, (colour, marker) in _STYLE.items():
        rows = masks[name]
        axes.scatter(rank[rows], weights[rows], s=14, color=colour, marker=marker, label=name)
    axes.set_ylim(-0.04 * cap, 1.12 * cap)
    axes.set_title("Weight of every row (they sum to 1)")
    axes.set_xlabel("row, heaviest first")
    axes.set_ylabel("weight a")
    axes.legend(loc="best", fontsize=9)


def _draw_slack(
    axes: Axes, memory: SupportVectorMemory, masks: dict[str, NDArray[np.bool_]]
) -> None:
    g = slack(memory)
    rank = _ranks(g)
    axes.axhline(0.0, color="black", linewidth=1.0, linestyle="--", label="g = 0: the boundary")
    for name, (colour, marker) in _STYLE.items():
        rows = masks[name]
        axes.scatter(rank[rows], g[rows], s=14, color=colour, marker=marker, label=name)
    axes.set_title("Slack g: below 0 outside, above 0 inside")
    axes.set_xlabel("row, smallest slack first")
    axes.set_ylabel("slack g (no unit)")
    axes.legend(loc="best", fontsize=9)


def _ranks(values: Floats) -> NDArray[np.int64]:
    """Place of each value in ascending order, from 1."""
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(values, kind="stable")] = np.arange(1, len(values) + 1)
    return rank
