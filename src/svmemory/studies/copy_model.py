"""One small model for all layers of the copying study, its training and its test.

Names and symbols are embedded and added; one layer reads them; a question adds what it read, passes
a block of two linear maps and answers. There are no positions: a learned one would not be defined
beyond the lengths that were trained on, and this keeps all layers equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..torch.baselines import (
    DeltaNet,
    LinearAttention,
    SelectiveSSM,
    SoftmaxAttention,
    WindowAttention,
)
from ..torch.gate import Gate
from ..torch.layers import SVAttention
from .copy_task import ITEMS, SYMBOLS, WIDTH, CopyBatch, Filler, draw

EMBED_DIM = 32
HEADS = 1
"""One head of 32 features: the matrices of the fixed-state layers are then as large as they can be
at this width, about as many numbers as the gate's rows."""

HEAD_DIM = EMBED_DIM // HEADS
WINDOW = 32
SSM_STATE = 32
SSM_HEADS = 4
"""Heads of the state-space layer share what is written and differ in decay; the size of its state
does not depend on their number."""

CONVOLUTION = 3
"""Positions that the convolution of the state-space layer keeps besides the present one."""

LAYERS = ("sv", "softmax", "window", "linear", "deltanet", "ssm")


class CountedSV(SVAttention):
    """The gated memory, which notes how many rows carry weight: ``rows`` (B, H).

    It trains with the batched solver and is tested with the engine's, which has the same optimum
    and is the faster one where thousands of rows are redundant.
    """

    rows: Tensor

    def solve(self, k: Tensor, mask: Tensor | None = None) -> Gate:
        """As the layer does, and count."""
        self.solver = "batched" if self.training else "exact"
        gate = super().solve(k, mask)
        self.rows = (gate.codes > 0).sum(dim=-1)
        return gate


def build(layer: str) -> nn.Module:
    """A layer by one of the names in :data:`LAYERS`."""
    if layer == "sv":
        return CountedSV(EMBED_DIM, HEADS, readout="dot")
    if layer == "window":
        return WindowAttention(EMBED_DIM, HEADS, window=WINDOW)
    if layer == "ssm":
        return SelectiveSSM(EMBED_DIM, SSM_HEADS, state=SSM_STATE)
    others = {"softmax": SoftmaxAttention, "linear": LinearAttention, "deltanet": DeltaNet}
    return others[layer](EMBED_DIM, HEADS)


class Copier(nn.Module):
    """The model around one layer; matrices are drawn as PyTorch draws them."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        self.name = nn.Linear(WIDTH, EMBED_DIM)
        self.symbol = nn.Embedding(SYMBOLS, EMBED_DIM)
        self.question = nn.Parameter(torch.randn(EMBED_DIM))
        self.norm_1 = nn.LayerNorm(EMBED_DIM)
        self.layer = build(layer)
        self.norm_2 = nn.LayerNorm(EMBED_DIM)
        self.widen = nn.Linear(EMBED_DIM, 2 * EMBED_DIM)
        self.narrow = nn.Linear(2 * EMBED_DIM, EMBED_DIM)
        self.head = nn.Linear(EMBED_DIM, SYMBOLS)

    def forward(self, batch: CopyBatch) -> Tensor:
        """Logits (B, 8, 16)."""
        items = self.norm_1(self.name(batch.names) + self.symbol(batch.symbols))  # (B, T, D)
        asked = self.name(batch.asked) + self.question  # (B, 8, D)
        questions = self.norm_1(asked)
        if isinstance(self.layer, SVAttention):
            # the gate is solved once, where the questions begin, as a chunk's would be
            read = self.layer(questions, items)
        else:
            read = self.layer(torch.cat([items, questions], dim=1))[:, -ITEMS:]
        x = asked + read
        x = x + self.narrow(nn.functional.gelu(self.widen(self.norm_2(x))))
        out: Tensor = self.head(x)
        return out


@dataclass(frozen=True)
class Budget:
    """How long a model trains and on what; the same for all layers."""

    steps: int
    batch: int
    lengths: tuple[int, ...]
    lr: float


def train(layer: str, filler: Filler, budget: Budget, seed: int) -> Copier:
    """Train by Adam: a tenth of the steps to warm up, then a cosine to zero."""
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Copier(layer)
    optimizer = torch.optim.Adam(model.parameters(), lr=budget.lr)
    warm = max(budget.steps // 10, 1)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(budget.steps - warm, 1)),
        ],
        milestones=[warm],
    )
    for step in range(budget.steps):
        batch = draw(budget.batch, budget.lengths[step % len(budget.lengths)], filler, rng)
        loss = cross_entropy(model(batch).flatten(0, 1), batch.answers.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


@torch.no_grad()
def recalled(
    model: Copier, filler: Filler, length: int, sequences: int, rng: torch.Generator
) -> tuple[float, float]:
    """Share of right answers over ``sequences`` sequences, and rows that a head keeps.

    The rows are those with weight of the gated memory, averaged over sequences and heads; NaN for
    other layers.
    """
    right, rows, group = 0, 0.0, 16
    model.eval()
    for start in range(0, sequences, group):
        batch = draw(min(group, sequences - start), length, filler, rng)
        right += int((model(batch).argmax(-1) == batch.answers).sum())
        if isinstance(model.layer, CountedSV):
            rows += float(model.layer.rows.double().mean(dim=1).sum())
    kept = rows / sequences if isinstance(model.layer, CountedSV) else float("nan")
    return right / (sequences * ITEMS), kept


def state_floats(layer: str, length: int, rows: float) -> float:
    """Numbers that a layer holds of a sequence of ``length`` positions when it is asked.

    Parameters
    ----------
    layer : str
    length : int
    rows : float
        Rows a head keeps; counts for "sv" only.
    """
    row = 2 * HEAD_DIM  # a key and a value
    if layer == "sv":
        return HEADS * rows * (row + 1)  # and a weight
    if layer == "softmax":
        return HEADS * length * row
    if layer == "window":
        return HEADS * min(length, WINDOW) * row
    if layer == "linear":
        return HEADS * HEAD_DIM * (HEAD_DIM + 1)
    if layer == "deltanet":
        return HEADS * HEAD_DIM * HEAD_DIM
    return SSM_STATE * EMBED_DIM + CONVOLUTION * (EMBED_DIM + 2 * SSM_STATE)
