"""The gated layers against their definition, solved by other means."""

from __future__ import annotations

import copy
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory import Contract, ContractError, InputError, SupportVectorMemory, reference  # noqa: E402
from svmemory.torch.cache import HybridCache, ModelCache  # noqa: E402
from svmemory.torch.language.model import ByteLM, ModelConfig  # noqa: E402
from svmemory.torch.layers import HybridSVAttention, SVAttention  # noqa: E402
from svmemory.torch.prefix import CHOICES, carrying, prefix_rows  # noqa: E402
from svmemory.torch.registry import LAYERS, LayerOptions, build_layer  # noqa: E402

FORMS = ("dot", "gaussian", "mix")
CHUNK = 6
T = 21  # three chunks and a half
EXTRAS = ({"with_values": True}, {"fade": True}, {"with_values": True, "fade": True})


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def hybrid(form="dot", seed=0, **options):
    torch.manual_seed(seed)
    layer = HybridSVAttention(8, 2, chunk=CHUNK, readout=form, **options).double()
    with torch.no_grad():
        layer.gamma.log_ratio.copy_(torch.tensor([0.3, -0.2]))  # heads that differ
        if form == "mix":
            layer.readout.share_logit.copy_(torch.tensor([0.5, -1.0]))
        if layer.fade is not None:
            layer.fade.power.copy_(torch.tensor([0.7, -0.3]))
    return layer


def by_hand(layer, x):
    """The layer's definition, one query at a time, with the gate of the reference solver."""
    q, k, v = (y.detach().numpy() for y in layer.queries_keys_values(x))
    gammas = layer.gamma().tolist()
    shares = {"dot": [0.0, 0.0], "gaussian": [1.0, 1.0]}.get(layer.readout.form)
    if shares is None:
        shares = layer.readout.share_logit.sigmoid().tolist()
    out = np.zeros_like(q)
    for b, h, t in np.ndindex(*q.shape[:3]):
        start = t // layer.chunk * layer.chunk
        a = np.ones(t + 1)
        if start:
            contract = Contract.from_cap(gammas[h], layer.C.start, layer.ridge)
            rows = k[b, h, :start]
            if layer.with_values:
                rows = np.concatenate([rows, v[b, h, :start]], axis=1)
            a[:start] = reference.from_keys(rows, contract).weights
            if layer.fade is not None:
                a[:start] *= np.arange(start, 0.0, -1.0) ** -layer.fade.power[h].item()
        keys = k[b, h, : t + 1]
        dot = keys @ q[b, h, t] / math.sqrt(layer.head_dim)
        distance = np.square(keys - q[b, h, t]).sum(axis=1)
        # |q|^2 is the same for all keys of a query and drops out of a softmax
        gaussian = -gammas[h] * (distance - np.square(q[b, h, t]).sum())
        share = a * np.exp((1 - shares[h]) * dot + shares[h] * gaussian)
        out[b, h, t] = share @ v[b, h, : t + 1] / share.sum()
    return torch.from_numpy(out).transpose(1, 2).reshape(x.shape) @ layer.to_out.weight.T


@pytest.mark.parametrize("form", FORMS)
def test_hybrid_is_its_definition(form):
    layer, x = hybrid(form, C=0.3), 3.0 * draw(2, T, 8)
    torch.testing.assert_close(layer(x), by_hand(layer, x), atol=1e-9, rtol=1e-9)
    assert 1.0 < layer.gate_facts().support < 12.0  # some rows are in reserve, or this shows little


