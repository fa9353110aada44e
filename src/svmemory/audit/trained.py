"""Freeze a trained model on some text: what every head held, weighed and read.

The numbers are those that the model used: each layer is run again on the input it got, and its
output must be the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..contract import Contract
from ..errors import InputError
from ..torch.hybrid import HybridSVAttention
from ..torch.language.model import ByteLM

Floats = NDArray[np.float64]
SETS = {0: "R", 1: "S", 2: "E"}


@dataclass(frozen=True)
class FrozenGate:
    """One gate of a layer, as the layer solved it.

    Attributes
    ----------
    end : int
        Rows of the prefix.
    weights : (end,) array
    labels : str
        One letter a row: S margin, E error, R reserve.
    """

    end: int
    weights: Floats
    labels: str


@dataclass(frozen=True)
class FrozenHead:
    """One head of a layer on one window of T bytes.

    Attributes
    ----------
    name : str
        ``window 0, layer 1, head 2``.
    contract : Contract
    chunk : int
    queries, keys, values, read : (T, d) arrays
        ``read`` is what the head put out.
    rows : (T, d) or (T, 2 d) array
        What the gate compared: keys, or keys and values.
    scale, norm : float
        A logit is ``scale q.k - norm |k|^2`` (:class:`svmemory.torch.readout.Readout`).
    fade : float
        Power with which a row's weight falls with its age in positions.
    gates : tuple of FrozenGate
        At every chunk boundary, in order.
    """

    name: str
    contract: Contract
    chunk: int
    queries: Floats
    keys: Floats
    values: Floats
    read: Floats
    rows: Floats
    scale: float
    norm: float
    fade: float
    gates: tuple[FrozenGate, ...]

    def read_with(self, gate: FrozenGate, weights: Floats) -> Floats:
        """What the chunk after a boundary would read with other weights, in float64."""
        stop = min(gate.end + self.chunk, len(self.keys))
        q, k, v = self.queries[gate.end : stop], self.keys[:stop], self.values[:stop]
        logits = self.scale * (q @ k.T) - self.norm * np.square(k).sum(axis=1)
        with np.errstate(divide="ignore"):
            logits[:, : gate.end] += np.log(weights)
        logits[:, : gate.end] -= self.fade * np.log(np.arange(gate.end, 0, -1))
        i, j = np.indices((len(q), len(q)))
        logits[:, gate.end :][j > i] = -np.inf
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(share @ v / share.sum(axis=1, keepdims=True))


def freeze(model: ByteLM, windows: Tensor) -> tuple[list[FrozenHead], bool]:
    """Run the model on windows (W, T) and freeze all heads.

    Returns
    -------
    list of FrozenHead, bool
        And whether every layer, run again, gave the bits it gave within the model.

    Raises
    ------
    InputError
        If the model has no gate, or a control in its place.
    """
    layers = model.gated_layers()
    if not layers or any(layer.gate not in ("sv", "detached") for layer in layers):
        raise InputError(f"a model with attention {model.config.attention!r} has no gate to audit")
    if windows.shape[1] <= layers[0].chunk:
        raise InputError(
            f"windows of {windows.shape[1]} bytes are one chunk: no gate was ever solved"
        )
    passed: list[tuple[Tensor, Tensor]] = []

    def keep(_: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        passed.append((inputs[0], output))

    handles = [layer.register_forward_hook(keep) for layer in layers]
    heads: list[FrozenHead] = []
    same = True
    with torch.no_grad():
        try:
            model(windows)
        finally:
            for handle in handles:
                handle.remove()
        for number, (layer, (x, output)) in enumerate(zip(layers, passed, strict=True)):
            frozen, replayed = _freeze_layer(layer, number, x)
            same = same and torch.equal(replayed, output)
            heads += frozen
    return heads, same


def _freeze_layer(
    layer: HybridSVAttention, number: int, x: Tensor
) -> tuple[list[FrozenHead], Tensor]:
    q, k, v = layer.queries_keys_values(x)
    read, chosen = layer.read(q, k, v)
    if chosen is None or chosen.gate is None:  # freeze() has seen to it
        raise InputError("no gate was solved")
    scales, norms = (x.tolist() for x in layer.readout(layer.gamma()))
    contracts = layer.contracts()
    ends = layer.boundaries(x.shape[1])
    weights, codes = _array(chosen.gate.weights), chosen.gate.codes.cpu().numpy()
    queries, keys, values, reads, rows = (_array(y) for y in (q, k, v, read, layer.gate_rows(k, v)))
    fades = layer.num_heads * [0.0] if layer.fade is None else layer.fade.power.tolist()
    heads = []
    for b, h in np.ndindex(*q.shape[:2]):
        gates = []
        for j, end in enumerate(ends):
            labels = "".join(SETS[code] for code in codes[b, h, j, :end].tolist())
            gates.append(FrozenGate(end, weights[b, h, j, :end], labels))
        heads.append(
            FrozenHead(
                name=f"window {b}, layer {number}, head {h}",
                contract=contracts[h],
                chunk=layer.chunk,
                queries=queries[b, h],
                keys=keys[b, h],
                values=values[b, h],
                read=reads[b, h],
                rows=rows[b, h],
                scale=scales[h],
                norm=norms[h],
                fade=fades[h],
                gates=tuple(gates),
            )
        )
    return heads, layer.merged(read)


def _array(x: Tensor) -> Floats:
    return x.detach().double().cpu().numpy()
