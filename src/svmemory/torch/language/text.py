"""A text as bytes: batches that depend on a seed and a step alone, and fixed validation windows."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError

VALIDATION_SHARE = 0.1


class ByteText:
    """The first nine tenths of a text to train on, the rest to validate on.

    Parameters
    ----------
    data : bytes
    block : int
        Length T of a sequence; windows hold T + 1 bytes.

    Attributes
    ----------
    digest : str
        SHA-256 of all bytes, in hex.

    Raises
    ------
    InputError
        If a part is shorter than one window.
    """

    def __init__(self, data: bytes, block: int) -> None:
        whole = torch.from_numpy(np.frombuffer(data, np.uint8).astype(np.int64))
        cut = len(whole) - round(len(whole) * VALIDATION_SHARE)
        self.block = block
        self.digest = sha256(data).hexdigest()
        self.training, self.validation = whole[:cut], whole[cut:]
        if min(len(self.training), len(self.validation)) < block + 1:
            raise InputError(
                f"the text has {len(whole)} bytes; its last tenth must hold {block + 1} or more"
            )

    @classmethod
    def from_file(cls, path: str | Path, block: int) -> ByteText:
        """Read a file as it is; OSError if it cannot be read."""
        return cls(Path(path).read_bytes(), block)

    def batch(self, seed: int, step: int, size: int) -> Tensor:
        """Training windows (size, T + 1) of one step, int64."""
        rng = np.random.default_rng([seed, step])
        starts = rng.integers(0, len(self.training) - self.block, size)
        return self._windows(self.training, starts.tolist())

    def validation_windows(self, most: int) -> Tensor:
        """Up to ``most`` windows (W, T + 1), evenly spaced, none overlapping another."""
        fit = (len(self.validation) - 1) // self.block
        count = min(most, fit)
        starts = [i * fit // count * self.block for i in range(count)]
        return self._windows(self.validation, starts)

    def _windows(self, source: Tensor, starts: list[int]) -> Tensor:
        return torch.stack([source[s : s + self.block + 1] for s in starts])
