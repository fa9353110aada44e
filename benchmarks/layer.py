"""The trainable layer: time against softmax, crossover in the length, generation from a long past.

Forward and backward of the whole byte-level model, all attentions in turn in one process, so that a
busy machine is busy for all of them. Needs the extra svmemory[torch].
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from common import Cell, Report, arguments, median_ratio, timed
from svmemory import SupportVectorMemory
from svmemory.torch import sv_gate_prefixes
from svmemory.torch.cache import HybridCache
from svmemory.torch.hybrid import HybridSVAttention
from svmemory.torch.language.model import PRESETS, ByteLM, ModelConfig, next_byte_loss
from svmemory.torch.registry import LayerOptions

NAMES = ("softmax", "window", "linear", "deltanet", "ssm", "uniform", "detached", "sv", "sv, paper")
CLOSE = ("softmax", "window", "uniform", "detached", "sv")  # timed in every turn
PAIRS = 21  # turns of softmax and sv alone, for the ratio that has a target
SAMPLE = 2  # heads whose exact memory is verified


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if every check held and no target was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--text", type=Path, help="bytes to train and read on (default: generated)")
    parser.add_argument("--part", choices=("model", "length", "generation"), help="only this part")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    name = f"layer, {args.part}" if args.part else "layer"
    report = Report(name, args.quick, args.seed, {"threads": args.threads})
    data = read_bytes(args.text, 200_000)
    if args.part in (None, "model"):
        whole_model(report, data)
    if args.part in (None, "length"):
        lengths(report, data)
    if args.part in (None, "generation"):
        generation(report, data)
    return report.finish(args.json)


def read_bytes(path: Path | None, count: int) -> Tensor:
    """The first bytes of a file, or generated sentences."""
    if path is not None:
        raw = path.read_bytes()[:count]
    else:
        words = ("the", "row", "that", "is", "kept", "carries", "weight", "or", "none", "of", "it")
        rng = np.random.default_rng(0)
        raw = " ".join(words[i] for i in rng.integers(0, len(words), count // 4)).encode()[:count]
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).long()


def windows(data: Tensor, batch: int, length: int) -> Tensor:
    """Evenly spaced windows (batch, length + 1)."""
    starts = torch.linspace(0, len(data) - length - 1, batch).long().tolist()
    return torch.stack([data[s : s + length + 1] for s in starts])


def built(config: ModelConfig, name: str, seed: int) -> ByteLM:
    """A model with the named attention; "sv, paper" is sv with the paper's solver."""
    torch.manual_seed(seed)
    attention, _, solver = name.partition(", ")
    options = LayerOptions(solver="paper") if solver == "paper" else config.options
    return ByteLM(replace(config, attention=attention, options=options))


def step(model: ByteLM, tokens: Tensor) -> None:
    """Forward and backward of the whole model."""
    model.zero_grad(set_to_none=True)
    next_byte_loss(model, tokens).backward()


