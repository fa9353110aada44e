"""The layer on a GPU: kernels build, gates are the exact ones, and what it all costs.

Checks first: the gate on random problems, KKT conditions on all of them by plain PyTorch and
weights on a sample by the exact engine; planted NaN; gradients against the compiled CPU solver;
fused attention against its twin. Then times. Needs the extra svmemory[torch] and Triton; under six
minutes. Without a GPU, ``TRITON_INTERPRET=1 gpu_layer.py --quick`` runs small checks and no times.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

import layer_exactness
from common import Report, arguments, median_ratio, timed
from layer import crossover, read_bytes, step, windows
from svmemory.torch import Gate, HybridSVAttention, sv_gate, sv_gate_prefixes
from svmemory.torch.baselines import SoftmaxAttention
from svmemory.torch.gpu import attend, solve_gpu
from svmemory.torch.gpu.gram import gram_naive
from svmemory.torch.gpu.readout import attend_naive
from svmemory.torch.language.model import PRESETS, ByteLM
from svmemory.torch.solve.vjp import solve_with_gradient
from svmemory.torch.solvers import SOLVERS

RIDGE = 1e-3
BLOCKS = (256, 1024, 4096)
Keys = tuple[Tensor, Tensor, Tensor, Tensor]  # keys (P, n, d), mask (P, n), gamma and C (P,)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if every check held, 2 if there is nothing to run on."""
    args = arguments(__doc__).parse_args(argv)
    interpreting = os.environ.get("TRITON_INTERPRET") == "1"
    if not torch.cuda.is_available() and not (args.quick and interpreting):
        print("no CUDA device; small checks: TRITON_INTERPRET=1 with --quick", file=sys.stderr)
        return 2
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    SOLVERS["batched"] = solve_gpu  # in the interpreter too
    name = torch.cuda.get_device_name() if device.type == "cuda" else "Triton's interpreter"
    report = Report(
        "gpu layer", args.quick, args.seed, {"device": name, "torch": torch.__version__}
    )
    exactness(report, device)
    gradients(report, device)
    attention(report, device)
    if device.type == "cuda":
        gate_times(report, device)
        attention_times(report, device)
        layer_times(report, device)
        model_times(report, device)
    return report.finish(args.json)


# -- checks -------------------------------------------------------------------------------------


def random_keys(rng: np.random.Generator, count: int, largest: int) -> Keys:
    """Problems as in layer_exactness, up to ``largest`` rows, not solved."""
    keys = torch.zeros(count, largest, 64, dtype=torch.float64)
    mask = torch.zeros(count, largest, dtype=torch.bool)
    gamma, C = np.empty(count), np.exp(rng.uniform(np.log(0.05), np.log(0.5), count))
    for i in range(count):
        n = int(rng.integers(1, largest + 1))
        drawn = layer_exactness.draw(rng, layer_exactness.KINDS[i % 5], n)
        keys[i, :n, : drawn.shape[1]] = torch.from_numpy(drawn)
        mask[i, :n] = True
        spread = float(drawn.var(0).sum()) or 1.0
        gamma[i] = np.exp(rng.uniform(np.log(0.1), np.log(5.0))) / spread
    C[::4] = 1.0 / np.rint(1.0 / C[::4])
    return keys, mask, torch.from_numpy(gamma), torch.from_numpy(C)


def kkt(gate: Gate, keys: Tensor, mask: Tensor, gamma: Tensor, C: Tensor) -> Tensor:
    """Violation of the conditions by weights as returned, in plain PyTorch, (P,)."""
    a = gate.weights.double()
    q = torch.bmm(gram_naive(keys.double(), gamma), a.unsqueeze(-1)).squeeze(-1) + RIDGE * a
    g = gate.offset.double()[:, None] - (1.0 + RIDGE) + 2.0 * q
    wrong = torch.where(gate.codes == 1, g.abs(), torch.where(gate.codes == 2, g, -g))
    cap = torch.maximum(C, 1.0 / mask.sum(1))[:, None]
    wrong = torch.maximum(wrong, torch.maximum(-a, a - cap))
    worst = torch.where(mask, wrong, 0.0).amax(1)
    return torch.maximum(worst, (a.sum(1) - 1.0).abs()).nan_to_num(nan=torch.inf)


