"""Long sequences, solved on a working set: against the exact engine and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from torch.autograd import gradcheck  # noqa: E402

from svmemory import Contract, SupportVectorMemory  # noqa: E402
from svmemory.torch import sv_gate_prefixes  # noqa: E402
from svmemory.torch.solve import long, working  # noqa: E402
from svmemory.torch.solve.problems import EMPTY, NOT_CONVERGED, OPTIMAL, WARMUP  # noqa: E402


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def keys_of(kind, n):
    """Two sequences (2, n, 3) of a kind."""
    if kind == "spread":
        return draw(2, n, 3)
    if kind == "lattice":  # many rows at one place, many ties
        return (2.0 * draw(2, n, 3)).round() / 2.0
    if kind == "walk":  # the new rows lie outside of the old ones
        return draw(2, n, 3).cumsum(1) * 0.3
    return draw(2, 1, 3).expand(2, n, 3).contiguous()  # all rows equal


@pytest.mark.parametrize("kind", ["spread", "lattice", "walk", "equal"])
@pytest.mark.parametrize("cap", [0.25, 0.01])
def test_every_prefix_is_at_the_exact_optimum(kind, cap):
    n, lengths = 480, [60, 120, 121, 240, 240, 350, 480]
    keys = keys_of(kind, n)
    gate = sv_gate_prefixes(keys, 0.5, cap, lengths=lengths)
    assert set(gate.status.flatten().tolist()) <= {OPTIMAL, WARMUP}
    assert gate.kkt_residual.max() < 1e-9
    for row in range(2):
        memory = SupportVectorMemory.from_contract(Contract.from_cap(0.5, cap, 1e-3))
        before = 0
        for place, length in enumerate(lengths):
            if length > before:
                memory.add(keys[row, before:length].numpy())
                memory.canonicalise()
            before = length
            found = gate.weights[row, place].numpy()
            np.testing.assert_allclose(found[:length], memory.weights, rtol=0, atol=1e-10)
            assert not found[length:].any()
            assert gate.offset[row, place].item() == pytest.approx(memory.offset, abs=1e-10)


def test_working_sets_that_outgrow_their_room():
    n = 512  # points of a grid, too far apart to see one another: all weights are equal
    grid = torch.arange(8.0, dtype=torch.float64)
    keys = 9.0 * torch.cartesian_prod(grid, grid, grid)[None]
    lengths = list(range(64, n + 1, 64))
    assert n > working._FIRST
    gate = sv_gate_prefixes(keys, 1.0, 0.25, lengths=lengths)
    assert (gate.status == OPTIMAL).all()
    assert (gate.codes[0, -1] == 1).all()
    np.testing.assert_allclose(gate.weights[0, -1].numpy(), 1.0 / n, rtol=1e-12)


def test_warm_up_holes_and_rows_that_are_not_finite():
    n = 500
    keys = draw(3, n, 4)
    mask = torch.rand(3, n, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[0, :100] = False
    keys[1, 200] = torch.nan
    keys[~mask] = torch.nan  # rows that do not count may hold anything
    mask[1, 200] = True
    lengths = [0, 3, 100, 150, 250, 400, 500]
    gate = sv_gate_prefixes(keys, 0.4, 0.05, mask=mask, lengths=lengths)
    assert gate.status[0, :3].tolist() == [EMPTY, EMPTY, EMPTY]
    assert gate.status[2, 1] in (EMPTY, WARMUP)
    assert gate.status[1].tolist()[-3:] == [NOT_CONVERGED] * 3
    assert torch.isnan(gate.weights[1, -1][mask[1]]).all()
    good = torch.cat([gate.status[:1], gate.status[2:]])
    assert (good != NOT_CONVERGED).all()
    for row in (0, 2):
        rows = mask[row]
        memory = SupportVectorMemory.from_contract(Contract.from_cap(0.4, 0.05, 1e-3))
        memory.add(keys[row][rows].numpy())
        found = gate.weights[row, -1][rows].numpy()
        np.testing.assert_allclose(found, memory.weights, rtol=0, atol=1e-10)


def test_derivatives_are_those_of_finite_differences(monkeypatch):
    monkeypatch.setattr(long, "_LONG", 0)
    keys = draw(2, 40, 3, seed=3).requires_grad_()
    gamma = torch.tensor([0.3, 0.6], dtype=torch.float64, requires_grad=True)
    cap = torch.tensor([0.09, 0.12], dtype=torch.float64, requires_grad=True)
    lengths = [4, 14, 24, 30, 40]  # warm-up first

    def function(keys, gamma, cap):
        gate = sv_gate_prefixes(keys, gamma, cap, lengths=lengths)
        return gate.weights, gate.offset

    codes = sv_gate_prefixes(keys, gamma, cap, lengths=lengths).codes
    assert {0, 1, 2} <= set(codes.flatten().tolist())
    assert gradcheck(function, (keys, gamma, cap))


@pytest.mark.parametrize("kind", ["spread", "lattice"])
def test_both_ways_have_the_same_derivative(kind, monkeypatch):
    lengths = list(range(50, 501, 50))
    found = []
    for least in (0, 10**6):
        monkeypatch.setattr(long, "_LONG", least)
        keys = keys_of(kind, 500).requires_grad_()
        gate = sv_gate_prefixes(keys, 0.5, 0.02, lengths=lengths)
        target = draw(*gate.weights.shape, seed=9)
        ((gate.weights * target).sum() + gate.offset.square().sum()).backward()
        found.append((gate.weights.detach(), gate.codes, keys.grad))
    (weights, codes, slope), (weights_2, codes_2, slope_2) = found
    torch.testing.assert_close(weights, weights_2, rtol=0, atol=1e-11)
    assert torch.equal(codes, codes_2)
    torch.testing.assert_close(slope, slope_2, rtol=1e-6, atol=1e-9 * slope.abs().max().item())


def test_threads_do_not_change_a_bit():
    keys = draw(6, 450, 4, dtype=torch.float32)
    threads = torch.get_num_threads()
    found = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            x = keys.clone().requires_grad_()
            gate = sv_gate_prefixes(x, 0.5, 0.1, lengths=list(range(45, 451, 45)))
            gate.weights.square().sum().backward()
            found.append((gate.weights.detach(), gate.offset.detach(), x.grad))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
