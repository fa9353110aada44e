"""A text that says everything several times: long contexts in which most rows are not new."""

from __future__ import annotations

import numpy as np

PIECE = 64  # bytes
TOGETHER = 4  # pieces that are repeated among each other
TIMES = 4


def redundant(text: bytes) -> bytes:
    """Each four pieces of 64 bytes, four times each, in an order that is drawn.

    The order of the text is kept beyond 1,024 bytes, and the whole is ten parts of as many groups
    of four: its last tenth says nothing that was said before it. What is left of ``text`` at its
    end is left out.
    """
    rng = np.random.default_rng(0)
    groups = len(text) // (PIECE * TOGETHER) // 10 * 10
    pieces = np.frombuffer(text[: groups * PIECE * TOGETHER], np.uint8)
    pieces = pieces.reshape(groups, TOGETHER, PIECE)
    order = rng.permuted(np.tile(np.arange(TOGETHER), (groups, TIMES)), axis=1)
    return pieces[np.arange(groups)[:, None], order].tobytes()
