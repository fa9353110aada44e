"""A small byte-level language model, the same for every layer under comparison.

A pre-norm decoder: learned positions, GELU blocks four times as wide as the model, head tied to the
byte embedding, all matrices drawn with standard deviation 0.02.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu

from ...errors import InputError
from ..hybrid import HybridSVAttention
from ..registry import LayerOptions, build_layer

BYTES = 256
_SPREAD = 0.02  # standard deviation of a fresh matrix


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a model.

    Attributes
    ----------
    embed_dim, layers, num_heads, block : int
        Features D, layers, heads, and longest sequence T.
    attention : str
        A name of :data:`svmemory.torch.registry.LAYERS`.
    options : LayerOptions
    """

    embed_dim: int
    layers: int
    num_heads: int
    block: int
    attention: str = "sv"
    options: LayerOptions = field(default_factory=LayerOptions)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ModelConfig:
        """The inverse of :meth:`as_dict`."""
        return cls(**{**fields, "options": LayerOptions(**fields["options"])})


PRESETS: dict[str, ModelConfig] = {
    "tiny": ModelConfig(embed_dim=128, layers=4, num_heads=4, block=256),  # 0.85 M parameters
    "3m": ModelConfig(embed_dim=256, layers=4, num_heads=4, block=256),  # 3.3 M
    "10m": ModelConfig(embed_dim=384, layers=6, num_heads=6, block=512),  # 10.9 M
    "32m": ModelConfig(embed_dim=512, layers=10, num_heads=8, block=512),  # 31.9 M
}
"""Sizes by name; those from 3m on are the paper's."""


class Block(nn.Module):
    """One layer of the decoder."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D = config.embed_dim
        self.norm_1 = nn.LayerNorm(D)
        self.attention = build_layer(config.attention, D, config.num_heads, config.options)
        self.norm_2 = nn.LayerNorm(D)
        self.widen = nn.Linear(D, 4 * D)
        self.narrow = nn.Linear(4 * D, D)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        return self.with_attention(x, self.attention)

    def with_attention(self, x: Tensor, attention: Callable[[Tensor], Tensor]) -> Tensor:
        """The same with another way to attend, as a cache has."""
        x = x + attention(self.norm_1(x))
        out: Tensor = x + self.narrow(gelu(self.widen(self.norm_2(x))))
        return out


def draw_linear(model: nn.Module) -> None:
    """Draw the matrices of all linear layers anew, with standard deviation 0.02."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=_SPREAD)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class ByteLM(nn.Module):
    """Next-byte predictor.

    Parameters
    ----------
    config : ModelConfig
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if min(config.layers, config.block) < 1:
            raise InputError("a model needs at least one layer and one position")
        self.config = config
        self.embedding = nn.Embedding(BYTES, config.embed_dim)
        self.position = nn.Parameter(torch.empty(config.block, config.embed_dim))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew."""
        nn.init.normal_(self.embedding.weight, std=_SPREAD)
        nn.init.normal_(self.position, std=_SPREAD)
        draw_linear(self)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, 256) from bytes (B, T)."""
        length = tokens.shape[-1]
        if length > self.config.block:
            raise InputError(f"at most {self.config.block} positions, got {length}")
        x = self.embedding(tokens) + self.position[:length]
        for block in self.blocks:
            x = block(x)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """The head: features (B, T, D) to (B, T, 256)."""
        out: Tensor = self.norm(x) @ self.embedding.weight.T
        return out

    def gated_layers(self) -> list[HybridSVAttention]:
        """The layers with a gate, first to last."""
        return [m for m in self.modules() if isinstance(m, HybridSVAttention)]

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Groups for an optimizer: decay on matrices, none on vectors."""
        matrices = [p for p in self.parameters() if p.dim() >= 2]
        vectors = [p for p in self.parameters() if p.dim() < 2]
        return [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]


def next_byte_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross entropy in nats of predicting bytes 1..T from bytes 0..T-1; tokens (B, T+1)."""
    logits: Tensor = model(tokens[:, :-1])
    return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
