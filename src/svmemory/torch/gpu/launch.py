"""Where a Triton kernel runs and where its twin in plain PyTorch does."""

from __future__ import annotations

import os

from torch import Tensor


def on_triton(x: Tensor) -> bool:
    """True for tensors on a GPU, and for all tensors under Triton's interpreter.

    The interpreter is on if TRITON_INTERPRET is 1 from before Triton is imported.
    """
    return x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
