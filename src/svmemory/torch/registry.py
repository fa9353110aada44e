"""The layers by name, as the model and the command line know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ..errors import InputError
from .baselines import (
    DeltaNet,
    LinearAttention,
    RBFAttention,
    SelectiveSSM,
    SoftmaxAttention,
    WindowAttention,
)
from .gate import Solver
from .hybrid import HybridSVAttention
from .prefix import CHOICES, Choice
from .readout import Form


@dataclass(frozen=True)
class LayerOptions:
    """Everything a layer may ask for; each takes what concerns it.

    The defaults are those of :class:`svmemory.torch.HybridSVAttention`; ``window`` is that of
    :class:`svmemory.torch.baselines.WindowAttention`.
    """

    C: float = 0.25
    ridge: float = 1e-3
    gamma: float = 0.25
    chunk: int = 64
    readout: Form = "dot"
    learn_gamma: bool = True
    learn_cap: bool = False
    with_values: bool = False
    fade: bool = False
    solver: Solver = "batched"
    window: int = 128
    dropout: float = 0.0


Builder = Callable[[int, int, LayerOptions], nn.Module]


def _hybrid(gate: Choice) -> Builder:
    def build(embed_dim: int, num_heads: int, o: LayerOptions) -> nn.Module:
        return HybridSVAttention(
            embed_dim,
            num_heads,
            C=o.C,
            ridge=o.ridge,
            gamma=o.gamma,
            chunk=o.chunk,
            readout=o.readout,
            learn_gamma=o.learn_gamma,
            learn_cap=o.learn_cap,
            with_values=o.with_values,
            fade=o.fade,
            gate=gate,
            solver=o.solver,
            dropout=o.dropout,
        )

    return build


LAYERS: dict[str, Builder] = {
    "softmax": lambda d, h, o: SoftmaxAttention(d, h, dropout=o.dropout),
    "window": lambda d, h, o: WindowAttention(d, h, window=o.window, dropout=o.dropout),
    "linear": lambda d, h, o: LinearAttention(d, h, dropout=o.dropout),
    "deltanet": lambda d, h, o: DeltaNet(d, h, dropout=o.dropout),
    "ssm": lambda d, h, o: SelectiveSSM(d, h, dropout=o.dropout),
    "rbf": lambda d, h, o: RBFAttention(d, h, gamma=o.gamma, dropout=o.dropout),
    **{choice: _hybrid(choice) for choice in CHOICES},
}
"""Builders by name: the baselines, "sv" and its controls."""


def build_layer(name: str, embed_dim: int, num_heads: int, options: LayerOptions) -> nn.Module:
    """A layer (B, T, D) -> (B, T, D) by name.

    Raises
    ------
    InputError
        If there is no such layer, or its numbers are out of range.
    """
    if name not in LAYERS:
        raise InputError(f"attention must be one of {', '.join(LAYERS)}, got {name!r}")
    return LAYERS[name](embed_dim, num_heads, options)
