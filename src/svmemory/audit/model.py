"""Audit of a trained model: its gates against the exact engine, and deletions of its keys.

Every layer and head is frozen on some windows of text. The frozen keys of every prefix are solved
again, exactly, at the layer's own contract; sets, weights and what was read must agree with what
the layer used. Then rows of these learned keys are deleted, and every memory must end with the
digest of one that never saw them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputError, SVMemoryError
from ..memory import SupportVectorMemory
from ..torch.language import checkpoint
from ..torch.language.text import ByteText
from .compare import Rows, Spread, deviation, largest, snapshot, spread
from .outcome import Report
from .trained import FrozenGate, FrozenHead, freeze

WEIGHT_LIMIT = 1e-4
"""Largest error of a weight, and of what is read relative to the largest value, in float32."""

PARTITION_SHARE = 0.999
"""Share of gates whose sets must be equal to the exact ones, row for row."""

REMOVED = 2
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class GateCheck:
    """One gate of the model beside the exact solve of its keys."""

    where: str
    partition_equal: bool
    weights: float
    readout: float
    support: int


@dataclass(frozen=True)
class DeletionCheck:
    """One deletion of learned keys beside a memory that never saw them."""

    where: str
    digest_equal: bool
    partition_equal: bool
    refits: int
    events: int
    fast_score: float


@dataclass(frozen=True)
class ModelReport(Report):
    """Counts and deviations of one checkpoint.

    Attributes
    ----------
    checkpoint : str
    layers, heads, windows : int
    replayed : bool
        Whether the layers, run again, gave the same bits as within the model.
    gates, partitions_equal : int
        Gates solved again, and how many agree in every row's set.
    weights, readouts : Spread
        Largest error of a gate's weights; of its readout, relative to the largest value.
    support : Spread
        Rows with weight.
    trials, completed, digests_equal, deleted_partitions_equal, refits, events : int
        Of the deletions.
    fast_score : Spread or None
        Gate-score error after a deletion, before any canonical form.
    """

    checkpoint: str
    layers: int
    heads: int
    windows: int
    replayed: bool
    gates: int
    partitions_equal: int
    weights: Spread | None
    readouts: Spread | None
    support: Spread | None
    trials: int
    completed: int
    digests_equal: int
    deleted_partitions_equal: int
    refits: int
    events: int
    fast_score: Spread | None

    @property
    def failures(self) -> list[str]:
        """The checks that failed, one sentence each."""
        found = self.common_failures(self.trials, self.completed, self.refits, self.fast_score)
        if not self.replayed:
            found.append("a layer, run again, gave other bits")
        if not self.partitions_equal >= PARTITION_SHARE * self.gates:
            found.append(f"{self.partitions_equal} of {self.gates} partitions are equal")
        for name, figure in (("weights", self.weights), ("readouts", self.readouts)):
            # "not <=" instead of ">": a NaN must fail.
            if figure is None or not figure.worst <= WEIGHT_LIMIT:
                worst = "never checked" if figure is None else f"off by {figure.worst:.1e}"
                found.append(f"{name} are {worst}")
        if self.digests_equal != self.trials:
            found.append(f"{self.digests_equal} of {self.trials} digests are equal")
        if self.deleted_partitions_equal != self.trials:
            found.append(
                f"{self.deleted_partitions_equal} of {self.trials} partitions after deletion"
                " are equal"
            )
        return found


def run_model(
    path: str | Path,
    text: str | Path,
    windows: int = 4,
    trials: int = 300,
    rows: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ModelReport:
    """Audit a checkpoint of ``svmemory train``.

    Parameters
    ----------
    path : str or Path
    text : str or Path
        A file; windows are taken from its last tenth, which training on it does not see.
    windows : int
        Sequences on which all heads are frozen.
    trials : int
        Deletions, each of two rows, at least one of which has weight.
    rows : int, optional
        Rows of each memory before a deletion. Default: all of the prefix drawn.
    seed : int
        Of the deletions.
    progress : callable, optional
        ``progress(done, total)``.

    Raises
    ------
    InputError, FileFormatError, OSError
        If the checkpoint or the text cannot be used.
    """
    if windows < 1 or trials < 1:
        raise InputError("windows and trials must be at least 1")
    model = checkpoint.load(path).build()
    data = ByteText.from_file(text, model.config.block)
    sample = data.validation_windows(windows)[:, :-1]
    heads, replayed = freeze(model, sample)
    total = len(heads) + trials
    gates: list[GateCheck] = []
    for done, head in enumerate(heads):
        gates += check_gates(head)
        if progress is not None:
            progress(done + 1, total)
    deletions, problems = [], []
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        head = heads[int(rng.integers(len(heads)))]
        gate = head.gates[int(rng.integers(len(head.gates)))]
        try:
            deletions.append(check_deletion(head, gate, rows, rng))
        except SVMemoryError as error:  # the trial did not complete: counted and reported
            problems.append(f"trial {trial}: {type(error).__name__}: {error}")
        if progress is not None:
            progress(len(heads) + trial + 1, total)
    problems = [
        *(f"{g.where}: other sets, weights off by {g.weights:.1e}" for g in gates
          if not g.partition_equal),
        *problems,
        *(f"{d.where}: digests differ" for d in deletions if not d.digest_equal),
    ]  # fmt: skip
    return ModelReport(
        audit="model",
        regime=model.config.attention,
        rows=max(gate.end for gate in heads[0].gates) if rows is None else rows,
        ridge=heads[0].contract.ridge,
        seed=seed,
        problems=tuple(problems),
        checkpoint=str(path),
        layers=len(model.gated_layers()),
        heads=model.config.num_heads,
        windows=len(sample),
        replayed=replayed,
        gates=len(gates),
        partitions_equal=sum(g.partition_equal for g in gates),
        weights=spread([g.weights for g in gates]),
        readouts=spread([g.readout for g in gates]),
        support=spread([g.support for g in gates]),
        trials=trials,
        completed=len(deletions),
        digests_equal=sum(d.digest_equal for d in deletions),
        deleted_partitions_equal=sum(d.partition_equal for d in deletions),
        refits=sum(d.refits for d in deletions),
        events=sum(d.events for d in deletions),
        fast_score=spread([d.fast_score for d in deletions]),
    )


def check_gates(head: FrozenHead) -> list[GateCheck]:
    """Every gate of a head beside the exact solve; the memory grows from boundary to boundary."""
    if not np.isfinite(head.rows).all():
        return [GateCheck(_place(head, g), False, np.nan, np.nan, 0) for g in head.gates]
    memory = SupportVectorMemory.from_contract(head.contract)
    size = largest(head.values) or 1.0
    checks = []
    for gate in head.gates:
        memory.add(head.rows[len(memory) : gate.end])
        memory.canonicalise()
        weights, labels = memory.weights, _labels(memory)
        stop = min(gate.end + head.chunk, len(head.read))
        read = head.read_with(gate, weights) - head.read[gate.end : stop]
        checks.append(
            GateCheck(
                where=_place(head, gate),
                partition_equal=labels == gate.labels,
                weights=largest(weights - gate.weights),
                readout=largest(read) / size,
                support=len(labels) - labels.count("R"),
            )
        )
    return checks


def check_deletion(
    head: FrozenHead, gate: FrozenGate, rows: int | None, rng: np.random.Generator
) -> DeletionCheck:
    """Forget two of the learned keys before a boundary; compare with a memory without them."""
    count = gate.end if rows is None else min(rows, gate.end)
    if count <= REMOVED:
        raise InputError(f"rows must be at least {REMOVED + 1}, got {count}")
    drawn = np.sort(rng.choice(gate.end, count, replace=False))
    table = Rows(head.rows[drawn], head.values[drawn])
    memory = table.memory(head.contract, rng.permutation(count).tolist())
    active = [*memory.partition.margin, *memory.partition.error]
    first = active[int(rng.integers(len(active)))]
    second = str(rng.choice([i for i in range(count) if str(i) != first]))
    retained = [i for i in range(count) if str(i) not in (first, second)]
    done = memory.forget(ids=[first, second])
    probes = table.keys
    fast = snapshot(memory, probes)  # taken before anything asks for a canonical form
    fresh = table.memory(head.contract, rng.permutation(retained).tolist())
    fresh.canonicalise()
    exact = snapshot(fresh, probes)
    memory.canonicalise()
    return DeletionCheck(
        where=_place(head, gate),
        digest_equal=memory.digest() == fresh.digest(),
        partition_equal=snapshot(memory, probes).labels == exact.labels,
        refits=memory.stats.refits + fresh.stats.refits,
        events=done.events,
        fast_score=deviation(fast, exact).score,
    )


def _place(head: FrozenHead, gate: FrozenGate) -> str:
    return f"{head.name}, {gate.end} rows"


def _labels(memory: SupportVectorMemory) -> str:
    """Sets in order of arrival, one letter a row."""
    sets = memory.partition
    letters = {**dict.fromkeys(sets.margin, "S"), **dict.fromkeys(sets.error, "E")}
    return "".join(letters.get(i, "R") for i in memory.ids)


def summary_lines(report: ModelReport) -> Sequence[tuple[str, str]]:
    """The report as (what, figure) lines for people."""

    def shown(figure: Spread | None, digits: str = ".1e") -> str:
        if figure is None:
            return "-"
        return f"median {figure.median:{digits}}, worst {figure.worst:{digits}}"

    return [
        ("checkpoint", report.checkpoint),
        ("frozen", f"{report.layers} layers x {report.heads} heads x {report.windows} windows"),
        ("replayed", "the same bits" if report.replayed else "OTHER BITS"),
        ("gates solved again", str(report.gates)),
        ("rows with weight", shown(report.support, ".0f")),
        ("partitions equal", f"{report.partitions_equal}/{report.gates}"),
        ("weights off by", shown(report.weights)),
        ("readouts off by", f"{shown(report.readouts)} of the largest value"),
        ("deletions completed", f"{report.completed}/{report.trials}"),
        ("digests equal", f"{report.digests_equal}/{report.trials}"),
        ("partitions equal after", f"{report.deleted_partitions_equal}/{report.trials}"),
        ("refits", str(report.refits)),
        ("gate score off by", f"{shown(report.fast_score)} before the canonical form"),
    ]
