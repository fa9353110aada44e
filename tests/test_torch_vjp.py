"""Gradients of the gate against finite differences and against autograd through a linear solve."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

from svmemory.torch import (  # noqa: E402
    StreamingGate,
    sv_attention,
    sv_gate,
    sv_gate_prefixes,
    sv_readout,
    sv_score,
)

TRUE_SOLVERS = ("batched", "exact", "naive")


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def leaf(*numbers):
    value = numbers if len(numbers) > 1 else numbers[0]
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def problem():
    """Two problems with rows in all three sets, and their contract per problem."""
    keys = draw(2, 14, 3, seed=4).requires_grad_()
    gamma, C = leaf(0.3, 0.5), leaf(0.17, 0.12)
    for codes in sv_gate(keys, gamma, C).codes:
        assert {0, 1, 2} == set(codes.tolist()), "the test needs all three sets"
    return keys, gamma, C


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_weights_and_offset(solver):
    def function(keys, gamma, C):
        return sv_gate(keys, gamma, C, solver=solver)[:2]

    assert gradcheck(function, problem())


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_score(solver):
    points = draw(2, 5, 3, seed=1).requires_grad_()

    def function(points, keys, gamma, C):
        gate = sv_gate(keys, gamma, C, solver=solver)
        return sv_score(points, keys, gate, gamma)

    assert gradcheck(function, (points, *problem()))


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_readout(solver):
    queries, values = (draw(2, m, 3, seed=m).requires_grad_() for m in (4, 14))

    def function(queries, values, keys, gamma, C):
        return sv_attention(queries, keys, values, gamma=gamma, C=C, solver=solver)

    assert gradcheck(function, (queries, values, *problem()))


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_prefixes_with_a_mask(solver):
    mask = torch.rand(2, 14, generator=torch.Generator().manual_seed(3)) < 0.8

    def function(keys, gamma, C):
        lengths = (2, 9, 14)
        return sv_gate_prefixes(keys, gamma, C, mask=mask, lengths=lengths, solver=solver)[:2]

    assert gradcheck(function, problem())


def test_fast_gradients_equal_those_through_a_linear_solve():
    keys, values, queries = draw(3, 90, 5), draw(3, 90, 4, seed=1), draw(3, 8, 5, seed=2)
    found = {}
    for solver in TRUE_SOLVERS:
        inputs = keys.clone().requires_grad_(), leaf(0.2), leaf(0.07)
        gate = sv_gate_prefixes(*inputs, lengths=(40, 90), solver=solver)
        read = [
            sv_readout(
                queries, inputs[0], values, type(gate)(*(x[:, i] for x in gate)), inputs[1]
            ).square()
            for i in range(2)
        ]
        loss = sum(x.mean() for x in read) + gate.offset.square().sum()
        found[solver] = torch.autograd.grad(loss, inputs)
    for solver in ("batched", "exact"):
        for x, y in zip(found[solver], found["naive"], strict=True):
            assert (x - y).abs().max() <= 1e-10 * y.abs().max()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_lower_precision_gets_the_same_gradient_in_its_own_type(kind):
    keys = draw(2, 60, 4).to(kind)
    weight = draw(2, 60, seed=1)
    grads = []
    for x in (keys, keys.double()):
        x = x.clone().requires_grad_()
        gate = sv_gate(x, 0.2, 0.1)
        (gate.weights * weight.to(gate.weights.dtype)).sum().backward()
        grads.append(x.grad)
    assert grads[0].dtype == kind
    largest = grads[1].abs().max()
    tolerance = 1e-5 if kind == torch.float32 else 2.0**-8
    assert (grads[0].double() - grads[1]).abs().max() <= tolerance * largest


def assert_constant(weights, inputs):
    if weights.requires_grad:
        loss = (weights * draw(*weights.shape)).sum()
        for grad in torch.autograd.grad(loss, inputs, allow_unused=True):
            assert grad is None or (grad == 0).all()


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_warm_up_has_constant_weights_and_an_offset_that_moves(solver):
    keys, gamma, C = draw(4, 3).requires_grad_(), leaf(0.3), leaf(0.2)

    def offset(keys, gamma, C):
        return sv_gate(keys, gamma, C, solver=solver).offset

    weights = sv_gate(keys, gamma, C, solver=solver).weights
    assert_constant(weights, (keys, gamma, C))
    assert gradcheck(offset, (keys, gamma, C))


@pytest.mark.parametrize("solver", TRUE_SOLVERS)
def test_with_an_empty_margin_the_offset_follows_one_row(solver):
    keys = torch.tensor([[-1.0], [1.1], [0.1]], dtype=torch.float64, requires_grad=True)
    gamma = leaf(0.1)

    def both(keys, gamma):
        gate = sv_gate(keys, gamma, 0.5, solver=solver)
        assert gate.codes.tolist() == [2, 2, 0]
        return gate[:2]

    assert_constant(both(keys, gamma)[0], (keys, gamma))
    # both error rows have the same h; either row's derivative is the same here
    assert gradcheck(both, (keys, gamma))


def test_rows_that_do_not_count_get_no_gradient():
    keys = draw(2, 30, 3).requires_grad_()
    mask = torch.rand(2, 30, generator=torch.Generator().manual_seed(3)) < 0.8
    gate = sv_gate(keys, 0.3, 0.2, mask=mask)
    (gate.weights.square().sum() + gate.offset.sum()).backward()
    assert (gate.codes == 0).any()
    assert (keys.grad[gate.codes <= 0] == 0).all()
    assert (keys.grad[gate.codes == 1] != 0).any()


def test_a_problem_without_an_answer_does_not_touch_the_others():
    keys = draw(2, 20, 2)
    clean = keys.clone().requires_grad_()
    sv_gate(clean, 0.5, 0.2).weights.square()[0].sum().backward()
    keys[1, 4] = torch.nan
    keys.requires_grad_()
    gate = sv_gate(keys, 0.5, 0.2)
    gate.weights.square().nansum().backward()
    assert torch.equal(keys.grad[0], clean.grad[0])
    assert torch.isfinite(keys.grad).all()


def test_second_derivatives():
    keys, gamma, C = problem()
    weight = draw(2, 14, seed=7)

    def function(keys, gamma, C, solver="naive"):
        return (sv_gate(keys, gamma, C, solver=solver).weights * weight).sum()

    assert gradgradcheck(function, (keys, gamma, C))
    for solver in ("batched", "exact"):
        (grad,) = torch.autograd.grad(
            function(keys, gamma, C, solver), keys, create_graph=True
        )  # allowed: the first derivative, kept on the graph
        with pytest.raises(RuntimeError, match=r"no second derivatives .* solver='naive'"):
            torch.autograd.grad(grad.sum(), keys)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        gradgradcheck(lambda *x: function(*x, solver="batched"), (keys, gamma, C))


def test_the_graph_can_be_walked_twice():
    keys, gamma, C = problem()
    loss = sv_gate(keys, gamma, C).weights.square().sum()
    first = torch.autograd.grad(loss, (keys, gamma, C), retain_graph=True)
    second = torch.autograd.grad(loss, (keys, gamma, C))
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize("needed", range(3))
def test_one_input_that_needs_a_gradient(needed):
    given = problem()
    expected = torch.autograd.grad(sv_gate(*given).weights.square().sum(), given)[needed]
    inputs = [x.detach().requires_grad_(i == needed) for i, x in enumerate(given)]
    sv_gate(*inputs).weights.square().sum().backward()
    assert torch.equal(inputs[needed].grad, expected)


def test_a_stream_has_the_gradient_of_the_whole():
    keys = draw(30, 3)
    parts = [x.clone().requires_grad_() for x in keys.split(10)]
    gamma, C = leaf(0.4), leaf(0.1)
    stream = StreamingGate(gamma, C)
    gates = [stream.add(part) for part in parts]
    sum(gate.weights.square().sum() for gate in gates).backward()
    whole = keys.clone().requires_grad_()
    other = leaf(0.4), leaf(0.1)
    gate = sv_gate_prefixes(whole, *other, lengths=(10, 20, 30), solver="naive")
    gate.weights.square().sum().backward()
    pairs = [(torch.cat([p.grad for p in parts]), whole.grad)]
    pairs += [(gamma.grad, other[0].grad), (C.grad, other[1].grad)]
    for x, y in pairs:
        assert (x - y).abs().max() <= 1e-10 * y.abs().max()


def test_a_student_fits_a_teacher():
    queries, keys, values = draw(64, 4, seed=1), draw(40, 4, seed=2), draw(40, 3, seed=3)
    target = sv_attention(queries, keys, values, gamma=0.5, C=0.1)
    student = (keys + 0.5 * draw(40, 4, seed=4)).requires_grad_()
    log_gamma = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([student, log_gamma], lr=0.03)
    losses = []
    for _ in range(200):
        read = sv_attention(queries, student, values, gamma=log_gamma.exp(), C=0.1)
        loss = (read - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] <= 0.01 * losses[0]
