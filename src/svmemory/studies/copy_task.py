"""Selective copying: a few items among ever more filler, asked for at the end, in order.

A sequence is T positions, each a name (a direction in R^8) with a symbol. Eight positions hold the
items: names of their own, drawn anew for every sequence, each with a random symbol. All others are
filler: near-copies of two names, which always carry the same symbol. At the end the eight names are
given again, in the order in which they came, and the symbols are asked for.

Nothing but the redundancy tells filler from items, unless filler is the same in all sequences: then
a layer can learn to ignore it. Both are tasks here, "new filler" and "known filler".
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Filler = Literal["known", "new"]
FILLERS: tuple[Filler, ...] = ("known", "new")

ITEMS = 8
KINDS = 2
WIDTH = 8
"""Features of a name."""

SYMBOLS = 16
CHANCE = 1.0 / SYMBOLS
NOISE = 0.05
"""Standard deviation, in every feature, between two fillers of one kind; names have length 2.8."""

_KNOWN_SEED = 20_260  # the two known fillers are a part of the task, the same for all seeds


class CopyBatch(NamedTuple):
    """B sequences of T positions.

    Attributes
    ----------
    names : Tensor (B, T, 8)
    symbols : int64 Tensor (B, T)
    asked : Tensor (B, 8, 8)
        Names of the items in order of arrival.
    answers : int64 Tensor (B, 8)
        Their symbols.
    places : int64 Tensor (B, 8)
        Where the items stood.
    """

    names: Tensor
    symbols: Tensor
    asked: Tensor
    answers: Tensor
    places: Tensor


def draw(batch: int, length: int, filler: Filler, rng: torch.Generator) -> CopyBatch:
    """Sequences of ``length`` >= 8 positions."""
    items = _names((batch, ITEMS), rng)
    answers = torch.randint(SYMBOLS, (batch, ITEMS), generator=rng)
    centres, marks = _kinds(batch, filler, rng)
    kind = torch.randint(KINDS, (batch, length), generator=rng)
    names = centres.gather(1, kind[..., None].expand(-1, -1, WIDTH))
    names = names + NOISE * torch.randn(names.shape, generator=rng)
    symbols = marks.gather(1, kind)
    lottery = torch.rand((batch, length), generator=rng)
    places = lottery.topk(ITEMS, dim=1).indices.sort(dim=1).values
    names = names.scatter(1, places[..., None].expand(-1, -1, WIDTH), items)
    symbols = symbols.scatter(1, places, answers)
    return CopyBatch(names, symbols, items, answers, places)


def _names(shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Random directions, as long as a vector of independent standard normals is."""
    drawn = torch.randn((*shape, WIDTH), generator=rng)
    names: Tensor = math.sqrt(WIDTH) * drawn / drawn.norm(dim=-1, keepdim=True)
    return names


def _kinds(batch: int, filler: Filler, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Names (B, 2, 8) and symbols (B, 2) of the two kinds of filler."""
    if filler == "known":
        own = torch.Generator().manual_seed(_KNOWN_SEED)
        centres = _names((1, KINDS), own).expand(batch, -1, -1)
        return centres, torch.randint(SYMBOLS, (1, KINDS), generator=own).expand(batch, -1)
    return _names((batch, KINDS), rng), torch.randint(SYMBOLS, (batch, KINDS), generator=rng)
