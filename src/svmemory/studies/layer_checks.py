"""What of the trainable layer can be checked in seconds: derivatives, a teacher, speed."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import torch

from ..torch import SVAttention, sv_attention, sv_gate, sv_score
from ..torch.language.model import PRESETS, ByteLM, next_byte_loss
from ..torch.language.run import denormals_flushed

_STEPS = 200
_BATCH = 16
_FEW = 3  # turns of what has no aim


def gradients() -> dict[str, bool]:
    """Finite differences of what the gate gives, in float64."""
    draw = torch.Generator().manual_seed(4)

    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()

    keys, points, values = leaf(2, 14, 3), leaf(2, 5, 3), leaf(2, 14, 2)
    gamma = torch.tensor([0.3, 0.5], dtype=torch.float64, requires_grad=True)
    cap = torch.tensor([0.17, 0.12], dtype=torch.float64, requires_grad=True)

    def weights(keys: torch.Tensor, gamma: torch.Tensor, cap: torch.Tensor) -> torch.Tensor:
        return sv_gate(keys, gamma, cap).weights

    def score(
        points: torch.Tensor, keys: torch.Tensor, gamma: torch.Tensor, cap: torch.Tensor
    ) -> torch.Tensor:
        return sv_score(points, keys, sv_gate(keys, gamma, cap), gamma)

    def readout(
        points: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, gamma: torch.Tensor
    ) -> torch.Tensor:
        return sv_attention(points, keys, values, gamma=gamma, C=0.15)

    check = torch.autograd.gradcheck
    return {
        "weights": check(weights, (keys, gamma, cap), raise_exception=False),
        "gate score": check(score, (points, keys, gamma, cap), raise_exception=False),
        "readout": check(readout, (points, keys, values, gamma), raise_exception=False),
    }


def teacher_fit(seed: int) -> float:
    """Share by which the loss of a student falls in 200 steps towards a teacher of its own kind."""
    torch.manual_seed(seed)
    teacher, student = SVAttention(16, 2, C=0.2), SVAttention(16, 2, C=0.2)
    x, context = torch.randn(4, 8, 16), torch.randn(4, 24, 16)
    target = teacher(x, context).detach()
    optimizer = torch.optim.Adam(student.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    losses: list[float] = []
    for _ in range(_STEPS):
        loss = (student(x, context) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return 1.0 - losses[-1] / losses[0]


def ratios(preset: str, turns: int) -> dict[str, float]:
    """Time of forward and backward of a whole model over that with softmax: median of turns.

    In every turn each model is timed beside softmax, and the two go first in turn.
    """
    config = PRESETS[preset]
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 256, (_BATCH, config.block + 1), generator=generator)

    def built(name: str) -> ByteLM:
        torch.manual_seed(0)
        return ByteLM(replace(config, attention=name))

    def seconds(model: ByteLM) -> float:
        model.zero_grad(set_to_none=True)
        start = time.perf_counter()
        next_byte_loss(model, tokens).backward()  # type: ignore[no-untyped-call]
        return time.perf_counter() - start

    softmax, found = built("softmax"), {}
    with denormals_flushed():
        for name, rounds in (("sv", turns), ("window", _FEW), ("deltanet", _FEW)):
            model = built(name)
            seconds(model)  # compiles, and is not counted
            seconds(softmax)
            ratios = []
            for turn in range(rounds):
                took = {one: seconds(one) for one in _in_order((model, softmax), turn)}
                ratios.append(took[model] / took[softmax])
            found[name] = statistics.median(ratios)
    return found


def _in_order(pair: tuple[ByteLM, ByteLM], turn: int) -> tuple[ByteLM, ByteLM]:
    return pair if turn % 2 else (pair[1], pair[0])
