"""Generation with the hybrid layer: every head keeps an exact memory of all chunks so far.

When a chunk is complete its keys and values go into one :class:`svmemory.SupportVectorMemory` for
each sequence and head, and only rows with weight are read from it: the cost of a step depends on
the support and the chunk, not on the length of the context. Reserve rows wait in the memory (in
its cold tier if a folder is given). What the memories hold can be inspected, verified by digest
and forgotten like any other memory: what is forgotten is not read from the next step on.
"""

from __future__ import annotations

import os
import weakref
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..errors import InputError
from ..holding import Support
from ..memory import SupportVectorMemory
from .checks import whole
from .hybrid import HybridSVAttention
from .language.model import Block, ByteLM
from .readout import attend, later_rows


class HybridCache:
    """State of one layer between two steps.

    Parameters
    ----------
    layer : HybridSVAttention
        With gate "sv" or "detached". Its parameters must not change while the cache is in use.
    batch : int, default 1
        Number of sequences B, at least 1.
    cold : path, optional
        Folder for the cold tier of the memories.

    Attributes
    ----------
    memories : list of B lists of H SupportVectorMemory
        Row ``i`` of a memory is position ``i`` of the sequence; its id is the number in decimal.
        Its key is what the layer's gate compares: key and value side by side ``with_values``.

    Raises
    ------
    InputError
        If the layer is of another class or has another gate, or ``batch`` is not a number of
        sequences.
    """

    def __init__(
        self,
        layer: HybridSVAttention,
        batch: int = 1,
        *,
        cold: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(layer, HybridSVAttention):
            raise InputError(f"only a HybridSVAttention can be cached, not {type(layer).__name__}")
        if whole("batch", batch) < 1:
            raise InputError(f"batch must be at least 1, got {batch}")
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
        d = layer.head_dim
        self._nothing = Support(np.zeros((d, 0)), np.zeros(0), np.zeros((0, d)), [])
        self._length = 0
        self._read = [weakref.ref(self._nothing.keys)] * (batch * layer.num_heads)

    def __getstate__(self) -> dict[str, Any]:
        """Without weak references, which cannot be pickled, and without rows that are forgotten."""
        self._renew()
        return {name: value for name, value in vars(self).items() if name != "_read"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._read = []

    @property
    def length(self) -> int:
        """Positions seen, whatever has been forgotten since."""
        return self._length

    @property
    def rows_read(self) -> int:
        """Rows that the next step reads for each head: support (the largest) and chunk."""
        self._renew()
        return self._far_k.shape[2] + self._near_k.shape[2]

    @torch.no_grad()
    def extend(self, x: Tensor) -> Tensor:
        """Continue all sequences: x (B, t, D) to (B, t, D), as one forward pass would give.

        Raises
        ------
        InputError
            If x does not fit, or leads to queries, keys or values that are not finite; the cache
            is unchanged.
        """
        q, k, v = self.layer.queries_keys_values(x)
        if x.shape[0] != self.batch:
            raise InputError(f"x must have shape ({self.batch}, t, D), got {tuple(x.shape)}")
        if not all(bool(rows.isfinite().all()) for rows in (q, k, v)):
            raise InputError("x leads to queries, keys or values that are not finite")
        self._check_ids(x.shape[1])
        self._renew()
        read = []
        start = 0
        while start < x.shape[1]:
            if self._near_k.shape[2] == self.layer.chunk:
                self._absorb()
                self._renew()
            end = start + self.layer.chunk - self._near_k.shape[2]
            read.append(self._piece(q[:, :, start:end], k[:, :, start:end], v[:, :, start:end]))
            start = end
        return self.layer.merged(torch.cat(read, dim=2)) if read else x

    def _check_ids(self, t: int) -> None:
        """InputError if a row holds the id of one of the positions that t steps may bring in."""
        near = self._near_k.shape[2]
        if near + t <= self.layer.chunk or t == 1:
            return  # with one step nothing has happened when a memory refuses the chunk
        coming = {str(position) for position in range(self._length - near, self._length + t)}
        for b, h in np.ndindex(self.batch, self.layer.num_heads):
            for name in coming.intersection(self.memories[b][h].ids):
                raise InputError(
                    f"sequence {b}, head {h}: a row has the id '{name}', which is that of a "
                    "position still to come; forget it to go on"
                )

    def _piece(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Positions within one chunk."""
        self._near_k = torch.cat([self._near_k, k], dim=2)
        self._near_v = torch.cat([self._near_v, v], dim=2)
        scale, norm = self.layer.readout(self.layer.gamma())
        t = q.shape[2]
        self._length += t
        near_bias = self.layer.readout.key_bias(self._near_k, norm)
        keys = torch.cat([self._far_k, self._near_k], dim=2)
        values = torch.cat([self._far_v, self._near_v], dim=2)
        bias = torch.cat([self._far_bias, near_bias], dim=2)
        hidden = later_rows(t, keys.shape[2] - t, q.device) if t > 1 else None
        return attend(q, keys, values, scale, bias, hidden)

    def _absorb(self) -> None:
        """The chunk is complete: its rows enter the memories, all of them or none."""
        rows = self.layer.gate_rows(self._near_k, self._near_v)
        keys, values = rows.double().cpu().numpy(), self._near_v.double().cpu().numpy()
        start = self._length - keys.shape[2]
        ids = [str(position) for position in range(start, self._length)]
        sizes = [len(memory) for memory in chain.from_iterable(self.memories)]
        try:
            for b, heads in enumerate(self.memories):
                for h, memory in enumerate(heads):
                    memory.add(keys[b, h], values[b, h], ids=ids)
        except BaseException:
            for memory, size in zip(chain.from_iterable(self.memories), sizes, strict=True):
                if len(memory) > size:  # a memory adds all rows or none
                    memory.forget(ids)
            raise
        self._near_k = self._near_v = self._near_k[:, :, :0]

    def _renew(self) -> None:
        """Read the supports anew if a memory has changed: a memory keeps the arrays until then."""
        supports = [self._support(memory) for heads in self.memories for memory in heads]
        if self._read and all(
            old() is new.keys for old, new in zip(self._read, supports, strict=True)
        ):
            return
        # weak, so that keys of forgotten rows are not held by this
        self._read = [weakref.ref(one.keys) for one in supports]
        widest = max(len(one.ids) for one in supports)
        like, d = self._near_k, self.layer.head_dim
        start = self._length - like.shape[2]
        far_k, far_v, logs, ages = [], [], [], []
        for near, weights, rows, ids in supports:
            spare = widest - len(weights)
            far_k.append(pad(torch.as_tensor(near[:d].T.copy()), (0, 0, 0, spare)))
            far_v.append(pad(torch.as_tensor(rows), (0, 0, 0, spare)))
            logs.append(pad(torch.as_tensor(weights).log(), (0, spare), value=-torch.inf))
            if self.layer.fade is not None:
                age = torch.tensor([_age(i, start) for i in ids], dtype=torch.long)
                ages.append(pad(age, (0, spare), value=1))
        shape = (self.batch, self.layer.num_heads, widest)
        self._far_k = torch.stack(far_k).to(like).view(*shape, self.layer.head_dim)
        self._far_v = torch.stack(far_v).to(like).view(*shape, self.layer.head_dim)
        _, norm = self.layer.readout(self.layer.gamma())
        bias = torch.stack(logs).to(like).view(shape)
        if self.layer.fade is not None:
            bias = bias + self.layer.fade(torch.stack(ages).to(like.device).view(shape))
        self._far_bias = bias + self.layer.readout.key_bias(self._far_k, norm)

    def _support(self, memory: SupportVectorMemory) -> Support:
        # its own arrays: the public ones would copy all rows, in reserve or not
        return memory._held.support() if len(memory) else self._nothing


def _age(name: str, start: int) -> int:
    """Age of the row with this id when the chunk at hand starts."""
    if not (name.isascii() and name.isdecimal() and int(name) < start):
        raise InputError(
            f"row {name!r} has no age: in the memories of a layer that fades, an id is a position "
            f"before {start}; forget the row to go on"
        )
    return start - int(name)


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