def whole_model(report: Report, data: Tensor) -> None:
    """Ratio table at the paper's 3.22 M configuration."""
    preset, batch, turns = ("tiny", 2, 2) if report.quick else ("3m", 16, 7)
    config = PRESETS[preset]
    tokens = windows(data, batch, config.block)
    names = [n for n in NAMES if not (report.quick and n == "sv, paper")]
    models = {name: built(config, name, report.seed) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    gates: list[float] = []
    for turn in range(turns + 1):  # the first compiles and is not counted
        for name, model in models.items():
            if turn > 2 and name not in CLOSE:
                continue  # what is far from softmax needs no more turns to say so
            took, _ = timed(partial(step, model, tokens))
            if turn:
                seconds[name].append(took)
        if turn:
            gates.append(sum(gate_seconds(layer, x) for layer, x in inputs(models["sv"], tokens)))
    base = seconds["softmax"]
    rows = []
    for name, model in models.items():
        ratio = median_ratio(seconds[name], base[: len(seconds[name])])
        facts = [f for f in (m.gate_facts() for m in model.gated_layers()) if f is not None]
        support = statistics.mean(f.support for f in facts) if facts else None
        rows.append([name, 1e3 * statistics.median(seconds[name]), ratio, support])
    report.table(
        f"Forward and backward, {preset}, batch {batch}, block {config.block}",
        ["attention", "ms", "x softmax", "prefix rows read"],
        rows,
    )
    paired(report, models["softmax"], models["sv"], tokens)
    share = statistics.median(g / s for g, s in zip(gates, seconds["sv"], strict=True))
    report.at_most("gates, forward and backward / sv model", share)
    facts = [m.gate_facts() for m in models["sv"].gated_layers()]
    bad = sum(f.unconverged for f in facts if f is not None)
    report.check("every gate reached its optimum", bad == 0, f"{bad} did not")


def paired(report: Report, softmax: ByteLM, ours: ByteLM, tokens: Tensor) -> None:
    """The ratio that has a target, from turns of nothing else, each going first in turn."""
    found = []
    for turn in range(2 if report.quick else PAIRS):
        seconds = {}
        for model in (softmax, ours) if turn % 2 else (ours, softmax):
            seconds[model], _ = timed(partial(step, model, tokens))
        found.append(seconds[ours] / seconds[softmax])
    report.at_most("sv / softmax, whole model", statistics.median(found), 1.35)
    low, _, high = statistics.quantiles(found, n=4)
    report.notes.append(
        f"sv / softmax: half of {len(found)} turns between {low:.2f} and {high:.2f}"
    )


def inputs(model: ByteLM, tokens: Tensor) -> list[tuple[HybridSVAttention, Tensor]]:
    """The gated layers and what each gets from the one before."""
    seen: list[tuple[HybridSVAttention, Tensor]] = []
    handles = [
        layer.register_forward_hook(lambda m, args, _: seen.append((m, args[0])))
        for layer in model.gated_layers()
    ]
    with torch.no_grad():
        model(tokens[:, :-1])
    for handle in handles:
        handle.remove()
    return seen


def gate_seconds(layer: HybridSVAttention, x: Tensor) -> float:
    """Forward and backward of one layer's gates alone."""
    _, k, v = layer.queries_keys_values(x)
    rows = layer.gate_rows(k, v).detach().requires_grad_()
    gamma, cap = layer.gamma().detach().requires_grad_(), layer.C.start
    lengths = layer.boundaries(x.shape[1])

    def run() -> None:
        gate = sv_gate_prefixes(rows, gamma, cap, layer.ridge, lengths=lengths)
        gate.weights.backward(torch.ones_like(gate.weights))

    return timed(run)[0]


def lengths(report: Report, data: Tensor) -> None:
    """Longer sequences; where the gate's curve crosses that of softmax.

    Three gates: the paper's contract; the same with chunks that grow with the sequence, so that the
    number of solves does not; and a wider kernel, under which fewer rows carry weight.
    """
    preset = "tiny" if report.quick else "3m"
    blocks = (128, 512) if report.quick else (256, 1024, 4096, 16_384)
    gates = {
        "sv": lambda block: LayerOptions(),
        "sv, chunk T/16": lambda block: LayerOptions(chunk=max(64, block // 16)),
        "sv, gamma 1/16": lambda block: LayerOptions(gamma=1 / 16),
    }
    rows: list[list[Cell]] = []
    ratios: dict[str, list[float]] = {name: [] for name in gates}
    for block in blocks:
        batch = max(blocks[-2] // block, 1)
        config = replace(PRESETS[preset], block=block)
        tokens = windows(data, batch, block)
        models = {"softmax": built(config, "softmax", report.seed)}
        for name, options in gates.items():
            torch.manual_seed(report.seed)
            models[name] = ByteLM(replace(config, attention="sv", options=options(block)))
        seconds: dict[str, list[float]] = {name: [] for name in models}
        for turn in range(2 if report.quick else 4):
            for name, model in models.items():
                took, _ = timed(partial(step, model, tokens))
                if turn:
                    seconds[name].append(took)
        for name, model in models.items():
            facts = [f for f in (m.gate_facts() for m in model.gated_layers()) if f is not None]
            support = statistics.mean(f.support for f in facts) if facts else None
            ratio = median_ratio(seconds[name], seconds["softmax"])
            rows.append([block, batch, name, statistics.median(seconds[name]), ratio, support])
            if name in ratios:
                ratios[name].append(ratio)
    report.table(
        f"Forward and backward by length, {preset}",
        ["block", "batch", "attention", "s", "x softmax", "prefix rows read"],
        rows,
    )
    for name, found in ratios.items():
        crossing = crossover(blocks, found)
        where = "not within these lengths" if crossing is None else f"from {crossing:.0f} on"
        report.notes.append(f"{name} is no slower than softmax: {where}")
        report.at_most(f"{name} / softmax at block {blocks[-1]}", found[-1], 1.0)


def crossover(blocks: Sequence[int], ratios: Sequence[float]) -> float | None:
    """Length from which the ratio stays at 1 or below, between two blocks on a log scale."""
    if ratios[-1] > 1.0:
        return None
    last = max((i for i, r in enumerate(ratios) if r > 1.0), default=-1)
    if last < 0:
        return float(blocks[0])
    (x0, x1), (y0, y1) = np.log(blocks[last : last + 2]), ratios[last : last + 2]
    return math.exp(x0 + (x1 - x0) * (y0 - 1.0) / (y0 - y1))


def generation(report: Report, data: Tensor) -> None:
    """One decoding step after a long context, against softmax over the full cache."""
    context, turns = (640, 64) if report.quick else (32_768, 64)
    torch.manual_seed(report.seed)
    layer = HybridSVAttention(256, 4, gamma=1 / 16).eval()
    torch.nn.init.normal_(layer.to_qkv.weight, std=0.02)
    x = stream(data[: context + turns], 256)
    cache = HybridCache(layer)
    prefill, _ = timed(lambda: cache.extend(x[:, :context]))
    with torch.no_grad():
        q, k, v = (y.contiguous() for y in layer.queries_keys_values(x))
    ours: list[float] = []
    softmax: list[float] = []
    for t in range(context, context + turns):
        ours.append(timed(partial(cache.extend, x[:, t : t + 1]))[0])

        def full(t: int = t) -> None:
            past = slice(0, t + 1)
            with torch.no_grad():
                layer.queries_keys_values(x[:, t : t + 1])
                read = scaled_dot_product_attention(
                    q[:, :, t : t + 1], k[:, :, past], v[:, :, past]
                )
                layer.merged(read)

        softmax.append(timed(full)[0])
    rows_read = cache.rows_read
    report.table(
        f"One decoding step after {context:,} positions, 4 heads of 64, gamma 1/16",
        ["", "us a step, median", "mean", "rows read a head", "bytes read"],
        [
            [
                "softmax over the full cache",
                1e6 * statistics.median(softmax),
                1e6 * statistics.mean(softmax),
                context,
                context * 2048,
            ],
            [
                "hybrid, exact memories",
                1e6 * statistics.median(ours),
                1e6 * statistics.mean(ours),
                rows_read,
                rows_read * 2048,
            ],
        ],
    )
    report.at_least("softmax / hybrid, one step", median_ratio(softmax, ours), 5.0)
    # one step in 64 takes a chunk into the memories: the mean counts it
    report.at_least("softmax / hybrid, a chunk of steps", sum(softmax) / sum(ours), 5.0)
    report.at_least("bytes, softmax / hybrid", context / rows_read, 10.0)
    report.notes.append(f"building the exact memories of 4 heads took {prefill:.1f} s")
    rng = np.random.default_rng(report.seed)
    for h in range(SAMPLE):
        memory = cache.memories[0][h]
        fresh = SupportVectorMemory.from_contract(layer.contracts()[h])
        order = rng.permutation(len(memory))
        fresh.add(memory.keys[order], memory.values[order], ids=order.tolist())
        same = memory.digest() == fresh.digest()
        report.check(f"head {h}: digest of a fresh solve", same, f"{len(memory)} rows")


def stream(data: Tensor, width: int) -> Tensor:
    """Features (1, T, width) that repeat as text does: a decaying sum of byte embeddings."""
    embedding = torch.randn(256, width)
    x = torch.zeros(len(data), width)
    for lag in range(4):
        x[lag:] += 0.5**lag * embedding[data[: len(data) - lag]]
    return layer_norm(x, (width,))[None]


if __name__ == "__main__":
    sys.exit(main())
