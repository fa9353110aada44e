"""The batched gate against the exact engine on random or learned keys: residual, sets and weights.

Keys are drawn in float32, so that float64 and float32 inputs are the same problem and one exact
solve judges both; bfloat16 is judged after its own rounding of the keys. What counts as exact is a
memory built row by row at the same contract; some are put in canonical form first, whose sets come
from integer arithmetic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from common import Report, arguments
from svmemory import SupportVectorMemory
from svmemory.audit.trained import FrozenHead, freeze
from svmemory.kernel import gaussian_kernel
from svmemory.torch import Gate, sv_gate
from svmemory.torch.language import checkpoint
from svmemory.torch.language.text import ByteText

Floats = NDArray[np.float64]

LARGEST = 448
RIDGE = 1e-3
BATCH = 50
TYPES = {"float64": torch.float64, "float32": torch.float32}
TARGETS = {"float64": 1e-5, "float32": 1e-4, "bfloat16": 1e-4}
KINDS = ("normal", "clusters", "plane", "twins", "lattice")


def draw(rng: np.random.Generator, kind: str, n: int) -> Floats:
    """Keys (n, d) of one kind, in float32 precision."""
    d = int(rng.integers(1, 65))
    keys = rng.standard_normal((n, d))
    if kind == "clusters":
        middles = 3.0 * rng.standard_normal((int(rng.integers(1, 13)), d))
        keys = middles[rng.integers(0, len(middles), n)] + rng.uniform(0.05, 1.0) * keys
    elif kind == "plane":
        keys = rng.standard_normal((n, min(3, d))) @ rng.standard_normal((min(3, d), d))
    elif kind == "twins":
        keys = keys[rng.integers(0, max(1, n // 2), n)]
        keys += rng.choice([0.0, 1e-6, 1e-3]) * rng.standard_normal((n, d))
    elif kind == "lattice":
        keys = np.rint(keys[:, :2])
    return np.asarray(keys.astype(np.float32), np.float64)


@dataclass
class Problem:
    """Keys, a contract, and the exact answer."""

    keys: Floats
    gamma: float
    C: float
    weights: Floats
    codes: NDArray[np.int64]


def problems(rng: np.random.Generator, count: int, canonical: int) -> Iterator[Problem]:
    """Random problems with n up to 448, C from 0.05 to 0.5 and ridge 1e-3, solved exactly."""
    for i in range(count):
        n = int(rng.integers(1, LARGEST + 1))
        keys = draw(rng, KINDS[i % len(KINDS)], n)
        C = float(np.exp(rng.uniform(np.log(0.05), np.log(0.5))))
        if i % 4 == 0:
            C = 1.0 / round(1.0 / C)  # rows can sit exactly at the cap
        spread = float(keys.var(0).sum()) or 1.0
        gamma = float(np.exp(rng.uniform(np.log(0.1), np.log(5.0)))) / spread
        yield solve(keys, gamma, C, i < canonical)


def learned(
    rng: np.random.Generator, count: int, canonical: int, model: Path, text: Path
) -> Iterator[Problem]:
    """The same on keys that the heads of a trained model hold, at their own widths.

    A head's keys over two windows of text stand one after the other, so that n can reach 448 where
    the model's own block is shorter.
    """
    trained = checkpoint.load(model).build()
    windows = ByteText.from_file(text, trained.config.block).validation_windows(64)
    frozen, _ = freeze(trained.eval(), windows[:, :-1])
    windows_of: dict[str, list[FrozenHead]] = {}
    for one in frozen:
        windows_of.setdefault(one.name.split(", ", 1)[1], []).append(one)
    heads = list(windows_of.values())
    for i in range(count):
        head = heads[int(rng.integers(len(heads)))]
        first, second = (head[k] for k in rng.choice(len(head), 2, replace=False))
        keys = np.concatenate([first.rows, second.rows])
        n = int(rng.integers(1, min(LARGEST, len(keys)) + 1))
        C = float(np.exp(rng.uniform(np.log(0.05), np.log(0.5))))
        yield solve(keys[:n], first.contract.gamma, C, i < canonical)


def solve(keys: Floats, gamma: float, C: float, canonical: bool) -> Problem:
    """The problem with its exact answer."""
    memory = SupportVectorMemory(gamma, C, RIDGE)
    memory.add(keys)
    if canonical:
        memory.canonicalise()
    position = {name: i for i, name in enumerate(memory.ids)}
    codes = np.zeros(len(keys), np.int64)
    for code, names in ((1, memory.partition.margin), (2, memory.partition.error)):
        codes[[position[name] for name in names]] = code
    return Problem(keys, gamma, C, memory.weights, codes)


@dataclass
class Tally:
    """Worst figures of one input type."""

    problems: int = 0
    same_sets: int = 0
    residual: float = 0.0
    weight: float = 0.0
    flagged: int = 0
    differing: list[str] = field(default_factory=list)

    def add(self, gate: Gate, row: int, problem: Problem) -> None:
        """Compare one row of a batch."""
        n = len(problem.keys)
        a = gate.weights[row, :n].double().numpy()
        codes = gate.codes[row, :n].numpy().astype(np.int64)
        self.problems += 1
        self.flagged += int(gate.status[row] > 1)
        self.residual = max(self.residual, residual(problem, a, codes, float(gate.offset[row])))
        self.weight = max(self.weight, float(np.abs(a - problem.weights).max()))
        if np.array_equal(codes, problem.codes):
            self.same_sets += 1
        else:
            self.differing.append(
                f"n {n}, C {problem.C:.4f}, {(codes != problem.codes).sum()} rows"
            )


def residual(problem: Problem, a: Floats, codes: NDArray[np.int64], offset: float) -> float:
    """Violation of the conditions by weights as returned, with the exact engine's kernel."""
    active = codes > 0
    q = gaussian_kernel(problem.keys, problem.keys[active], problem.gamma) @ a[active] + RIDGE * a
    g = offset - (1.0 + RIDGE) + 2.0 * q
    wrong = np.where(codes == 1, np.abs(g), np.where(codes == 2, g, -g))
    cap = max(problem.C, 1.0 / len(a))
    return max(
        float(wrong.max()),
        float((-a).max()),
        float((a - cap).max()),
        abs(float(a.sum()) - 1.0),
        0.0,
    )


