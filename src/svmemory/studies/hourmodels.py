"""Causal sequence models that give every hour of a stay a log-odds, and how they are trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence

from ..torch.language.model import Block, ModelConfig, draw_linear
from ..torch.language.run import denormals_flushed
from ..torch.registry import LayerOptions
from .ranking import Ranking

WIDTH, LAYERS, HEADS, CHUNK = 48, 2, 2, 8
LSTM_WIDTH = 112  # about as many parameters as the attention models have
_POOL = 32  # batches among which stays are sorted by length, so that little is padding

Single = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Sequence:
    """One stay as a model takes it: inputs (T, F), labels (T,) and hours that count (T,)."""

    inputs: Single
    label: Flags
    asked: Flags


@dataclass(frozen=True)
class Plan:
    """How to train: passes over the data, stays a step, highest learning rate, seed."""

    epochs: int
    batch: int
    seed: int
    lr: float = 3e-3


class AttentionModel(nn.Module):
    """Pre-norm blocks over embedded hours; ``attention`` is a name of the layer registry."""

    def __init__(self, attention: str, features: int, longest: int) -> None:
        super().__init__()
        options = LayerOptions(chunk=CHUNK)
        config = ModelConfig(WIDTH, LAYERS, HEADS, longest, attention, options)
        self.embed = nn.Linear(features, WIDTH)
        self.position = nn.Parameter(torch.zeros(longest, WIDTH))
        self.blocks = nn.ModuleList(Block(config) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 1)
        nn.init.normal_(self.position, std=0.02)
        draw_linear(self)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F) to log-odds (B, T)."""
        x = self.embed(x) + self.position[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x)).squeeze(-1)
        return out


class LSTMModel(nn.Module):
    """One LSTM layer."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, LSTM_WIDTH, batch_first=True)
        self.head = nn.Linear(LSTM_WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F) to log-odds (B, T)."""
        states, _ = self.lstm(x)
        out: Tensor = self.head(states).squeeze(-1)
        return out


def build(kind: str, features: int, longest: int) -> nn.Module:
    """``"lstm"``, or attention of that name."""
    return LSTMModel(features) if kind == "lstm" else AttentionModel(kind, features, longest)


def trained_scores(
    kind: str,
    training: list[Sequence],
    validation: list[Sequence],
    test: list[Sequence],
    plan: Plan,
) -> tuple[list[float], Single]:
    """Train, and score the test stays at the epoch that ranks the validation stays best.

    Returns
    -------
    list of float
        Validation ROC area after each epoch.
    (n,) array
        Log-odds of the asked hours of the test stays, one after another.
    """
    torch.manual_seed(plan.seed)
    rng = np.random.default_rng(plan.seed)
    longest = max(len(s.label) for s in (*training, *validation, *test))
    model = build(kind, training[0].inputs.shape[1], longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.lr, weight_decay=0.01)
    truth = np.concatenate([s.label[s.asked] for s in validation])
    steps = plan.epochs * math.ceil(len(training) / plan.batch)
    step, seen, best = 0, [], model.state_dict()
    with denormals_flushed():
        for _ in range(plan.epochs):
            model.train()
            for batch in _shuffled(training, plan.batch, rng):
                for group in optimizer.param_groups:
                    group["lr"] = plan.lr * _rate(step, steps)
                optimizer.zero_grad()
                _loss(model, batch).backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                step += 1
            seen.append(Ranking(_scored(model, validation), truth).areas()[0])
            if seen[-1] == max(seen):
                best = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(best)
        return seen, _scored(model, test)


def _rate(step: int, steps: int) -> float:
    """Rises over the first twentieth of the steps, then falls to a tenth along a cosine."""
    rise = max(1, steps // 20)
    if step < rise:
        return (step + 1) / rise
    return 0.1 + 0.45 * (1.0 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def _shuffled(
    stays: list[Sequence], batch: int, rng: np.random.Generator
) -> Iterator[list[Sequence]]:
    """Batches of stays of like length, in random order."""
    order = rng.permutation(len(stays))
    for start in range(0, len(order), batch * _POOL):
        pool = sorted(order[start : start + batch * _POOL], key=lambda i: len(stays[i].label))
        batches = [pool[i : i + batch] for i in range(0, len(pool), batch)]
        for i in rng.permutation(len(batches)):
            yield [stays[j] for j in batches[i]]


def _loss(model: nn.Module, batch: list[Sequence]) -> Tensor:
    """Mean cross entropy over the asked hours. Padding lies behind what a causal model reads."""
    logits = model(_padded([s.inputs for s in batch]))
    asked = _padded([s.asked for s in batch])
    label = _padded([s.label for s in batch])
    return binary_cross_entropy_with_logits(logits[asked], label[asked].to(logits.dtype))


def _scored(model: nn.Module, stays: list[Sequence], batch: int = 256) -> Single:
    """Log-odds of all asked hours, stay after stay."""
    model.eval()
    order = np.argsort([len(s.label) for s in stays], kind="stable")
    found: list[Single] = [np.empty(0, dtype=np.float32)] * len(stays)
    with torch.no_grad():
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            logits = model(_padded([stays[i].inputs for i in rows])).numpy()
            for i, row in zip(rows, logits, strict=True):
                asked = stays[i].asked
                found[i] = row[: len(asked)][asked]
    return np.concatenate(found)


def _padded(arrays: list[NDArray[np.generic]]) -> Tensor:
    """Arrays (T, ...) of different lengths in one tensor (B, T, ...), zeros at the end."""
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
    return pad_sequence(tensors, batch_first=True)
