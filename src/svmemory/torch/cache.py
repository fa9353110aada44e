"""Generation with the hybrid layer: every head keeps an exact memory of all chunks so far.

When a chunk is complete its keys and values go into one :class:`svmemory.SupportVectorMemory` for
each sequence and head, and only rows with weight are read from it: the cost of a step depends on
the support and the chunk, not on the length of the context. Reserve rows wait in the memory (in
its cold tier if a folder is given). What the memories hold can be inspected, verified by digest
and forgotten like any other memory.
"""

from __future__ import annotations

import os
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..errors import InputError
from ..memory import SupportVectorMemory
from .hybrid import HybridSVAttention
from .language.model import Block, ByteLM
from .readout import NEVER, attend, causal_bias, key_bias


class HybridCache:
    """State of one layer between two steps.

    Parameters
    ----------
    layer : HybridSVAttention
        With gate "sv" or "detached". Its parameters must not change while the cache is in use.
    batch : int, default 1
        Number of sequences B.
    cold : path, optional
        Folder for the cold tier of the memories.

    Attributes
    ----------
    memories : list of B lists of H SupportVectorMemory
        Row ``i`` of a memory is position ``i`` of the sequence; its id is the number in decimal.

    Raises
    ------
    InputError
        If the layer has another gate.
    """

    def __init__(
        self,
        layer: HybridSVAttention,
        batch: int = 1,
        *,
        cold: str | os.PathLike[str] | None = None,
    ) -> None:
        if layer.gate not in ("sv", "detached"):
            raise InputError(f"only the gate itself can be cached, not the control {layer.gate!r}")
        self.layer = layer
        self.batch = batch
        self.memories = [
            [
                SupportVectorMemory.from_contract(contract, cold=cold)
                for contract in layer.contracts()
            ]
            for _ in range(batch)
        ]
        weight = layer.to_qkv.weight
        shape = (batch, layer.num_heads, 0, layer.head_dim)
        self._far_k = self._far_v = self._near_k = self._near_v = weight.new_zeros(shape).detach()
        self._far_bias = weight.new_zeros(shape[:3]).detach()

    @property
    def length(self) -> int:
        """Positions seen."""
        return len(self.memories[0][0]) + self._near_k.shape[2]

    @property
    def rows_read(self) -> int:
        """Rows that the next step reads for each head: support (the largest) and chunk."""
        return self._far_k.shape[2] + self._near_k.shape[2]

    @torch.no_grad()
    def extend(self, x: Tensor) -> Tensor:
        """Continue all sequences: x (B, t, D) to (B, t, D), as one forward pass would give."""
        if x.dim() != 3 or x.shape[0] != self.batch:
            raise InputError(f"x must have shape ({self.batch}, t, D), got {tuple(x.shape)}")
        q, k, v = self.layer.queries_keys_values(x)
        read = []
        start = 0
        while start < x.shape[1]:
            if self._near_k.shape[2] == self.layer.chunk:
                self._absorb()
            end = start + self.layer.chunk - self._near_k.shape[2]
            read.append(self._piece(q[:, :, start:end], k[:, :, start:end], v[:, :, start:end]))
            start = end
        return self.layer.merged(torch.cat(read, dim=2)) if read else x

    def _piece(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Positions within one chunk."""
        self._near_k = torch.cat([self._near_k, k], dim=2)
        self._near_v = torch.cat([self._near_v, v], dim=2)
        scale, norm = self.layer.readout(self.layer.gamma())
        t = q.shape[2]
        before = self._far_k.shape[2] + self._near_k.shape[2] - t
        bias = torch.cat([self._far_bias, key_bias(self._near_k, norm)], dim=2)[..., None, :]
        if t > 1:
            bias = bias + causal_bias(t, before, q.device, q.dtype)
        keys = torch.cat([self._far_k, self._near_k], dim=2)
        values = torch.cat([self._far_v, self._near_v], dim=2)
        return attend(q, keys, values, scale, bias)

    def _absorb(self) -> None:
        """The chunk is complete: its rows enter the memories, and the support is read anew."""
        keys, values = self._near_k.double().cpu().numpy(), self._near_v.double().cpu().numpy()
        supports = []
        for b, heads in enumerate(self.memories):
            for h, memory in enumerate(heads):
                memory.add(keys[b, h], values[b, h])
                # its own arrays: the public ones would copy all rows, in reserve or not
                supports.append(memory._held.support())
        widest = max(len(weights) for _, weights, _ in supports)
        like = self._near_k
        far_k, far_v, logs = [], [], []
        for near, weights, rows in supports:
            spare = widest - len(weights)
            far_k.append(pad(torch.as_tensor(near.T.copy()), (0, 0, 0, spare)))
            far_v.append(pad(torch.as_tensor(rows), (0, 0, 0, spare)))
            logs.append(pad(torch.as_tensor(weights).log(), (0, spare), value=NEVER))
        shape = (self.batch, self.layer.num_heads, widest)
        self._far_k = torch.stack(far_k).to(like).view(*shape, -1)
        self._far_v = torch.stack(far_v).to(like).view(*shape, -1)
        _, norm = self.layer.readout(self.layer.gamma())
        bias = torch.stack(logs).to(like).view(shape)
        self._far_bias = bias + key_bias(self._far_k, norm)
        self._near_k = self._near_v = like[:, :, :0]


class ModelCache:
    """Caches of all layers of a model.

    Parameters
    ----------
    model : ByteLM
        Every layer of which is a :class:`svmemory.torch.HybridSVAttention`.
    batch, cold
        As in :class:`HybridCache`.
    """

    def __init__(
        self, model: ByteLM, batch: int = 1, *, cold: str | os.PathLike[str] | None = None
    ) -> None:
        layers = model.gated_layers()
        if len(layers) != len(model.blocks):
            raise InputError(f"a model with attention {model.config.attention!r} has no cache")
        self.model = model
        self.layers = [HybridCache(layer, batch, cold=cold) for layer in layers]

    @torch.no_grad()
    def extend(self, tokens: Tensor) -> Tensor:
        """Logits (B, t, 256) of the bytes after each of ``tokens`` (B, t)."""
        start = self.layers[0].length
        end = start + tokens.shape[1]
        if end > self.model.config.block:
            raise InputError(f"the model has {self.model.config.block} positions, got {end}")
        x = self.model.embedding(tokens) + self.model.position[start:end]
        for block, cache in zip(self.model.blocks, self.layers, strict=True):
            x = cast(Block, block).with_attention(x, cache.extend)
        return self.model.logits(x)
