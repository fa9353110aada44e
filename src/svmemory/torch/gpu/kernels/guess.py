"""The guess of all sets: one program a problem, its kernel matrix read from the cache."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..limits import ENOUGH, NOISE, ROUNDS, STEPS

jit: Any = triton.jit

TILE = 8192  # matrix entries in registers at a time


@jit
def multiply(K, x, scratch, i, n, stride, BLOCK: tl.constexpr, STEP: tl.constexpr):  # type: ignore[no-untyped-def]
    """``K x`` over the first n rows for x (BLOCK,), zero from n on.

    The vector goes through memory, where other threads can read the entries that they need. Blocks
    of zeros cost nothing: that is most of them once the margin is small.
    """
    tl.store(scratch + i, x)
    tl.debug_barrier()  # everything is written before anything is read
    out = tl.zeros_like(x)
    for first in range(0, n, STEP):
        j = first + tl.arange(0, STEP)
        part = tl.load(scratch + j, mask=j < n, other=0.0)
        if tl.max(tl.abs(part)) > 0.0:
            where = j.to(tl.int64)[:, None] * stride + i[None, :]  # K is symmetric: rows as columns
            tile = tl.load(K + where, mask=(j[:, None] < n) & (i[None, :] < n), other=0.0)
            out += tl.sum(part[:, None] * tile, 0)
    tl.debug_barrier()  # and read before the next call writes
    return out


@jit
def guess_problem(  # type: ignore[no-untyped-def]
    matrices,
    counts,
    held,
    masses,
    codes,
    scratch,
    lengths,
    stride,
    ENOUGH: tl.constexpr,
    NOISE: tl.constexpr,
    ROUNDS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
    STEP: tl.constexpr,
):
    """Problem q of set q // lengths; codes are 0 reserve, 1 margin, 2 error."""
    q = tl.program_id(0).to(tl.int64)
    n = tl.load(counts + q).to(tl.int32)
    mass = tl.load(held + q)
    K = matrices + q // lengths * stride * stride
    scratch += q * BLOCK
    i = tl.arange(0, BLOCK)
    inside = i < n
    b = tl.load(masses + q * stride + i, mask=inside, other=0.0)
    code = tl.load(codes + q * stride + i, mask=inside, other=-1)
    going = n > 0
    rounds = 0
    while going & (rounds < ROUNDS):
        rounds += 1
        margin = code == 1
        size = tl.sum(margin.to(tl.int32), 0)
        going = size > 0
        if going:
            b += tl.where(margin, (mass - tl.sum(b, 0)) / size, 0.0)
            h = multiply(K, b, scratch, i, n, stride, BLOCK, STEP)
            mu = tl.sum(tl.where(margin, h, 0.0), 0) / size
            p = tl.where(margin, mu - h, 0.0)
            power = tl.sum(p * p, 0)
            noise = NOISE * mass
            limit = tl.maximum(ENOUGH * power, noise * noise)
            steps = 0
            while (steps < STEPS) & (power > limit):
                steps += 1
                image = multiply(K, p, scratch, i, n, stride, BLOCK, STEP)
                length = power / tl.sum(p * image, 0)
                b += length * p
                h += length * image
                mu = tl.sum(tl.where(margin, h, 0.0), 0) / size
                r = tl.where(margin, mu - h, 0.0)
                now = tl.sum(r * r, 0)
                p = r + now / power * p
                power = now
            tolerance = tl.maximum(tl.sqrt(power / size), noise)
            under = margin & (b < 0.0)
            over = margin & (b > 1.0)
            leave = (code == 2) & (h > mu + tolerance)
            enter = leave | ((code == 0) & (h < mu - tolerance))
            b = tl.where(under, 0.0, tl.where(over, 1.0, b))
            code = tl.where(under, 0, tl.where(over, 2, tl.where(enter, 1, code)))
            going = tl.sum((under | over | enter).to(tl.int32), 0) > 0
    tl.store(masses + q * stride + i, b, mask=inside)
    tl.store(codes + q * stride + i, code, mask=inside)


def guess(matrices: Tensor, counts: Tensor, held: Tensor, b: Tensor, codes: Tensor) -> None:
    """See :func:`svmemory.torch.gpu.guess.guess`."""
    count, n = b.shape
    block = max(16, triton.next_power_of_2(n))
    guess_problem[(count,)](
        matrices,
        counts.contiguous(),
        held.contiguous(),
        b,
        codes,
        torch.empty(count, block, dtype=b.dtype, device=b.device),
        count // len(matrices),
        n,
        ENOUGH=ENOUGH,
        NOISE=NOISE,
        ROUNDS=ROUNDS,
        STEPS=STEPS,
        BLOCK=block,
        STEP=max(1, min(32, TILE // block)),
        num_warps=4 if block <= 512 else 8 if block <= 2048 else 16,
    )
