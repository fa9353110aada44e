"""The gate's GPU path on the CPU: batched PyTorch as it is, Triton kernels in the interpreter.

Triton reads TRITON_INTERPRET when it is imported, so the tests of kernels run in a process of their
own, which `test_kernels_in_the_interpreter` starts; here they are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from torch.autograd import gradcheck  # noqa: E402

import layer_exactness  # noqa: E402
from svmemory.torch import sv_gate, sv_gate_prefixes  # noqa: E402
from svmemory.torch.gpu import attend, group, solve, solve_gpu  # noqa: E402
from svmemory.torch.gpu.gram import gram, gram_naive  # noqa: E402
from svmemory.torch.gpu.guess import guess, guess_naive  # noqa: E402
from svmemory.torch.gpu.readout import attend_naive  # noqa: E402
from svmemory.torch.solve.problems import EMPTY, NOT_CONVERGED, OPTIMAL, WARMUP  # noqa: E402
from svmemory.torch.solvers import SOLVERS  # noqa: E402

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
ROOT = Path(__file__).resolve().parents[1]

kernels = pytest.mark.skipif(not INTERPRETING, reason="runs in the process of its own, see above")
in_torch = pytest.mark.skipif(INTERPRETING, reason="needs no interpreter")
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)


@pytest.fixture
def on_gpu_path(monkeypatch):
    """``solver="batched"`` takes CPU tensors the way it takes CUDA tensors."""
    monkeypatch.setitem(SOLVERS, "batched", solve_gpu)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def leaf(*numbers):
    value = numbers if len(numbers) > 1 else numbers[0]
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def masked(keys, seed):
    """A mask, and keys with NaN where it is False."""
    mask = torch.rand(keys.shape[:-1], generator=torch.Generator().manual_seed(seed)) < 0.7
    return mask, torch.where(mask.unsqueeze(-1), keys, torch.nan)


def gate_and_gradients(keys, gamma, C, mask, lengths, ridge=1e-3):
    inputs = keys.clone().requires_grad_(), leaf(gamma), leaf(C)
    gate = sv_gate_prefixes(*inputs, ridge, mask, lengths=lengths)
    bar = draw(*gate.weights.shape, seed=7).to(gate.weights.dtype)
    loss = (gate.weights.nan_to_num() * bar).sum() + gate.offset.nan_to_num().sin().sum()
    return gate, torch.autograd.grad(loss, inputs)


def assert_same(keys, gamma, C, mask, lengths, monkeypatch, ridge=1e-3):
    """The GPU path and the compiled solver give the same gate and the same gradients."""
    expected, expected_bars = gate_and_gradients(keys, gamma, C, mask, lengths, ridge)
    with monkeypatch.context() as patch:
        patch.setitem(SOLVERS, "batched", solve_gpu)
        found, bars = gate_and_gradients(keys, gamma, C, mask, lengths, ridge)
    assert torch.equal(found.codes, expected.codes)
    assert torch.equal(found.status, expected.status)
    room = 1e-11 if keys.dtype == torch.float64 else 2e-7
    assert torch.equal(found.weights.isnan(), expected.weights.isnan())
    assert (found.weights - expected.weights).nan_to_num().abs().max() <= room
    assert (found.offset - expected.offset).nan_to_num().abs().max() <= room
    assert (found.kkt_residual[found.status != NOT_CONVERGED] <= 1e-9).all()
    for x, y in zip(bars, expected_bars, strict=True):
        assert x.dtype == y.dtype
        tolerance = 1e-11 if keys.dtype == torch.float64 else 1e-5
        assert (x - y).abs().max() <= tolerance * y.abs().max()
    return found


# -- all of it, with the kernels' twins ---------------------------------------------------------


@in_torch
@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize(("n", "gamma", "C"), [(33, 0.25, 0.25), (60, 0.5, 0.05), (4, 0.3, 0.3)])
def test_same_gate_and_gradients_as_the_compiled_solver(n, gamma, C, kind, monkeypatch):
    keys = draw(2, 3, n, 4, seed=n).to(kind)
    mask, poisoned = masked(keys, 1)
    lengths = (0, n // 3, n // 2, n // 2, n)
    assert_same(keys, gamma, C, None, lengths, monkeypatch)
    found = assert_same(poisoned, gamma, C, mask, lengths, monkeypatch)
    assert (found.codes[..., -1, :][~mask] == -1).all()


@in_torch
@pytest.mark.parametrize("size", [2**31, 8 * 30 * 30 * 2])
def test_groups_do_not_change_the_answer(size, monkeypatch):
    monkeypatch.setattr(solve, "_GROUP", size)
    keys = draw(5, 30, 3)
    mask, poisoned = masked(keys, 2)
    assert_same(keys, 0.4, 0.1, None, (7, 30), monkeypatch)
    assert_same(poisoned, 0.4, 0.1, mask, (7, 30), monkeypatch)


@in_torch
@pytest.mark.parametrize("kind", ["float64", "float32", "bfloat16"])
def test_random_problems_match_the_exact_engine(kind, on_gpu_path, rng_problems):
    problems = rng_problems
    if kind == "bfloat16":
        problems = [layer_exactness.rounded(p) for p in problems]
    gate = layer_exactness.batched(problems, getattr(torch, kind))
    tally = layer_exactness.Tally()
    for row, problem in enumerate(problems):
        tally.add(gate, row, problem)
    assert tally.same_sets == tally.problems == len(problems), tally.differing
    assert tally.flagged == 0
    assert tally.residual <= 1e-5
    assert tally.weight <= (1e-5 if kind == "float64" else 1e-4)


@pytest.fixture(scope="module")
def rng_problems():
    import numpy as np

    return list(layer_exactness.problems(np.random.default_rng(12), 15, canonical=3))


@in_torch
def test_edges(on_gpu_path):
    def check(keys, C, status, weight):
        gate = sv_gate(keys, 0.5, C)
        assert gate.status == status
        assert (gate.weights - weight).abs().max() <= 1e-12
        assert gate.kkt_residual <= 1e-13

    check(draw(1, 3), 0.5, WARMUP, 1.0)
    check(draw(3, 2), 0.25, WARMUP, 1 / 3)
    check(draw(4, 2), 0.25, WARMUP, 1 / 4)
    check(torch.ones(6, 2, dtype=torch.float64), 0.25, OPTIMAL, 1 / 6)
    check(torch.zeros(5, 0, dtype=torch.float64), 0.25, OPTIMAL, 1 / 5)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    for keys, mask in ((draw(2, 4, 3), nothing), (draw(2, 0, 3), None), (draw(0, 5, 3), None)):
        keys = keys.requires_grad_()
        gate = sv_gate(keys, 0.5, 0.5, mask=mask)
        assert gate.weights.shape == keys.shape[:-1]
        assert (gate.status == EMPTY).all()
        assert (gate.weights == 0).all()
        assert (gate.codes == -1).all()
        assert (gate.offset == 0).all()
        (gate.weights.sum() + gate.offset.sum()).backward()
        assert (keys.grad == 0).all()
    one = torch.tensor([True, False])[:, None].expand(2, 4)
    assert sv_gate(draw(2, 4, 3), 0.5, 0.5, mask=one).status.tolist() == [OPTIMAL, EMPTY]


@in_torch
def test_a_planted_nan_flags_its_problem_and_no_other(on_gpu_path):
    keys = draw(3, 20, 2)
    clean = sv_gate_prefixes(keys, 0.5, 0.2, lengths=(10, 20))
    clean_keys = keys.clone().requires_grad_()
    sv_gate_prefixes(clean_keys, 0.5, 0.2, lengths=(10, 20)).weights[0, 1].square().sum().backward()
    keys[1, 15, 0] = torch.nan
    keys[2, 3, 1] = torch.inf
    keys.requires_grad_()
    gate = sv_gate_prefixes(keys, 0.5, 0.2, lengths=(10, 20))
    bad = torch.tensor([[False, False], [False, True], [True, True]])
    assert torch.equal(gate.status == NOT_CONVERGED, bad)
    assert torch.isinf(gate.kkt_residual[bad]).all()
    assert torch.isnan(gate.offset[bad]).all()
    assert torch.isnan(gate.weights[1, 1]).all()
    assert torch.isnan(gate.weights[2, 0, :10]).all()
    assert (gate.weights[~bad] - clean.weights[~bad]).abs().max() <= 1e-12
    (gate.weights[0, 1].square().sum() + gate.weights[1:].square().nansum()).backward()
    assert torch.isfinite(keys.grad).all()
    assert (keys.grad[0] - clean_keys.grad[0]).abs().max() <= 1e-12


@in_torch
@pytest.mark.parametrize("kind", ["twins", "lattice", "far", "wide", "huge"])
def test_degenerate_keys(kind, monkeypatch):
    keys = draw(2, 24, 3)
    if kind == "twins":
        keys = keys[:, torch.randint(12, (24,), generator=torch.Generator().manual_seed(0))]
    elif kind == "lattice":
        keys = keys.round()
    elif kind == "far":
        keys = keys + 2.0**20
    else:
        keys = keys * (1e3 if kind == "wide" else 1e200)
    gate = sv_gate(keys, 0.2, 0.2, solver="exact")
    monkeypatch.setitem(SOLVERS, "batched", solve_gpu)
    found = sv_gate(keys, 0.2, 0.2)
    assert torch.equal(found.codes, gate.codes)
    assert (found.weights - gate.weights).abs().max() <= 1e-9
    assert (found.status == OPTIMAL).all()


@in_torch
@pytest.mark.parametrize("ridge", [1e-8, 1e-5, 10.0, 1e4])
def test_other_ridges(ridge, on_gpu_path):
    keys = draw(3, 40, 2)
    gate = sv_gate(keys, 0.5, 0.08, ridge)
    exact = sv_gate(keys, 0.5, 0.08, ridge, solver="exact")
    assert (gate.status == OPTIMAL).all()
    assert (gate.weights - exact.weights).abs().max() <= 1e-12 / ridge + 1e-12


@in_torch
def test_with_an_empty_margin_the_offset_follows_the_error_rows(on_gpu_path):
    keys = torch.tensor([[-1.0], [1.1], [0.1]], dtype=torch.float64, requires_grad=True)

    def both(keys, gamma):
        gate = sv_gate(keys, gamma, 0.5)
        assert gate.codes.tolist() == [2, 2, 0]
        return gate.weights, gate.offset

    assert both(keys, 0.1)[0].tolist() == [0.5, 0.5, 0.0]
    assert gradcheck(both, (keys, leaf(0.1)))


@in_torch
def test_gradients_by_finite_differences_and_no_second_ones(on_gpu_path):
    keys = draw(2, 14, 3, seed=4).requires_grad_()
    gamma, C = leaf(0.3, 0.5), leaf(0.17, 0.12)
    assert gradcheck(lambda *x: sv_gate_prefixes(*x, lengths=(4, 9, 14))[:2], (keys, gamma, C))
    loss = sv_gate(keys, gamma, C).weights.square().sum()
    (grad,) = torch.autograd.grad(loss, keys, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(grad.sum(), keys)


@in_torch
def test_a_start_changes_nothing_but_time(on_gpu_path):
    keys = draw(4, 50, 3)
    gate = sv_gate(keys, 0.4, 0.1)
    wild = draw(4, 50, seed=9) * 1e3
    wild[0, 0] = torch.nan
    for start in (gate.weights, gate.weights.roll(7, -1), torch.zeros(4, 50), wild, -wild):
        again = sv_gate(keys, 0.4, 0.1, start=start)
        assert (again.weights - gate.weights).abs().max() <= 1e-12
        assert torch.equal(again.codes, gate.codes)


@in_torch
def test_what_does_not_settle_is_solved_on_the_cpu(monkeypatch):
    keys = draw(3, 40, 2)
    mask, poisoned = masked(keys, 4)
    left = []

    def nothing_settles(batch, live):
        left.append(int(live.sum()))
        return [], live

    monkeypatch.setattr(group, "correct", nothing_settles)
    found = assert_same(poisoned, 0.5, 0.08, mask, (9, 20, 40), monkeypatch)
    assert left == [int((found.status == OPTIMAL).sum())]


@in_torch
def test_a_margin_that_cannot_be_solved_is_flagged(monkeypatch, on_gpu_path):
    def wrong_sets(batch, *_):
        batch.codes.masked_fill_(batch.codes >= 0, 1)

    monkeypatch.setattr(group, "correct", lambda batch, live: ([], live))
    monkeypatch.setattr(group, "take_sets_from_cpu", wrong_sets)
    gate = sv_gate(draw(2, 40, 2), 0.5, 0.08)  # every row free: some masses leave the box
    assert (gate.status == NOT_CONVERGED).all()
    assert (gate.kkt_residual > 1e-9).all()


# -- kernels ------------------------------------------------------------------------------------


@in_torch
@needs_triton
def test_kernels_in_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout, done.stdout


@in_torch
@needs_triton
def test_kernels_compile_for_a_gpu_that_is_not_here(tmp_path, monkeypatch):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from svmemory.torch.gpu.kernels import attention
    from svmemory.torch.gpu.kernels import gram as grams
    from svmemory.torch.gpu.kernels import guess as guesses

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    vectors = {"gamma": "fp64", "counts": "i64", "codes": "i32"}
    vectors |= dict.fromkeys(("bias", "total", "inner", "bias_bar"), "fp32")
    numbers = {"n", "d", "t", "e", "memory", "lengths", "stride"}
    guess_sizes = {
        "BLOCK": 256,
        "STEP": 32,
        "ENOUGH": 1e-4,
        "NOISE": 1e-6,
        "ROUNDS": 8,
        "STEPS": 12,
    }
    read_sizes = {"ABSENT": -1e29, "PRECISION": "ieee", "D": 64, "E": 64, "ROWS": 64}
    for kernel, kind, constants in (
        (grams.gram_tile, "fp64", {"TILE": 32}),
        (guesses.guess_problem, "fp32", guess_sizes),
        (attention.attend_queries, "bf16", read_sizes),
        (attention.pull_to_queries, "bf16", read_sizes),
        (attention.pull_to_keys, "bf16", read_sizes),
    ):
        signature = {
            name: "constexpr"
            if name in constants
            else "i32"
            if name in numbers
            else f"*{vectors.get(name, kind)}"
            for name in kernel.arg_names
        }
        places = {(kernel.arg_names.index(name),): x for name, x in constants.items()}
        source = ASTSource(fn=kernel, signature=signature, constexprs=places)
        done = triton.compile(source, target=GPUTarget("cuda", 80, 32))
        assert len(done.asm["cubin"]) > 1000
        assert done.metadata.shared <= 99 * 1024, "more than small GPUs have"


@in_torch
@needs_triton
def test_the_benchmark_checks_itself_small_and_needs_a_gpu_to_time(tmp_path):
    script = ROOT / "benchmarks" / "gpu_layer.py"
    env = {**os.environ, "COLUMNS": "200", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env)
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr
    env["TRITON_INTERPRET"] = "1"
    path = tmp_path / "result.json"
    command = [sys.executable, script, "--quick", "--json", path]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.exists()


@kernels
@pytest.mark.parametrize(("n", "d"), [(1, 1), (33, 3), (40, 0)])
def test_gram_kernel(n, d):
    keys, gamma = draw(2, n, d, seed=n) * 3, torch.tensor([0.3, 7.0], dtype=torch.float64)
    found, expected = gram(keys, gamma), gram_naive(keys, gamma)
    assert (found - expected).abs().max() <= 1e-15
    assert torch.equal(found, found.transpose(1, 2))
    assert (found.diagonal(dim1=1, dim2=2) == 1).all()


@kernels
def test_guess_kernel():
    # in float64 and well conditioned: another order of sums moves no row and no step; the last
    # problem has nothing to do
    keys = draw(2, 19, 2, seed=3)
    matrices = gram_naive(keys, torch.tensor([0.5, 0.2], dtype=torch.float64))
    matrices += 0.5 * torch.eye(19, dtype=torch.float64)
    counts = torch.tensor([11, 19, 17, 0])
    held = torch.tensor([4.0, 6.5, 3.0, 2.0], dtype=torch.float64)
    inside = torch.arange(19) < counts[:, None]
    b = torch.where(inside, held[:, None] / counts.clamp_min(1)[:, None], 0.0)
    codes = torch.where(inside, 1, -1).to(torch.int32)
    found, expected = (b.clone(), codes.clone()), (b.clone(), codes.clone())
    found[0].masked_fill_(~inside, torch.nan)  # rows that do not count may hold anything
    guess(matrices, counts, held, *found)
    guess_naive(matrices, counts, held, *expected)
    assert torch.equal(found[1], expected[1])
    assert (found[0] - expected[0])[inside].abs().max() <= 1e-13
    assert {0, 1, 2} <= set(found[1].flatten().tolist()), "the test needs all three sets"
    assert found[0][3].isnan().all(), "nothing to do, nothing written"
    alone = b[:1].clone(), codes[:1].clone()
    poisoned = matrices[:1].clone()
    poisoned[:, 11:] = torch.nan
    poisoned[:, :, 11:] = torch.nan
    guess(poisoned, counts[:1], held[:1], *alone)
    assert torch.equal(alone[1], expected[1][:1])


@kernels
def test_the_gate_with_kernels(monkeypatch):
    mask, keys = masked(draw(2, 17, 3), 1)
    assert_same(keys, 0.4, 0.2, mask, (2, 9, 17), monkeypatch)


@kernels
@pytest.mark.parametrize(("t", "n", "memory"), [(5, 18, 13), (33, 70, 37), (7, 40, 40)])
def test_attention_kernels(t, n, memory):
    sizes = {"q": (2, t, 5), "k": (2, n, 5), "v": (2, n, 3), "bias": (2, n)}
    given = {
        name: draw(*s, seed=i, dtype=torch.float32) for i, (name, s) in enumerate(sizes.items())
    }
    absent = torch.rand(2, n, generator=torch.Generator().manual_seed(5)) < 0.3
    absent[1, :] = memory == n  # a memory with nothing to read
    given["bias"][absent] = -1e30
    bar = draw(2, t, 3, seed=9, dtype=torch.float32)

    def run(function, kind, hidden):
        inputs = {name: x.to(kind) for name, x in given.items()}
        for name in ("k", "v"):  # what is absent may hold anything
            inputs[name] = torch.where(absent.unsqueeze(-1), hidden, inputs[name])
        inputs = [x.requires_grad_() for x in inputs.values()]
        out = function(*inputs, memory)
        return out.detach(), *torch.autograd.grad(out, inputs, bar.to(kind))

    found = run(attend, torch.float32, torch.nan)
    expected = run(attend_naive, torch.float64, 0.0)
    precise = run(attend, torch.float64, torch.nan)
    for x, y, z in zip(found, expected, precise, strict=True):
        assert torch.equal(y, z)
        assert (x - y).abs().max() <= 2e-6 * max(1.0, float(y.abs().max()))


@in_torch
def test_attention_of_the_twin_is_softmax_with_a_bias():
    q, k, v, bias = draw(2, 4, 5), draw(2, 9, 5, seed=1), draw(2, 9, 3, seed=2), draw(2, 9, seed=3)
    bias[:, 2] = -1e30
    read = attend(q, k, v, bias, 5)
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    logits = q @ k.transpose(1, 2) + bias.unsqueeze(1)
    logits[:, :, 5:].masked_fill_(hidden, -torch.inf)
    assert (read - torch.softmax(logits, -1) @ v).abs().max() <= 1e-14
