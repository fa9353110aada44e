"""Attention with a bias for each key: one program a block of queries, or of keys going back.

The backward pass computes weights again from the logarithm of their sum, as in FlashAttention-2
(Dao 2023, algorithm 2), and sums the bias's gradient on the way.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

jit: Any = triton.jit


@jit
def load_rows(base, row, count, width, present, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows (len(row), WIDTH) of a matrix (count, width), zero where not present."""
    column = tl.arange(0, WIDTH)
    mask = (present & (row < count))[:, None] & (column < width)[None, :]
    return tl.load(base + row[:, None] * width + column[None, :], mask=mask, other=0.0)


@jit
def store_rows(base, row, count, width, value, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """The inverse of :func:`load_rows`."""
    column = tl.arange(0, WIDTH)
    mask = (row < count)[:, None] & (column < width)[None, :]
    tl.store(base + row[:, None] * width + column[None, :], value, mask=mask)


@jit
def visible(i, j, present, memory):  # type: ignore[no-untyped-def]
    """Whether query i sees key j."""
    return present[None, :] & ((j[None, :] < memory) | (j[None, :] - memory <= i[:, None]))


@jit
def attend_queries(  # type: ignore[no-untyped-def]
    q, k, v, bias, out, total, t, n, d, e, memory,
    ABSENT: tl.constexpr, PRECISION: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Out (t, e) and the logarithm of the sum of weights (t,) of one block of queries."""
    g = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    queries = load_rows(q + g * t * d, i, t, d, i >= 0, D)
    largest = tl.full((ROWS,), -1e30, tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    read = tl.zeros((ROWS, E), tl.float32)
    for first in range(0, n, ROWS):
        j = first + tl.arange(0, ROWS)
        b = tl.load(bias + g * n + j, mask=j < n, other=-float("inf")).to(tl.float32)
        present = b > ABSENT
        keys = load_rows(k + g * n * d, j, n, d, present, D)
        values = load_rows(v + g * n * e, j, n, e, present, E)
        logits = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) + b[None, :]
        seen = visible(i, j, present, memory)
        now = tl.maximum(largest, tl.max(tl.where(seen, logits, -1e30), 1))
        p = tl.where(seen, tl.exp(logits - now[:, None]), 0.0)
        keep = tl.exp(largest - now)
        weight = weight * keep + tl.sum(p, 1)
        read = read * keep[:, None]
        read += tl.dot(p.to(values.dtype), values, input_precision=PRECISION)
        largest = now
    some = tl.where(weight > 0.0, weight, 1.0)
    store_rows(out + g * t * e, i, t, e, read / some[:, None], E)
    tl.store(total + g * t + i, largest + tl.log(some), mask=i < t)


@jit
def weights_and_slopes(  # type: ignore[no-untyped-def]
    queries, keys, values, b, total, bar, inner, seen, PRECISION: tl.constexpr
):
    """Weights and the cotangent of the logits of a block, (queries, keys)."""
    logits = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) + b[None, :]
    p = tl.where(seen, tl.exp(logits - total[:, None]), 0.0)
    slope = tl.dot(bar, tl.trans(values), input_precision=PRECISION) - inner[:, None]
    return p, tl.where(seen, p * slope, 0.0)


@jit
def pull_to_queries(  # type: ignore[no-untyped-def]
    q, k, v, bias, total, bar, inner, q_bar, t, n, d, e, memory,
    ABSENT: tl.constexpr, PRECISION: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Cotangent of one block of queries."""
    g = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    queries = load_rows(q + g * t * d, i, t, d, i >= 0, D)
    bars = load_rows(bar + g * t * e, i, t, e, i >= 0, E)
    totals = tl.load(total + g * t + i, mask=i < t, other=0.0)
    inners = tl.load(inner + g * t + i, mask=i < t, other=0.0)
    answer = tl.zeros((ROWS, D), tl.float32)
    for first in range(0, n, ROWS):
        j = first + tl.arange(0, ROWS)
        b = tl.load(bias + g * n + j, mask=j < n, other=-float("inf")).to(tl.float32)
        present = b > ABSENT
        keys = load_rows(k + g * n * d, j, n, d, present, D)
        values = load_rows(v + g * n * e, j, n, e, present, E)
        seen = visible(i, j, present, memory)
        _, slope = weights_and_slopes(
            queries, keys, values, b, totals, bars, inners, seen, PRECISION
        )
        answer += tl.dot(slope.to(keys.dtype), keys, input_precision=PRECISION)
    store_rows(q_bar + g * t * d, i, t, d, answer, D)


@jit
def pull_to_keys(  # type: ignore[no-untyped-def]
    q, k, v, bias, total, bar, inner, k_bar, v_bar, bias_bar, t, n, d, e, memory,
    ABSENT: tl.constexpr, PRECISION: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Cotangents of one block of keys, their values and biases."""
    g = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    b = tl.load(bias + g * n + j, mask=j < n, other=-float("inf")).to(tl.float32)
    present = b > ABSENT
    keys = load_rows(k + g * n * d, j, n, d, present, D)
    values = load_rows(v + g * n * e, j, n, e, present, E)
    of_keys = tl.zeros((ROWS, D), tl.float32)
    of_values = tl.zeros((ROWS, E), tl.float32)
    of_bias = tl.zeros((ROWS,), tl.float32)
    for first in range(0, t, ROWS):
        i = first + tl.arange(0, ROWS)
        queries = load_rows(q + g * t * d, i, t, d, i >= 0, D)
        bars = load_rows(bar + g * t * e, i, t, e, i >= 0, E)
        totals = tl.load(total + g * t + i, mask=i < t, other=0.0)
        inners = tl.load(inner + g * t + i, mask=i < t, other=0.0)
        seen = visible(i, j, present, memory) & (i < t)[:, None]
        p, slope = weights_and_slopes(
            queries, keys, values, b, totals, bars, inners, seen, PRECISION
        )
        of_values += tl.dot(tl.trans(p).to(bars.dtype), bars, input_precision=PRECISION)
        of_keys += tl.dot(tl.trans(slope).to(queries.dtype), queries, input_precision=PRECISION)
        of_bias += tl.sum(slope, 0)
    store_rows(k_bar + g * n * d, j, n, d, of_keys, D)
    store_rows(v_bar + g * n * e, j, n, e, of_values, E)
    tl.store(bias_bar + g * n + j, of_bias, mask=j < n)


def _constants(q: Tensor, v: Tensor, absent: float) -> dict[str, Any]:
    tf32 = torch.backends.cuda.matmul.allow_tf32
    return {
        "ABSENT": absent,
        "PRECISION": "tf32" if tf32 else "ieee",
        "D": max(16, triton.next_power_of_2(q.shape[-1])),
        "E": max(16, triton.next_power_of_2(v.shape[-1])),
        "ROWS": rows(q),
    }


def rows(q: Tensor) -> int:
    """Queries or keys in a block: as many as small GPUs have shared memory for."""
    return 32 if q.element_size() > 2 else 64


def forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, memory: int, absent: float
) -> tuple[Tensor, Tensor]:
    """Out (G, t, e) and float32 log-sums (G, t); see :func:`svmemory.torch.gpu.readout.attend`."""
    q, k, v, bias = (x.contiguous() for x in (q, k, v, bias))
    (count, t, d), (n, e) = q.shape, v.shape[1:]
    out = torch.empty(count, t, e, dtype=v.dtype, device=q.device)
    total = torch.empty(count, t, dtype=torch.float32, device=q.device)
    grid = count, triton.cdiv(t, rows(q))
    sizes = t, n, d, e, memory
    attend_queries[grid](q, k, v, bias, out, total, *sizes, **_constants(q, v, absent))
    return out, total


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    out: Tensor,
    total: Tensor,
    out_bar: Tensor,
    memory: int,
    absent: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cotangents of q, k, v and bias."""
    q, k, v, bias, out_bar = (x.contiguous() for x in (q, k, v, bias, out_bar))
    (count, t, d), (n, e) = q.shape, v.shape[1:]
    inner = (out_bar.float() * out.float()).sum(-1)
    bars = tuple(torch.empty_like(x) for x in (q, k, v, bias))
    given = q, k, v, bias, total, out_bar, inner
    sizes = t, n, d, e, memory
    constants = _constants(q, v, absent)
    pull_to_queries[count, triton.cdiv(t, rows(q))](*given, bars[0], *sizes, **constants)
    pull_to_keys[count, triton.cdiv(n, rows(q))](*given, *bars[1:], *sizes, **constants)
    return bars[0], bars[1], bars[2], bars[3]