def batched(batch: Sequence[Problem], kind: torch.dtype) -> Gate:
    """All problems of a batch in one call: ragged by mask, padded in rows and dimensions."""
    n = max(len(p.keys) for p in batch)
    d = max(p.keys.shape[1] for p in batch)
    keys = torch.zeros(len(batch), n, d, dtype=torch.float64)
    mask = torch.zeros(len(batch), n, dtype=torch.bool)
    for i, p in enumerate(batch):
        keys[i, : len(p.keys), : p.keys.shape[1]] = torch.from_numpy(p.keys)
        mask[i, : len(p.keys)] = True
    gamma = torch.tensor([p.gamma for p in batch], dtype=torch.float64)
    C = torch.tensor([p.C for p in batch], dtype=torch.float64)
    return sv_gate(keys.to(kind), gamma, C, RIDGE, mask)


def rounded(problem: Problem) -> Problem:
    """The problem that bfloat16 keys state."""
    keys = torch.from_numpy(problem.keys).to(torch.bfloat16).to(torch.float64).numpy()
    return solve(keys, problem.gamma, problem.C, False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if every problem was solved to the targets."""
    parser = arguments(__doc__)
    parser.add_argument("--problems", type=int, default=None, help="10,000, or 200 with --quick")
    parser.add_argument("--checkpoint", type=Path, help="learned keys: a trained model, and")
    parser.add_argument("--text", type=Path, help="a text for it to read")
    args = parser.parse_args(argv)
    if (args.checkpoint is None) != (args.text is None):
        parser.error("--checkpoint and --text go together")
    count = args.problems or (200 if args.quick else 10_000)
    canonical, few = count // 50, count // 20
    settings = {"problems": count, "n": f"1..{LARGEST}", "C": "0.05..0.5", "ridge": RIDGE}
    name = "layer exactness" + (", learned keys" if args.checkpoint else "")
    report = Report(name, args.quick, args.seed, settings)
    tallies = {name: Tally() for name in TARGETS}
    rng = np.random.default_rng(args.seed)
    if args.checkpoint is None:
        drawn = problems(rng, count, canonical)
    else:
        settings["keys of"] = args.checkpoint.parent.name
        drawn = learned(rng, count, canonical, args.checkpoint, args.text)
    left = few
    while batch := [p for _, p in zip(range(BATCH), drawn, strict=False)]:
        for name, kind in TYPES.items():
            gate = batched(batch, kind)
            for row, problem in enumerate(batch):
                tallies[name].add(gate, row, problem)
        short = [rounded(p) for p in batch[:left]]
        left -= len(short)
        if short:
            gate = batched(short, torch.bfloat16)
            for row, problem in enumerate(short):
                tallies["bfloat16"].add(gate, row, problem)
    columns = ["input", "problems", "same sets", "residual", "weights", "not converged"]
    rows = []
    for name, t in tallies.items():
        rows.append([name, t.problems, t.same_sets, t.residual, t.weight, t.flagged])
        report.check(f"{name}: residual at most 1e-5 on all", t.residual <= 1e-5)
        report.check(f"{name}: weights within {TARGETS[name]:g}", t.weight <= TARGETS[name])
        report.check(f"{name}: all converged", t.flagged == 0)
        share = t.same_sets / t.problems
        report.check(f"{name}: sets equal on 99.9 %", share >= 0.999, "; ".join(t.differing[:3]))
        report.at_least(f"{name}, share of problems with equal sets", share)
    report.table("Batched gate against the exact engine: worst of all problems", columns, rows)
    report.notes.append(f"{canonical} of the exact answers were in canonical form.")
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
