"""Layers to compare with, all with the interface of :class:`svmemory.torch.HybridSVAttention`."""

from __future__ import annotations

from .deltanet import DeltaNet
from .linear import LinearAttention
from .rbf import RBFAttention
from .softmax import SoftmaxAttention, WindowAttention
from .ssm import SelectiveSSM

__all__ = [
    "DeltaNet",
    "LinearAttention",
    "RBFAttention",
    "SelectiveSSM",
    "SoftmaxAttention",
    "WindowAttention",
]
