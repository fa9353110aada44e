"""Kernel matrices: one program a tile on or above the diagonal, written to both its places."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

jit: Any = triton.jit

TILE = 32


@jit
def gram_tile(keys, gamma, out, n, d, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Tile (i, j) of set p; programs below the diagonal have nothing to do."""
    p = tl.program_id(0).to(tl.int64)
    top, left = tl.program_id(1), tl.program_id(2)
    if left >= top:
        i = (top * TILE + tl.arange(0, TILE)).to(tl.int64)
        j = (left * TILE + tl.arange(0, TILE)).to(tl.int64)
        square = tl.zeros((TILE, TILE), tl.float64)
        for k in range(d):
            x = tl.load(keys + (p * n + i) * d + k, mask=i < n, other=0.0)
            y = tl.load(keys + (p * n + j) * d + k, mask=j < n, other=0.0)
            difference = x[:, None] - y[None, :]
            square += difference * difference
        value = tl.exp(-tl.load(gamma + p) * square)
        inside = (i[:, None] < n) & (j[None, :] < n)
        tl.store(out + (p * n + i[:, None]) * n + j[None, :], value, mask=inside)
        tl.store(out + (p * n + j[None, :]) * n + i[:, None], value, mask=inside)


def gram(keys: Tensor, gamma: Tensor) -> Tensor:
    """See :func:`svmemory.torch.gpu.gram.gram`."""
    count, n, d = keys.shape
    out = torch.empty(count, n, n, dtype=torch.float64, device=keys.device)
    tiles = triton.cdiv(n, TILE)
    gram_tile[count, tiles, tiles](keys.contiguous(), gamma.contiguous(), out, n, d, TILE=TILE)
    return out