def exactness(report: Report, device: torch.device) -> None:
    """Every problem at its KKT point; a sample against the exact engine; NaN flagged."""
    count, batch, largest, every = (10, 5, 24, 2) if report.quick else (10_000, 250, 448, 25)
    rng = np.random.default_rng(report.seed)
    worst = {"float64": 0.0, "float32": 0.0}
    bad = same = checked = 0
    error = dict.fromkeys(worst, 0.0)
    for _ in range(count // batch):
        given = random_keys(rng, batch, largest)
        keys, mask, gamma, C = (x.to(device) for x in given)
        sample = {}
        for i in range(0, batch, every):
            rows = given[0][i, given[1][i]].numpy()
            sample[i] = layer_exactness.solve(rows, float(gamma[i]), float(C[i]), False)
        for kind in worst:
            gate = sv_gate(keys.to(getattr(torch, kind)), gamma, C, RIDGE, mask)
            bad += int((gate.status > 1).sum())
            worst[kind] = max(worst[kind], float(kkt(gate, keys, mask, gamma, C).max()))
            for i, truth in sample.items():
                n = len(truth.keys)
                a = gate.weights[i, :n].double().cpu().numpy()
                error[kind] = max(error[kind], float(np.abs(a - truth.weights).max()))
                same += bool((gate.codes[i, :n].cpu().numpy() == truth.codes).all())
                checked += 1
    for kind, limit in (("float64", 1e-5), ("float32", 1e-4)):
        report.check(f"{kind}: KKT residual at most 1e-5 on all {count:,}", worst[kind] <= 1e-5)
        report.check(f"{kind}: weights of a sample within {limit:g}", error[kind] <= limit)
    report.check("all converged", bad == 0, f"{bad} did not")
    report.at_least("share of a sample with the engine's sets", same / checked, 0.999)
    report.table(
        f"Gates against the conditions ({count:,}) and the exact engine ({checked // 2})",
        ["keys", "KKT residual", "weights"],
        [[kind, worst[kind], error[kind]] for kind in worst],
    )
    keys = torch.randn(3, 20, 4, dtype=torch.float64, device=device)
    keys[1, 5, 0] = torch.nan
    flagged = (sv_gate(keys, 0.3, 0.2).status == 3).tolist()
    report.check("a planted NaN is flagged, alone", flagged == [False, True, False])


def gradients(report: Report, device: torch.device) -> None:
    """Gradients of the gate on this device against the compiled solver's."""
    shape, lengths = (
        ((1, 1, 20, 3), (4, 12, 20)) if report.quick else ((4, 4, 256, 64), (64, 128, 192))
    )
    torch.manual_seed(report.seed)
    keys = torch.randn(shape, dtype=torch.float64)
    bar = torch.randn(*shape[:2], len(lengths), shape[2], dtype=torch.float64)
    found = []
    here, cpu = device, torch.device("cpu")
    for solver, place in ((solve_gpu, here), (solve_gpu, here), (solve_with_gradient, cpu)):
        SOLVERS["batched"] = solver
        x = keys.to(place).requires_grad_()
        gamma = torch.tensor(4.0 / shape[-1], dtype=torch.float64, device=place).requires_grad_()
        gate = sv_gate_prefixes(x, gamma, 0.1, RIDGE, lengths=lengths)
        loss = (gate.weights * bar.to(place)).sum() + gate.offset.square().sum()
        found.append([y.cpu() for y in torch.autograd.grad(loss, (x, gamma))])
    SOLVERS["batched"] = solve_gpu
    first, again, compiled = found
    error = max(
        float((x - y).abs().max() / y.abs().max()) for x, y in zip(first, compiled, strict=True)
    )
    report.check("gradients are the compiled solver's to 1e-9", error <= 1e-9, f"{error:.1e}")
    same = all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
    report.check("two runs give the same bits", same)


def attention(report: Report, device: torch.device) -> None:
    """Fused attention and its gradients against the twin in float64."""
    given = attention_inputs(device, (2, 9, 21, 8) if report.quick else (64, 64, 124, 64))
    results = []
    for function, kind in ((attend, torch.float32), (attend_naive, torch.float64)):
        inputs = [x.to(kind).requires_grad_() for x in given]
        out = function(*inputs, inputs[1].shape[1] - inputs[0].shape[1])
        results.append([out.detach(), *torch.autograd.grad(out.square().sum(), inputs)])
    error = max(float((x - y).abs().max() / y.abs().max()) for x, y in zip(*results, strict=True))
    report.check("fused attention and gradients within 1e-5", error <= 1e-5, f"{error:.1e}")


def attention_inputs(device: torch.device, sizes: tuple[int, int, int, int]) -> list[Tensor]:
    """Queries, keys, values and biases of some memories; a few keys absent."""
    count, t, n, d = sizes
    torch.manual_seed(0)
    shapes = (count, t, d), (count, n, d), (count, n, d), (count, n)
    q, k, v, bias = (torch.randn(shape, device=device) for shape in shapes)
    bias[:, ::7] = -1e30
    return [q / d**0.5, k, v, bias]


# -- times --------------------------------------------------------------------------------------


def seconds(calls: dict[str, Callable[[], object]], turns: int = 12) -> dict[str, list[float]]:
    """Times of calls that take turns, the device idle before and after each."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 2):  # the first two compile and warm up
        for name, call in calls.items():
            torch.cuda.synchronize()
            took, _ = timed(partial(finished, call))
            if turn > 1:
                found[name].append(took)
    return found


def finished(call: Callable[[], object]) -> None:
    """Call and wait for the device."""
    call()
    torch.cuda.synchronize()


def ms(times: Sequence[float]) -> float:
    """Median in milliseconds."""
    return 1e3 * statistics.median(times)


def gate_times(report: Report, device: torch.device) -> None:
    """The gate alone, forward and backward, beside the compiled solver on the CPU."""
    rows = []
    for batch, length, chunk in ((16, 256, 64), (4, 1024, 64), (1, 4096, 64)):
        keys = torch.randn(batch, 4, length, 64, device=device)
        lengths = list(range(chunk, length, chunk))

        def run(
            solver: Callable[..., object], keys: Tensor = keys, lengths: list[int] = lengths
        ) -> None:
            SOLVERS["batched"] = solver
            x = keys.clone().requires_grad_()
            gate = sv_gate_prefixes(x, 1 / 16, 0.25, RIDGE, lengths=lengths)
            gate.weights.square().sum().backward()

        took = seconds(
            {"gpu": partial(run, solve_gpu), "cpu": partial(run, solve_with_gradient)}, turns=3
        )
        SOLVERS["batched"] = solve_gpu
        rows.append([length, batch * 4 * len(lengths), ms(took["gpu"]), ms(took["cpu"])])
    report.table(
        "Gates alone, forward and backward, 4 heads of 64 (the CPU's time includes the copies)",
        ["block", "problems", "ms", "ms on the CPU"],
        rows,
    )


def attention_times(report: Report, device: torch.device) -> None:
    """One softmax over memory and chunk: the kernel beside plain PyTorch."""
    rows = []
    for kind in (torch.float32, torch.bfloat16):
        inputs = [x.to(kind).requires_grad_() for x in attention_inputs(device, (256, 64, 124, 64))]

        def run(function: Callable[..., Tensor], inputs: list[Tensor] = inputs) -> None:
            out = function(*inputs, 60)
            torch.autograd.grad(out.float().square().sum(), inputs)

        took = seconds({"kernel": partial(run, attend), "plain": partial(run, attend_naive)})
        rows.append([str(kind), ms(took["kernel"]), ms(took["plain"])])
        report.at_least(
            f"plain / fused attention, {kind}", median_ratio(took["plain"], took["kernel"])
        )
    report.table(
        "Attention, 256 memories of 60 rows and 64 local ones",
        ["type", "ms fused", "ms plain"],
        rows,
    )


def layer_times(report: Report, device: torch.device) -> None:
    """The hybrid layer beside SDPA, forward and backward, at the same number of positions."""
    rows, ratios = [], []
    for block in BLOCKS:
        x = torch.randn(4 * BLOCKS[-1] // block, block, 256, device=device)
        layers = {
            "softmax": SoftmaxAttention(256, 4).to(device),
            "sv": HybridSVAttention(256, 4, gamma=1 / 16).to(device),
        }

        def run(name: str, x: Tensor = x, layers: dict[str, torch.nn.Module] = layers) -> None:
            layers[name](x).square().sum().backward()

        took = seconds({name: partial(run, name) for name in layers})
        ratios.append(median_ratio(took["sv"], took["softmax"]))
        rows.append([block, len(x), ms(took["softmax"]), ms(took["sv"]), ratios[-1]])
    report.table(
        "One layer, forward and backward, float32 without TF32",
        ["block", "batch", "softmax ms", "sv ms", "sv / softmax"],
        rows,
    )
    crossing = crossover(BLOCKS, ratios)
    where = "not within these lengths" if crossing is None else f"at a block of {crossing:.0f}"
    report.notes.append(f"one layer: sv is no slower than softmax {where}")


def model_times(report: Report, device: torch.device) -> None:
    """The whole 3m model, forward and backward, in three precisions."""
    tokens = windows(read_bytes(None, 200_000), 16, PRESETS["3m"].block).to(device)
    rows = []
    for precision in ("float32", "float32 with TF32", "bfloat16 autocast"):
        torch.backends.cuda.matmul.allow_tf32 = precision.endswith("TF32")
        models = {
            name: ByteLM(replace(PRESETS["3m"], attention=name)).to(device)
            for name in ("softmax", "sv", "detached", "uniform")
        }

        def run(name: str, precision: str = precision, models: dict[str, ByteLM] = models) -> None:
            low = precision.startswith("bfloat16")
            with torch.autocast("cuda", torch.bfloat16) if low else nullcontext():
                step(models[name], tokens)

        took = seconds({name: partial(run, name) for name in models})
        for name in models:
            ratio = median_ratio(took[name], took["softmax"])
            rows.append([precision, name, ms(took[name]), ratio])
        report.at_most(
            f"sv / softmax, whole model, {precision}", median_ratio(took["sv"], took["softmax"])
        )
        facts = [layer.gate_facts() for layer in models["sv"].gated_layers()]
        bad = sum(f.unconverged for f in facts if f is not None)
        report.check(f"{precision}: every gate reached its optimum", bad == 0, f"{bad} did not")
    torch.backends.cuda.matmul.allow_tf32 = False
    report.table(
        "Whole model, 3m, batch 16, block 256, forward and backward",
        ["precision", "attention", "ms", "x softmax"],
        rows,
    )


if __name__ == "__main__":
    sys.exit(main())
