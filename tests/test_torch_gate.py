"""The gate against cases solved elsewhere, against the exact engine, and at its edges."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

import layer_exactness  # noqa: E402
from svmemory import Contract, ContractError, InputError, SupportVectorMemory  # noqa: E402
from svmemory.kernel import gaussian_kernel  # noqa: E402
from svmemory.reference import from_keys  # noqa: E402
from svmemory.torch import (  # noqa: E402
    StreamingGate,
    sv_attention,
    sv_gate,
    sv_gate_prefixes,
    sv_readout,
    sv_score,
)
from svmemory.torch.solve.activeset import Work, residual  # noqa: E402
from svmemory.torch.solve.problems import EMPTY, NOT_CONVERGED, OPTIMAL, WARMUP  # noqa: E402
from svmemory.torch.solve.settle import settle  # noqa: E402
from svmemory.torch.solve.walk import walk  # noqa: E402

TRUE_SOLVERS = ("batched", "exact", "naive")
CASES = Path(__file__).parent / "cases"
ORACLE = json.loads((CASES / "svdd_oracle.json").read_text())
FAULTS = [c for c in json.loads((CASES / "known_faults.json").read_text()) if c["ridge"] > 0]


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def letters(codes):
    return "".join("RSE"[code] for code in codes.tolist())


# -- truth from elsewhere ---------------------------------------------------------------------


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
@pytest.mark.parametrize("case", ORACLE, ids=lambda case: case["name"])
def test_oracle(case, solver):
    if case["ridge"] == 0:
        pytest.skip("the layer's problem has a ridge")
    keys = torch.tensor(case["keys"], dtype=torch.float64)
    gate = sv_gate(keys, case["gamma"], case["C"], case["ridge"], solver=solver)
    exact = torch.tensor([float(x) for x in case["alpha"]], dtype=torch.float64)
    # a residual of 1e-13 in g is an error of 1e-13 / ridge in a weight
    tolerance = max(case["tolerance"], 1e-13 / case["ridge"])
    assert (gate.weights - exact).abs().max() <= tolerance
    assert abs(float(gate.offset) - float(case["rho"])) <= 10 * tolerance
    assert gate.status in (OPTIMAL, WARMUP)
    if case["ridge"] >= 1e-6:
        assert (gate.codes == 1).nonzero()[:, 0].tolist() == case["margin"]
        assert (gate.codes == 2).nonzero()[:, 0].tolist() == case["error"]


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case["name"])
def test_known_fault(case, solver):
    keys = torch.tensor(case["keys"], dtype=torch.float64)
    gate = sv_gate(keys, case["gamma"], case["C"], case["ridge"], solver=solver)
    exact = torch.tensor([float(x) for x in case["alpha"]], dtype=torch.float64)
    assert (gate.weights - exact).abs().max() <= 1e-13 / case["ridge"]
    assert abs(float(gate.offset) - float(case["rho"])) <= 1e-10


def small_problems():
    rng = np.random.default_rng(5)
    for i in range(60):
        n = int(rng.integers(2, 26))
        keys = rng.standard_normal((n, 2))
        if i % 3 == 1:
            keys = np.rint(keys)  # a lattice: duplicates, ties, rows exactly at a bound
        if i % 3 == 2:
            keys = keys[rng.integers(0, max(1, n // 2), n)]
        C = 1.0 / int(rng.integers(1, 8)) if i % 2 else float(rng.uniform(0.08, 0.9))
        yield keys, float(rng.choice([0.05, 0.5, 4.0])), C


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_rational_arithmetic_gives_the_same_optimum(solver):
    for keys, gamma, C in small_problems():
        exact = from_keys(keys, Contract.from_cap(gamma, C, 1e-3))
        gate = sv_gate(torch.from_numpy(keys), gamma, C, solver=solver)
        assert np.abs(gate.weights.numpy() - exact.weights).max() <= 1e-11
        assert abs(float(gate.offset) - exact.offset) <= 1e-12
        assert gate.kkt_residual <= 1e-12
        # a row whose exact weight or slack is zero may fall to either side by a rounding
        q = gaussian_kernel(keys, keys, gamma) @ exact.weights + 1e-3 * exact.weights
        slack = np.abs(exact.offset - 1.001 + 2.0 * q)
        room = np.minimum(exact.weights, 1.0 / exact.held - exact.weights)
        clear = (slack > 1e-10) | (room > 1e-10)
        assert all(
            (x == y) or not sure
            for x, y, sure in zip(letters(gate.codes), exact.labels, clear, strict=True)
        )


@pytest.mark.parametrize("kind", ["float64", "float32", "bfloat16"])
def test_random_problems_match_the_exact_engine(kind):
    rng = np.random.default_rng(11)
    problems = list(layer_exactness.problems(rng, 40, canonical=4))
    if kind == "bfloat16":
        problems = [layer_exactness.rounded(p) for p in problems]
    gate = layer_exactness.batched(problems, getattr(torch, kind))
    tally = layer_exactness.Tally()
    for row, problem in enumerate(problems):
        tally.add(gate, row, problem)
    assert tally.problems == tally.same_sets == 40, tally.differing
    assert tally.flagged == 0
    assert tally.residual <= 1e-5
    assert tally.weight <= (1e-5 if kind == "float64" else 1e-4)
    assert gate.weights.dtype == (torch.float64 if kind == "float64" else torch.float32)


def test_naive_twin_agrees_on_batches_with_masks_and_prefixes():
    for n, gamma, C in ((33, 0.25, 0.25), (60, 0.5, 0.05), (4, 0.3, 0.3)):
        keys = draw(2, 3, n, 4, seed=n)
        mask = torch.rand(2, 3, n, generator=torch.Generator().manual_seed(1)) < 0.7
        for where in (None, mask):
            lengths = (0, n // 3, n // 2, n)
            fast, slow = (
                sv_gate_prefixes(keys, gamma, C, mask=where, lengths=lengths, solver=solver)
                for solver in ("batched", "naive")
            )
            for x, y in zip(fast, slow, strict=True):
                assert x.shape == y.shape
                assert (x.double() - y.double()).abs().max() <= 1e-12


# -- the stages of the solver -----------------------------------------------------------------


def test_the_last_stage_alone_reaches_the_optimum():
    rng = np.random.default_rng(3)
    for n, mass in ((30, 6.5), (30, 7.0), (80, 12.25)):
        keys = np.rint(2.0 * rng.standard_normal((n, 2)))
        kernel = gaussian_kernel(keys, keys, 0.3)
        by_walk, by_all = Work.of(n), Work.of(n)
        for w in (by_walk, by_all):
            w.b[:] = mass / n
            w.code[:] = 1
        by_walk.b[:] = rng.random(n)  # anything
        mu, _, converged = walk(kernel, n, mass, 1e-3, by_walk)
        assert converged
        assert residual(n, mass, mu, by_walk) <= 1e-13
        mu, _, converged = settle(kernel, n, mass, 1e-3, by_all)
        assert converged
        assert np.abs(by_walk.b - by_all.b).max() <= 1e-10


def test_a_start_changes_nothing_but_time():
    keys = draw(4, 50, 3)
    gate = sv_gate(keys, 0.4, 0.1)
    wild = draw(4, 50, seed=9) * 1e3
    wild[0, 0] = torch.nan
    for start in (gate.weights, gate.weights.roll(7, -1), torch.zeros(4, 50), wild, -wild):
        again = sv_gate(keys, 0.4, 0.1, start=start)
        assert (again.weights - gate.weights).abs().max() <= 1e-12
        assert torch.equal(again.codes, gate.codes)


def test_threads_do_not_change_a_bit():
    keys = draw(7, 60, 5)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = sv_gate(keys, 0.2, 0.1)
        torch.set_num_threads(4)
        four = sv_gate(keys, 0.2, 0.1)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(one, four, strict=True))


def test_calls_from_several_threads_at_once():
    keys = draw(6, 40, 3)
    expected = sv_gate(keys, 0.3, 0.1).weights
    found = []

    def call():
        found.append(sv_gate(keys, 0.3, 0.1).weights)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 4
    assert all(torch.equal(x, expected) for x in found)


# -- edges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [*TRUE_SOLVERS, "paper"])
def test_a_planted_nan_flags_its_problem_and_no_other(solver):
    keys = draw(3, 20, 2)
    clean = sv_gate_prefixes(keys, 0.5, 0.2, lengths=(10, 20), solver=solver)
    keys[1, 15, 0] = torch.nan
    keys[2, 3, 1] = torch.inf
    gate = sv_gate_prefixes(keys, 0.5, 0.2, lengths=(10, 20), solver=solver)
    bad = torch.tensor([[False, False], [False, True], [True, True]])
    assert torch.equal(gate.status == NOT_CONVERGED, bad | (clean.status == NOT_CONVERGED))
    assert torch.isinf(gate.kkt_residual[bad]).all()
    assert torch.isnan(gate.offset[bad]).all()
    assert torch.isnan(gate.weights[1, 1]).all()
    assert torch.isnan(gate.weights[2, 0, :10]).all()
    good = ~bad
    assert torch.allclose(gate.weights[good], clean.weights[good], rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", [*TRUE_SOLVERS, "paper"])
def test_edges_are_solved(solver):
    def check(keys, C, status, weight):
        gate = sv_gate(keys, 0.5, C, solver=solver)
        assert gate.status == status
        assert (gate.weights - weight).abs().max() <= (1e-12 if solver != "paper" else 1e-4)
        assert gate.kkt_residual <= (1e-14 if solver != "paper" else 1e-6)

    check(draw(1, 3), 0.5, WARMUP, 1.0)
    check(draw(3, 2), 0.25, WARMUP, 1 / 3)  # n C < 1
    check(draw(4, 2), 0.25, WARMUP, 1 / 4)  # n C = 1
    check(torch.ones(6, 2, dtype=torch.float64), 0.25, OPTIMAL, 1 / 6)
    check(torch.zeros(5, 0, dtype=torch.float64), 0.25, OPTIMAL, 1 / 5)  # keys without features
    gate = sv_gate(draw(2, 4, 3), 0.5, 0.5, mask=torch.zeros(2, 4, dtype=torch.bool), solver=solver)
    assert torch.equal(gate.status, torch.full((2,), EMPTY, dtype=torch.int8))
    assert torch.equal(gate.weights, torch.zeros_like(gate.weights))
    assert torch.equal(gate.offset, torch.zeros_like(gate.offset))
    assert sv_gate(draw(2, 0, 3), 0.5, 0.5, solver=solver).weights.shape == (2, 0)
    assert sv_gate(draw(0, 5, 3), 0.5, 0.5, solver=solver).weights.shape == (0, 5)


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_with_an_empty_margin_the_offset_follows_the_error_rows(solver):
    # K(-1, 1) = e^-0.4 and K(0, +-1) = e^-0.1: the outer rows at the cap, slack in the middle
    keys = torch.tensor([[-1.0], [1.0], [0.0]], dtype=torch.float64)
    gate = sv_gate(keys, 0.1, 0.5, solver=solver)
    assert letters(gate.codes) == "EER"
    assert gate.weights.tolist() == [0.5, 0.5, 0.0]
    h = 0.5 * (1.001 + np.exp(-0.4))
    assert abs(float(gate.offset) - (1.001 - 2.0 * h)) <= 1e-15


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_masked_rows_may_hold_anything(solver):
    keys = draw(2, 3, 12, 2)
    mask = torch.rand(2, 3, 12, generator=torch.Generator().manual_seed(2)) < 0.6
    poisoned = torch.where(mask.unsqueeze(-1), keys, torch.nan)
    gate = sv_gate(poisoned, 0.5, 0.3, mask=mask, solver=solver)
    for i in range(2):
        for j in range(3):
            alone = sv_gate(keys[i, j, mask[i, j]], 0.5, 0.3, solver=solver)
            assert (gate.weights[i, j, mask[i, j]] - alone.weights).abs().max() <= 1e-13
            assert torch.equal(gate.codes[i, j, mask[i, j]], alone.codes)
    assert (gate.codes[~mask] == -1).all()
    assert (gate.weights[~mask] == 0).all()


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_prefixes_are_the_gates_of_the_first_rows(solver):
    keys = draw(2, 30, 3)
    lengths = (0, 2, 9, 9, 20, 30)
    gates = sv_gate_prefixes(keys, 0.3, 0.2, lengths=lengths, solver=solver)
    assert gates.weights.shape == (2, 6, 30)
    for i, length in enumerate(lengths):
        alone = sv_gate(keys[:, :length], 0.3, 0.2, solver=solver)
        assert (gates.weights[:, i, :length] - alone.weights).abs().sum() <= 1e-12
        assert torch.equal(gates.codes[:, i, :length], alone.codes)
        assert torch.equal(gates.status[:, i], alone.status)
        assert (gates.codes[:, i, length:] == -1).all()
        assert (gates.weights[:, i, length:] == 0).all()


@pytest.mark.parametrize("keys", ["far", "wide", "two far groups", "huge"])
def test_keys_whose_products_cancel(keys):
    near = draw(1, 24, 3)
    if keys == "far":
        near = near + 2.0**20  # float64 keeps 32 bits of what is left
    elif keys == "wide":
        near = near * 1e3
    elif keys == "two far groups":
        near[:, ::2] += 1e7
    else:
        near = near * 1e200
    gate = sv_gate(near, 0.2, 0.2)
    exact = sv_gate(near, 0.2, 0.2, solver="exact")
    assert torch.equal(gate.codes, exact.codes)
    assert (gate.weights - exact.weights).abs().max() <= 1e-9
    assert gate.status == OPTIMAL


@pytest.mark.parametrize("ridge", [1e-8, 1e-5, 10.0, 1e4])
def test_other_ridges(ridge):
    keys = draw(3, 40, 2)
    gate = sv_gate(keys, 0.5, 0.08, ridge)
    exact = sv_gate(keys, 0.5, 0.08, ridge, solver="exact")
    assert (gate.status == OPTIMAL).all()
    assert (gate.weights - exact.weights).abs().max() <= 1e-12 / ridge + 1e-12


def test_gamma_and_cap_per_head():
    keys = draw(2, 3, 20, 4)
    gamma, C = torch.tensor([0.1, 0.3, 0.9]), torch.tensor([[0.1], [0.4]])
    gate = sv_gate(keys, gamma, C)
    for i in range(2):
        for j in range(3):
            alone = sv_gate(keys[i, j], float(gamma[j]), float(C[i, 0]))
            assert (gate.weights[i, j] - alone.weights).abs().max() <= 1e-14


def test_inputs_that_cannot_be():
    keys = draw(2, 5, 3)
    with pytest.raises(ContractError, match="gamma must be > 0"):
        sv_gate(keys, 0.0, 0.5)
    with pytest.raises(ContractError, match="gamma must be > 0"):
        sv_gate(keys, torch.tensor([0.1, torch.nan]), 0.5)
    with pytest.raises(ContractError, match="C must be > 0"):
        sv_gate(keys, 0.5, -1.0)
    with pytest.raises(ContractError, match="ridge"):
        sv_gate(keys, 0.5, 0.5, 0.0)
    with pytest.raises(InputError, match="solver must be one of"):
        sv_gate(keys, 0.5, 0.5, solver="magic")
    with pytest.raises(InputError, match="floating point"):
        sv_gate(keys.long(), 0.5, 0.5)
    with pytest.raises(InputError, match="shape"):
        sv_gate(keys[0, 0], 0.5, 0.5)
    with pytest.raises(InputError, match="boolean"):
        sv_gate(keys, 0.5, 0.5, mask=torch.ones(2, 5))
    with pytest.raises(InputError, match="mask of shape"):
        sv_gate(keys, 0.5, 0.5, mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="gamma of shape"):
        sv_gate(keys, torch.ones(3), 0.5)
    for lengths in ((), (3, 2), (-1, 2), (6,)):
        with pytest.raises(InputError, match="lengths must increase"):
            sv_gate_prefixes(keys, 0.5, 0.5, lengths=lengths)


# -- reading ------------------------------------------------------------------------------------


def test_readout_and_score_are_those_of_a_memory():
    keys, values, queries = draw(40, 3), draw(40, 2, seed=1), draw(7, 3, seed=2)
    memory = SupportVectorMemory(gamma=0.4, C=0.1, ridge=1e-3)
    memory.add(keys.numpy(), values=values.numpy())
    read = sv_attention(queries, keys, values, gamma=0.4, C=0.1)
    assert np.abs(read.numpy() - memory.read(queries.numpy())).max() <= 1e-11
    gate = sv_gate(keys, 0.4, 0.1)
    score = sv_score(queries, keys, gate, 0.4)
    assert np.abs(score.numpy() - memory.score(queries.numpy())).max() <= 1e-11


def test_readout_of_nothing_and_of_rows_without_weight():
    keys, values, queries = draw(2, 12, 3), draw(2, 12, 2, seed=1), draw(2, 4, 3, seed=2)
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1] = False
    read = sv_attention(queries, keys, values, gamma=0.4, C=0.2, mask=mask)
    assert (read[1] == 0).all()
    gate = sv_gate(keys, 0.4, 0.2, mask=mask)
    values[gate.codes <= 0] = torch.nan  # reserve and masked rows are never read
    assert torch.equal(sv_readout(queries, keys, values, gate, 0.4), read)


def test_bfloat16_attention_returns_bfloat16():
    q, k, v = (draw(1, 9, 4, seed=i).to(torch.bfloat16) for i in range(3))
    read = sv_attention(q, k, v, gamma=0.3, C=0.3)
    exact = sv_attention(q.double(), k.double(), v.double(), gamma=0.3, C=0.3)
    assert read.dtype == torch.bfloat16
    assert (read.double() - exact).abs().max() <= 2.0**-8 * v.abs().max()


def test_readout_and_score_in_mixed_types_and_autocast():
    q, k, v = (draw(2, 9, 4, seed=i, dtype=torch.float32) for i in range(3))
    gamma = torch.tensor([0.2, 0.4], dtype=torch.float64)
    exact = sv_attention(q.double(), k.double(), v.double(), gamma=gamma, C=0.3)
    exact_score = sv_score(q.double(), k.double(), sv_gate(k.double(), gamma, 0.3), gamma)
    for on in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
            read = sv_attention(q, k, v, gamma=gamma, C=0.3)
            score = sv_score(q, k, sv_gate(k, gamma, 0.3), gamma)
        assert read.dtype == score.dtype == torch.float32
        assert (read - exact).abs().max() <= 1e-5
        assert (score - exact_score).abs().max() <= 1e-5


# -- PyTorch's modes ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # PyTorch's own, at a graph break
def test_under_compile_autocast_and_deterministic_mode():
    keys = draw(2, 30, 4, dtype=torch.float32)
    values, queries = draw(2, 30, 2, dtype=torch.float32), draw(2, 5, 4, dtype=torch.float32)
    w = torch.nn.Parameter(torch.eye(4))

    def read(w):
        return sv_attention(queries, keys @ w, values, gamma=0.3, C=0.2).square().sum()

    plain = read(w)
    (expected,) = torch.autograd.grad(plain, w)
    torch.compiler.reset()
    compiled = torch.compile(read, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(w), w)
    assert torch.allclose(compiled(w), plain, rtol=1e-6)
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-7)
    torch.use_deterministic_algorithms(True)
    try:
        (again,) = torch.autograd.grad(read(w), w)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(again, expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        keys16 = keys @ w
        gate = sv_gate(keys16, 0.3, 0.2)
    assert keys16.dtype == torch.bfloat16
    assert gate.weights.dtype == torch.float32
    exact = sv_gate(keys16.detach().double(), 0.3, 0.2)
    assert (gate.weights - exact.weights).abs().max() <= 1e-6


# -- the stream ---------------------------------------------------------------------------------


def test_a_stream_is_at_the_optimum_of_all_rows_so_far():
    keys = draw(40, 3)
    stream = StreamingGate(0.4, 0.1)
    for first in range(0, 40, 8):
        gate = stream.add(keys[first : first + 8])
        alone = sv_gate(keys[: first + 8], 0.4, 0.1)
        assert (gate.weights - alone.weights).abs().max() <= 1e-12
        assert torch.equal(gate.codes, alone.codes)
        assert gate.status == alone.status
    assert stream.add(keys[:0]).weights.shape == (40,)
    with pytest.raises(InputError, match="finite"):
        stream.add(keys[:1] * torch.nan)
    with pytest.raises(InputError, match="shape"):
        stream.add(keys[:, :2])
    assert stream.add(keys[:1]).weights.shape == (41,)
    assert StreamingGate(0.4, 0.1).add(keys[:0]).status == EMPTY