def test_many_chunks_are_their_definition():
    layer, x = hybrid("mix", C=0.3, fade=True), 3.0 * draw(1, T, 8)
    layer.chunk = 2  # eleven chunks, the last cut short
    torch.testing.assert_close(layer(x), by_hand(layer, x), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_of_the_hybrid_are_their_definition(extra):
    layer, x = hybrid("mix", C=0.3, **extra), 3.0 * draw(2, T, 8)
    torch.testing.assert_close(layer(x), by_hand(layer, x), atol=1e-9, rtol=1e-9)
    assert (layer(x) - hybrid("mix", C=0.3)(x)).abs().amax() > 1e-3


def test_first_chunk_is_plain_causal_softmax():
    layer, x = hybrid(), draw(1, CHUNK, 8)
    q, k, v = layer.queries_keys_values(x)
    read = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(layer(x), layer.merged(read))
    assert layer.gate_facts() is None


def test_warmup_is_one_nth():
    x = draw(2, T, 8)
    warm = hybrid(C=0.01)  # 100 rows would be needed
    torch.testing.assert_close(warm(x), hybrid(gate="uniform")(x), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("extra", EXTRAS)
def test_no_position_sees_later_ones_whatever_a_row_is(extra):
    layer, x = hybrid(**extra), draw(1, T, 8)
    changed = x.clone()
    changed[:, 14:] += 1.0
    torch.testing.assert_close(layer(x)[:, :14], layer(changed)[:, :14], atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gate", CHOICES)
def test_no_position_sees_later_ones(gate, form):
    layer, x = hybrid(form, gate=gate), draw(1, T, 8)
    changed = x.clone()
    changed[:, 14:] += 1.0
    outs = []
    for y in (x, changed):
        torch.manual_seed(5)
        outs.append(layer(y))
    torch.testing.assert_close(outs[0][:, :14], outs[1][:, :14], atol=1e-11, rtol=1e-11)
    assert (outs[0][:, 14:] - outs[1][:, 14:]).abs().amax() > 1e-3


def margins_are_clear(layer, x):
    """Whether a step of gradcheck leaves all sets as they are."""
    _, k, v = layer.queries_keys_values(x)
    rows = torch.cat([k, v], dim=-1) if layer.with_values else k
    for h, contract in enumerate(layer.contracts()):
        for end in layer.boundaries(x.shape[1]):
            solution = reference.from_keys(rows[0, h, :end].detach().numpy(), contract)
            free = solution.weights[[c == "S" for c in solution.labels]]
            if min(free.min(), (contract.C - free).min()) < 1e-4:
                return False
    return True


@pytest.mark.parametrize(
    ("form", "extra"), [*((form, {}) for form in FORMS), *(("dot", extra) for extra in EXTRAS)]
)
def test_gradcheck_of_the_hybrid_layer(form, extra):
    layer = hybrid(form, C=0.3, learn_cap=True, **extra)
    x = (2.0 * draw(1, 15, 8, seed=2)).requires_grad_()
    assert margins_are_clear(layer, x)
    names = [n for n, _ in layer.named_parameters()]

    def run(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    inputs = (x, *(p.detach().clone().requires_grad_() for p in layer.parameters()))
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def test_gradcheck_of_the_memory_layer():
    torch.manual_seed(0)
    layer = SVAttention(4, 1, C=0.3).double()
    context = (2.0 * draw(1, 9, 4, seed=3)).requires_grad_()
    x = draw(1, 3, 4, seed=4).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x, context), fast_mode=True)


def test_memory_layer_reads_what_a_memory_reads():
    layer = SVAttention(6, 2, gamma=0.5).double()
    x, context = draw(1, 5, 6), 2.0 * draw(1, 30, 6, seed=1)
    q, k, v = layer._project(x, context)
    heads = []
    for h, contract in enumerate(layer.contracts()):
        memory = SupportVectorMemory.from_contract(contract)
        memory.add(k[0, h].detach().numpy(), v[0, h].detach().numpy())
        heads.append(torch.from_numpy(memory.read(q[0, h].detach().numpy())))
    expected = layer.merged(torch.stack(heads)[None])
    torch.testing.assert_close(layer(x, context), expected, atol=1e-9, rtol=1e-9)


def test_memory_layer_ignores_what_the_mask_leaves_out():
    layer = SVAttention(6, 2).double()
    x, context = draw(2, 4, 6), draw(2, 9, 6, seed=1)
    mask = torch.tensor([[True] * 5 + [False] * 4, [False] * 9])
    context[~mask] = torch.nan
    out = layer(x, context, mask)
    torch.testing.assert_close(out[:1], layer(x[:1], context[:1, :5]))
    assert (out[1] == 0).all()


def test_memory_layer_needs_a_context_that_fits():
    with pytest.raises(InputError, match="context must have shape"):
        SVAttention(6, 2)(torch.zeros(2, 3, 6), torch.zeros(1, 3, 6))


@pytest.mark.parametrize("seed", range(3))
def test_student_fits_teacher(seed):
    torch.manual_seed(seed)
    teacher, student = SVAttention(16, 2, C=0.2), SVAttention(16, 2, C=0.2)
    context, x = torch.randn(4, 24, 16), torch.randn(4, 8, 16)
    target = teacher(x, context).detach()
    optimizer = torch.optim.Adam(student.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    losses = []
    for _ in range(200):
        loss = (student(x, context) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[-1] <= 0.01 * losses[0]


# -- the controls ----------------------------------------------------------------------------------


def chosen(choice, k=None, C=0.3):
    k = 2.0 * draw(2, 2, 18, 4) if k is None else k
    torch.manual_seed(1)
    gamma = torch.tensor([0.2, 0.3], dtype=torch.float64)
    caps = torch.full((2,), C, dtype=torch.float64)
    return prefix_rows(k, gamma, caps, 1e-3, [6, 12, 18], choice, "batched")


def test_gate_rows_are_the_support_in_order():
    rows = chosen("sv")
    for b, h, j in np.ndindex(*rows.rows.shape[:3]):
        real = rows.real[b, h, j]
        weights = rows.gate.weights[b, h, j]
        expected = torch.nonzero(weights > 0)[:, 0]
        assert rows.rows[b, h, j][real].tolist() == expected.tolist()
        torch.testing.assert_close(rows.weights[b, h, j][real], weights[expected])


@pytest.mark.parametrize("choice", ["support", "random", "recent"])
def test_controls_read_as_many_rows_as_the_gate_at_equal_weights(choice):
    gate, control = chosen("sv"), chosen(choice)
    assert torch.equal(control.sizes, gate.sizes)
    assert len(gate.sizes.unique()) > 1
    for b, h, j in np.ndindex(*control.rows.shape[:3]):
        real, size = control.real[b, h, j], int(gate.sizes[b, h, j])
        rows = control.rows[b, h, j][real].tolist()
        end = 6 * (j + 1)
        assert len(set(rows)) == size
        assert max(rows) < end
        if choice == "recent":
            assert sorted(rows) == list(range(end - size, end))
        if choice == "support":
            assert rows == gate.rows[b, h, j][gate.real[b, h, j]].tolist()
        weights = control.weights[b, h, j]
        torch.testing.assert_close(weights[real], torch.full_like(weights[real], 1.0 / size))


def test_random_rows_differ_from_draw_to_draw():
    k = 2.0 * draw(2, 2, 18, 4)
    first = chosen("random", k)
    torch.manual_seed(2)
    gamma, caps = torch.tensor([0.2, 0.3]), torch.tensor([0.3, 0.3])
    second = prefix_rows(k, gamma, caps, 1e-3, [6, 12, 18], "random", "batched")
    assert not torch.equal(first.rows, second.rows)


def test_uniform_reads_everything_at_one_nth():
    rows = chosen("uniform")
    assert rows.gate is None
    assert rows.sizes[0, 0].tolist() == [6, 12, 18]
    for j, end in enumerate((6, 12, 18)):
        assert rows.weights[1, 1, j, :end].tolist() == [1.0 / end] * end


@pytest.mark.parametrize("gate", CHOICES)
def test_only_the_gate_itself_passes_gradient_through_the_gate(gate):
    layer, x = hybrid(gate=gate), 3.0 * draw(1, T, 8)
    if gate != "sv":
        assert not isinstance(layer.gamma.log_ratio, torch.nn.Parameter)
    layer(x.requires_grad_()).square().sum().backward()
    gradient = layer.gate_facts().gradient
    assert gradient > 0 if gate == "sv" else gradient == 0


def test_detached_gate_reads_like_the_gate():
    x = 3.0 * draw(2, T, 8)
    torch.testing.assert_close(hybrid(gate="detached")(x), hybrid()(x), atol=0, rtol=0)


def test_a_weight_that_rounds_to_zero_is_not_read():
    """float32 has no room below 1e-45; such a row used to make the gradient not a number."""
    gate = chosen("sv").gate
    weights, codes = torch.zeros(1, 1, 1, 4), torch.tensor([[[[1, 1, 2, 0]]]], dtype=torch.int8)
    weights[..., 0], weights[..., 2] = 0.4, 0.6
    tiny = gate._replace(weights=weights, codes=codes)
    assert carrying(tiny).tolist() == [[[[True, False, True, False]]]]


# -- contract, options, copies ---------------------------------------------------------------------


def test_learned_numbers_stay_within_bounds():
    layer = HybridSVAttention(8, 2, gamma=0.5, C=0.5, learn_cap=True)
    with torch.no_grad():
        layer.gamma.log_ratio.copy_(torch.tensor([100.0, -100.0]))
        layer.C.log_ratio.copy_(torch.tensor([100.0, -100.0]))
    assert [c.gamma for c in layer.contracts()] == pytest.approx([8.0, 0.03125])
    assert [c.C for c in layer.contracts()] == pytest.approx([1.0, 0.125])  # never above 1
    layer(torch.randn(1, 130, 8)).sum().backward()
    assert torch.isfinite(layer.gamma.log_ratio.grad).all()


def test_gate_facts_count_problems_that_are_not_solved():
    layer, x = hybrid(), draw(2, T, 8)
    x[0, 3] = torch.nan
    out = layer(x)
    assert layer.gate_facts().unconverged == 2 * 3  # two heads, three boundaries
    assert torch.isfinite(out[1]).all()
    assert torch.isnan(out[0, CHUNK:]).all()


def test_dropout_acts_in_training_only():
    layer, x = hybrid(dropout=0.5), draw(1, T, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    torch.testing.assert_close(layer(x), hybrid()(x))


@pytest.mark.parametrize("second", [False, True])
def test_layers_can_be_copied_and_stored_after_a_step(second):
    solver = "naive" if second else "batched"
    layer, x = hybrid(solver=solver), draw(1, T, 8).requires_grad_()
    torch.autograd.grad(layer(x).sum(), x, create_graph=second)
    twin = copy.deepcopy(layer)
    fresh = hybrid(seed=1, solver=solver)
    fresh.load_state_dict(layer.state_dict())
    assert torch.equal(twin(x), layer(x))
    assert torch.equal(fresh(x), layer(x))


@pytest.mark.parametrize("name", LAYERS)
def test_every_named_layer_fits_the_same_place(name):
    torch.manual_seed(0)
    layer = build_layer(name, 16, 2, LayerOptions(chunk=8, window=8))
    assert layer(torch.randn(2, 20, 16)).shape == (2, 20, 16)


def test_unusable_options_are_refused():
    with pytest.raises(ContractError, match="C must be"):
        HybridSVAttention(8, 2, C=0.0)
    with pytest.raises(ContractError, match="gamma"):
        SVAttention(8, 2, gamma=-1.0)
    with pytest.raises(InputError, match="chunk"):
        HybridSVAttention(8, 2, chunk=0)
    with pytest.raises(InputError, match="gate must be"):
        HybridSVAttention(8, 2, gate="nothing")
    with pytest.raises(InputError, match="readout must be"):
        HybridSVAttention(8, 2, readout="nothing")
    with pytest.raises(InputError, match="attention must be"):
        build_layer("nothing", 8, 2, LayerOptions())


# -- generation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "extra"), [*((form, {}) for form in FORMS), *(("mix", extra) for extra in EXTRAS)]
)
def test_steps_with_a_cache_give_the_full_pass(form, extra):
    layer, x = hybrid(form, **extra).eval(), draw(2, T, 8)
    cache = HybridCache(layer, batch=2)
    pieces = [x[:, :1], x[:, 1:4], x[:, 4:17], *x[:, 17:].split(1, dim=1)]
    out = torch.cat([cache.extend(piece) for piece in pieces], dim=1)
    torch.testing.assert_close(out, layer(x), atol=1e-9, rtol=1e-9)
    assert cache.length == T
    assert cache.rows_read < T


def test_cached_memories_are_those_of_a_fresh_solve(tmp_path):
    layer, x = hybrid(), 3.0 * draw(2, 40, 8)
    cache = HybridCache(layer, batch=2, cold=tmp_path)
    for piece in x.split(3, dim=1):
        cache.extend(piece)
    _, k, _ = layer.queries_keys_values(x)
    for b, heads in enumerate(cache.memories):
        for h, memory in enumerate(heads):
            np.testing.assert_allclose(memory.keys, k[b, h, :36].detach().numpy(), atol=1e-12)
            fresh = SupportVectorMemory.from_contract(layer.contracts()[h])
            backwards = list(reversed(range(36)))
            fresh.add(memory.keys[backwards], memory.values[backwards], ids=backwards)
            assert memory.digest() == fresh.digest()
            assert memory.stats.refits == 0


def test_cached_rows_of_a_gate_that_compares_values_have_both():
    layer, x = hybrid(with_values=True), 3.0 * draw(1, 2 * CHUNK + 1, 8)
    cache = HybridCache(layer)
    cache.extend(x)
    _, k, v = (y[0, 1, : 2 * CHUNK].detach().numpy() for y in layer.queries_keys_values(x))
    memory = cache.memories[0][1]
    np.testing.assert_allclose(memory.keys, np.concatenate([k, v], axis=1), atol=1e-12)
    np.testing.assert_allclose(memory.values, v, atol=1e-12)


@pytest.mark.parametrize("name", ["a visitor", "99", str(CHUNK)])
def test_a_row_without_a_position_cannot_fade(name):
    cache = HybridCache(hybrid(fade=True))
    cache.extend(draw(1, CHUNK + 1, 8))
    cache.memories[0][0].add(3.0 + np.eye(4)[:1], np.ones((1, 4)), ids=[name])
    with pytest.raises(InputError, match=f"'{name}' has no age"):
        cache.extend(draw(1, 1, 8))
    assert cache.length == CHUNK + 1


def test_fading_knows_ages_beyond_a_short_type():
    layer = hybrid(fade=True).half()
    found = layer.fade(torch.tensor([[[1, 70_000]]]))
    torch.testing.assert_close(found[0, 0, 1], torch.tensor(-0.7 * math.log(70_000)).half())


@pytest.mark.parametrize("option", ["with_values", "fade", "learn_gamma", "learn_cap"])
@pytest.mark.parametrize("value", ["no", 1, 0.5, np.zeros(2), None])
def test_switches_are_true_or_false(option, value):
    with pytest.raises(InputError, match=f"{option} must be True or False"):
        HybridSVAttention(8, 2, **{option: value})


@pytest.mark.parametrize("fade", [False, True])
def test_an_interrupted_step_leaves_every_id_its_position(monkeypatch, fade):
    layer, x = hybrid(fade=fade).eval(), draw(1, 3 * CHUNK, 8)
    cache = HybridCache(layer)
    cache.extend(x[:, : 2 * CHUNK])
    last = cache.memories[0][1]

    def fail(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(last, "add", fail)
        with pytest.raises(KeyboardInterrupt):
            cache.extend(x[:, 2 * CHUNK : 2 * CHUNK + 1])
    read = cache.extend(x[:, 2 * CHUNK :])
    torch.testing.assert_close(read, layer(x)[:, 2 * CHUNK :], atol=1e-9, rtol=1e-9)
    keys = layer.queries_keys_values(x)[1]
    for h, memory in enumerate(cache.memories[0]):
        assert memory.ids == [str(i) for i in range(2 * CHUNK)]
        np.testing.assert_allclose(memory.keys, keys[0, h, : 2 * CHUNK].detach(), atol=1e-12)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("start", [0, 4, 2 * CHUNK + 1])
def test_a_copied_cache_goes_on_by_itself(way, start):
    layer, x = hybrid(fade=True).eval(), draw(1, T, 8)
    cache = HybridCache(layer)
    cache.extend(x[:, :start])
    twin = way(cache)
    other = torch.cat([x[:, :start], draw(1, T - start, 8, seed=7)], dim=1)
    for one, rows in ((cache, x), (twin, other)):
        read = one.extend(rows[:, start:])
        torch.testing.assert_close(read, layer(rows)[:, start:], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_has_nothing_that_was_forgotten(way):
    layer, x = hybrid().eval(), draw(1, CHUNK + 2, 8)
    cache = HybridCache(layer)
    cache.extend(x[:, :-1])
    for memory in cache.memories[0]:
        memory.forget(memory.ids)
    twin = way(cache)
    assert twin._far_k.numel() == twin._far_v.numel() == 0
    # position 7 reads positions 6 and 7 alone
    torch.testing.assert_close(twin.extend(x[:, -1:]), layer(x[:, CHUNK:])[:, -1:])


def test_a_row_with_the_id_of_a_position_to_come_is_named():
    layer, x = hybrid().eval(), draw(1, 2 * CHUNK + 1, 8)
    cache = HybridCache(layer)
    cache.extend(x[:, : CHUNK + 1])
    visited = cache.memories[0][1]
    visited.add(3.0 + np.eye(4)[:1], np.ones((1, 4)), ids=[str(CHUNK + 3)])
    with pytest.raises(InputError, match=f"head 1: a row has the id '{CHUNK + 3}'"):
        cache.extend(x[:, CHUNK + 1 :])
    assert cache.length == CHUNK + 1
    for at in range(CHUNK + 1, 2 * CHUNK):
        cache.extend(x[:, at : at + 1])
    for _ in range(2):  # again after the error
        with pytest.raises(InputError, match=f"'{CHUNK + 3}'"):
            cache.extend(x[:, -1:])
        assert (cache.length, len(cache.memories[0][0])) == (2 * CHUNK, CHUNK)
    visited.forget([str(CHUNK + 3)])
    read = cache.extend(x[:, -1:])
    torch.testing.assert_close(read, layer(x)[:, -1:], atol=1e-9, rtol=1e-9)


def test_weights_of_another_form_are_told_apart():
    plain = hybrid()
    for option, named in (
        ({"with_values": True}, "with_values"),
        ({"form": "gaussian"}, "readout"),
    ):
        other = hybrid(**option)
        with pytest.raises(InputError, match=rf"a layer with {named} .* 1, not 0"):
            plain.load_state_dict(other.state_dict())
        before = plain.state_dict()
        before["_extra_state"] = before["_extra_state"][:2]  # as stored without these settings
        other.load_state_dict(before)
    with pytest.raises(RuntimeError, match="fade"):
        plain.load_state_dict(hybrid(fade=True).state_dict())


def test_a_model_generates_with_a_cache_as_without():
    torch.manual_seed(0)
    options = LayerOptions(chunk=8)
    config = ModelConfig(16, 2, 2, block=32, options=options)
    model = ByteLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5.0)  # the start is too small for the bytes to matter
    cache = ModelCache(model)
    tokens = torch.tensor([list(b"support")])
    logits = cache.extend(tokens)
    for _ in range(20):
        torch.testing.assert_close(logits[:, -1], model(tokens)[:, -1], atol=1e-8, rtol=1e-8)
        best = logits[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, best], dim=1)
        logits = cache.extend(best)
    with pytest.raises(InputError, match="32 positions"):
        cache.extend(torch.zeros(1, 9, dtype=torch.long))


def test_what_has_no_gate_has_no_cache():
    with pytest.raises(InputError, match="control"):
        HybridCache(hybrid(gate="uniform"))
    with pytest.raises(InputError, match="no cache"):
        ModelCache(ByteLM(ModelConfig(8, 1, 1, block=8, attention="softmax")))


# -- documentation ---------------------------------------------------------------------------------


def test_examples_of_the_documentation(capsys):
    page = (Path(__file__).resolve().parents[1] / "docs" / "layer.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 2
    torch.manual_seed(0)
    for example in examples:  # each on its own
        exec(example, {})
    promised = re.findall(r"print\(.*\)  # (.*)", "".join(examples))
    assert capsys.readouterr().out.splitlines() == promised
