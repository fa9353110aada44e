"""The paper's scheme: its parts, where it is right, and that it says where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy.optimize import minimize

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory.torch import sv_gate, sv_gate_prefixes  # noqa: E402
from svmemory.torch.solve.fista import fista, project  # noqa: E402
from svmemory.torch.solve.problems import NOT_CONVERGED, OPTIMAL, WARMUP  # noqa: E402


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_projection_is_the_nearest_feasible_point():
    rng = np.random.default_rng(0)
    for _ in range(6):
        y = rng.standard_normal(20).astype(np.float32)
        x = np.empty(20, np.float32)
        project(y, 20, np.float32(0.15), x)
        assert (x >= 0).all()
        assert (x <= 0.15 + 1e-7).all()
        assert abs(x.sum() - 1.0) <= 1e-5
        # nearest: y - x is one number inside the box, less at 0, more at the cap
        shift = y - x
        inside = (x > 0) & (x < 0.15 - 1e-6)
        assert inside.any()
        level = shift[inside].mean()
        assert np.abs(shift[inside] - level).max() <= 1e-5
        assert (shift[x == 0] <= level + 1e-5).all()
        assert (shift[x >= 0.15 - 1e-6] >= level - 1e-5).all()


def test_steps_go_down_to_the_optimum_without_a_ridge():
    rng = np.random.default_rng(1)
    keys = rng.standard_normal((15, 3))
    K = np.exp(-0.5 * ((keys[:, None] - keys) ** 2).sum(-1)).astype(np.float32)
    best = minimize(
        lambda a: a @ K @ a,
        np.full(15, 1 / 15),
        jac=lambda a: 2 * K @ a,
        bounds=[(0, 0.2)] * 15,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(15)},
        tol=1e-12,
    )

    @njit
    def steps(K, cap, count):
        return fista(K, cap, count)

    few, many = steps(K, np.float32(0.2), 3), steps(K, np.float32(0.2), 2000)
    assert abs(many @ K @ many - best.fun) <= 1e-5
    assert few @ K @ few > best.fun + 1e-4


def test_an_easy_problem_is_solved():
    keys = 3.0 * draw(4, 12, 6)  # far apart: every row on the margin
    paper = sv_gate(keys, 0.2, 0.25, solver="paper")
    exact = sv_gate(keys, 0.2, 0.25, solver="exact")
    assert (exact.codes == 1).all()
    assert torch.equal(paper.codes, exact.codes)
    assert (paper.weights - exact.weights).abs().max() <= 1e-5
    assert (paper.offset - exact.offset).abs().max() <= 1e-5
    assert (paper.status == OPTIMAL).all()


def test_a_wrong_answer_is_flagged():
    keys = draw(20, 100, 3)
    paper = sv_gate(keys, 0.5, 0.05, solver="paper")
    exact = sv_gate(keys, 0.5, 0.05, solver="exact")
    far = (paper.weights - exact.weights).abs().amax(1) > 1e-4
    assert far.any(), "80 steps in float32 do not solve these"
    assert (paper.status[far] == NOT_CONVERGED).all()
    assert (paper.status[paper.kkt_residual > 1e-5] == NOT_CONVERGED).all()


def test_warm_up_and_prefixes():
    keys = draw(2, 12, 6) * 3.0
    gate = sv_gate_prefixes(keys, 0.2, 0.25, lengths=(3, 4, 12), solver="paper")
    assert gate.status.tolist() == [[WARMUP, WARMUP, OPTIMAL]] * 2
    assert torch.allclose(gate.weights[:, 0, :3], torch.tensor(1 / 3, dtype=torch.float64))
    alone = sv_gate(keys, 0.2, 0.25, solver="paper")
    assert (gate.weights[:, 2] - alone.weights).abs().max() <= 1e-6


def test_gradient_is_the_exact_one_where_the_answer_is():
    weight = draw(4, 12, seed=1)
    grads = {}
    for solver in ("paper", "naive"):
        keys = (3.0 * draw(4, 12, 6)).requires_grad_()
        gamma = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)
        C = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
        gate = sv_gate(keys, gamma, C, solver=solver)
        assert (gate.codes == 2).any()
        loss = (gate.weights * weight).sum() + gate.offset.sum()
        grads[solver] = gate.codes, torch.autograd.grad(loss, (keys, gamma, C))
    assert torch.equal(grads["paper"][0], grads["naive"][0])
    for x, y in zip(grads["paper"][1], grads["naive"][1], strict=True):
        assert (x - y).abs().max() <= 1e-3 * y.abs().max()


def test_a_training_batch_of_the_usual_size():
    # PyTorch's batched LU solve fails on some CPUs at this size; the system needs none
    keys = (0.5 * draw(32, 192, 4) @ draw(4, 32, seed=1)).float().requires_grad_()
    gate = sv_gate_prefixes(keys, 0.25, 0.25, lengths=(64, 128, 192), solver="paper")
    gate.weights.square().sum().backward()
    assert torch.isfinite(gate.weights).all()
    assert (gate.weights.sum(-1) - 1.0).abs().max() <= 1e-3
    assert torch.isfinite(keys.grad).all()
