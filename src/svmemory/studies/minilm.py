"""all-MiniLM-L6-v2 (Reimers and Gurevych; Wang et al. 2020) read from its files, in NumPy.

Six BERT layers and the mean over positions. The package that carries the weights asks for
sentence-transformers; a forward pass needs no more than this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.special import erf

from .wordpiece import WordPiece

Single = NDArray[np.float32]

_MOST = 256  # pieces of a text that the model reads
_BATCH = 64


class MiniLM:
    """Sentence embeddings.

    Parameters
    ----------
    folder : Path
        With ``config.json``, ``vocab.txt`` and ``model.safetensors``.
    """

    def __init__(self, folder: Path) -> None:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        self._heads = int(config["num_attention_heads"])
        self._layers = int(config["num_hidden_layers"])
        self._tiny = float(config["layer_norm_eps"])
        self._tokens = WordPiece((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
        self._weights: dict[str, Single] = load_file(folder / "model.safetensors")

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Embeddings (n, 384) of length 1."""
        numbers = [self._tokens(text, _MOST) for text in texts]
        width = self._weights["embeddings.LayerNorm.weight"].shape[0]
        rows: NDArray[np.float64] = np.empty((len(texts), width))
        by_length: dict[int, list[int]] = {}
        for i, pieces in enumerate(numbers):
            by_length.setdefault(len(pieces), []).append(i)
        # texts of one length together: nothing is padded, so no text depends on its neighbours
        for same in by_length.values():
            for start in range(0, len(same), _BATCH):
                batch = same[start : start + _BATCH]
                states = self._states(np.array([numbers[i] for i in batch]))  # (b, t, D)
                rows[batch] = states.mean(axis=1)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def _states(self, numbers: NDArray[np.int64]) -> Single:
        """Last layer's states (b, t, D) for pieces (b, t)."""
        weights = self._weights
        x = weights["embeddings.word_embeddings.weight"][numbers]
        x = x + weights["embeddings.position_embeddings.weight"][: numbers.shape[1]]
        x = x + weights["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(self._layers):
            name = f"encoder.layer.{layer}"
            mixed = self._linear(self._attended(x, name), f"{name}.attention.output.dense")
            x = self._norm(x + mixed, f"{name}.attention.output.LayerNorm")
            wide = self._linear(x, f"{name}.intermediate.dense")
            wide = wide * 0.5 * (1.0 + erf(wide * np.float32(0.5**0.5)))  # GELU
            x = self._norm(
                x + self._linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm"
            )
        return x

    def _attended(self, x: Single, layer: str) -> Single:
        """Softmax attention of all positions to all; (b, t, D)."""
        b, t, width = x.shape
        q, k, v = (
            self._linear(x, f"{layer}.attention.self.{part}")
            .reshape(b, t, self._heads, -1)
            .swapaxes(1, 2)  # (b, heads, t, d)
            for part in ("query", "key", "value")
        )
        logits = q @ k.swapaxes(2, 3) / np.float32(np.sqrt(q.shape[-1]))
        share = np.exp(logits - logits.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        read: Single = (share @ v).swapaxes(1, 2).reshape(b, t, width)
        return read

    def _linear(self, x: Single, name: str) -> Single:
        out: Single = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return out

    def _norm(self, x: Single, name: str) -> Single:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._tiny))
        out: Single = (
            centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        )
        return out
