"""What the language benchmark trains: studies, their entries, and which one controls which."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from svmemory.torch.language.curves import Curves


@dataclass(frozen=True)
class Entry:
    """One line of a study: a name, a layer, how many seeds it gets, and the name of its control.

    The control reads the whole prefix at equal weights and is the same otherwise: what it is worse
    by is the gate's own share.
    """

    name: str
    attention: str
    seeds: int
    options: dict[str, Any]
    control: str | None = None


MATCHED = "window of equal state"
UNGATED = "1/n on all rows"
LONGER = 1024  # positions of the redundant text, with as many bytes a step


def studies() -> dict[str, list[Entry]]:
    """What each study trains; the first entry is what the others are compared with.

    The matched window gets its width when the runs before it are there, see :func:`matched`.
    """
    return {
        "compare": [
            Entry("sv", "sv", 3, {}),
            Entry(MATCHED, "window", 3, {}),
            Entry("softmax", "softmax", 1, {}),
            Entry("linear", "linear", 1, {}),
            Entry("deltanet", "deltanet", 1, {}),
            Entry("ssm", "ssm", 1, {}),
        ],
        "controls": [
            Entry("sv", "sv", 3, {}, UNGATED),
            Entry(UNGATED, "uniform", 3, {}),
            Entry("k random rows", "random", 3, {}),
            Entry("k most recent rows", "recent", 3, {}),
            Entry("support, equal weights", "support", 3, {}),
            Entry("gate without gradient", "detached", 3, {}),
        ],
        "forms": [
            Entry("dot", "sv", 3, {}, "dot, 1/n"),
            Entry("dot, 1/n", "uniform", 3, {}),
            Entry("gaussian", "sv", 7, {"readout": "gaussian"}, "gaussian, 1/n"),
            Entry("mix", "sv", 3, {"readout": "mix"}, "mix, 1/n"),
            Entry("gaussian, 1/n", "uniform", 7, {"readout": "gaussian"}),
            Entry("mix, 1/n", "uniform", 3, {"readout": "mix"}),
            Entry("fixed gamma", "sv", 2, {"learn_gamma": False}, "dot, 1/n"),
            Entry("learned C", "sv", 2, {"learn_cap": True}, "dot, 1/n"),
            Entry("values in the kernel", "sv", 2, {"with_values": True}, "dot, 1/n"),
            Entry("fading", "sv", 3, {"fade": True}, "fading, 1/n"),
            Entry("fading, 1/n", "uniform", 3, {"fade": True}),
        ],
        "redundant": [
            Entry("sv", "sv", 3, {}, UNGATED),
            Entry(UNGATED, "uniform", 3, {}),
            Entry("k most recent rows", "recent", 3, {}),
        ],
        "stability": [
            Entry("sv", "sv", 1, {}),
            Entry("sv, paper's solver", "sv", 1, {"solver": "paper"}),
        ],
    }


def in_turn(entries: Sequence[Entry]) -> list[tuple[Entry, int]]:
    """All runs: the reference first, then the others seed by seed, so that they can be compared."""
    first, *others = entries
    seeds = range(max((entry.seeds for entry in others), default=0))
    rest = [(entry, seed) for seed in seeds for entry in others if seed < entry.seeds]
    return [(first, seed) for seed in range(first.seeds)] + rest


def matched(runs: Iterable[Curves], chunk: int) -> int:
    """The paper's rule for a window of equal state: mean rows read, rounded, plus the chunk.

    The mean is over the last steps of all runs: the state of what is then compared.
    """
    return round(statistics.mean(rows_read(c) for c in runs)) + chunk


def rows_read(curves: Curves) -> float:
    """Mean number of prefix rows that a chunk reads at the end of a run."""
    return statistics.mean(curves.support[-50:])
