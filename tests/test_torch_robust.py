"""The gate, the layers and the cache on input that is broken, extreme or of the wrong kind."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory import ContractError, InputError, SupportVectorMemory  # noqa: E402
from svmemory.torch import (  # noqa: E402
    HybridCache,
    HybridSVAttention,
    ModelCache,
    StreamingGate,
    SVAttention,
    sv_attention,
    sv_gate,
    sv_gate_prefixes,
    sv_readout,
    sv_score,
)
from svmemory.torch.language.model import ByteLM, ModelConfig  # noqa: E402
from svmemory.torch.registry import LayerOptions  # noqa: E402

FORMS = ("dot", "gaussian", "mix")
CHUNK = 6


def draw(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def hybrid(form="dot", **options):
    torch.manual_seed(0)
    return HybridSVAttention(8, 2, chunk=CHUNK, readout=form, **options).double()


# -- forgetting during generation ------------------------------------------------------------------


def filled(batch=1, positions=3 * CHUNK + 2):
    layer = hybrid().eval()
    cache = HybridCache(layer, batch)
    x = 3.0 * draw(batch, positions + 1, 8)
    cache.extend(x[:, :-1])
    return layer, cache, x


def by_memory(layer, cache, x, b=0):
    """The last position of x from what the memories hold now, and from its own chunk."""
    q, k, v = (y.detach().numpy() for y in layer.queries_keys_values(x))
    start = (x.shape[1] - 1) // CHUNK * CHUNK
    heads = []
    for h, memory in enumerate(cache.memories[b]):
        keys, values = k[b, h, start:], v[b, h, start:]
        if len(memory):
            keys = np.concatenate([memory.keys, keys])
            values = np.concatenate([memory.values, values])
        weights = np.concatenate([memory.weights, np.ones(x.shape[1] - start)])
        share = weights * np.exp(keys @ q[b, h, -1] / 2.0)
        heads.append(share @ values / share.sum())
    return torch.from_numpy(np.concatenate(heads)) @ layer.to_out.weight.T


@pytest.mark.parametrize("what", ["one", "all", "one for another"])
def test_what_is_forgotten_is_not_read_from_the_next_step_on(what):
    layer, cache, x = filled()
    memory = cache.memories[0][0]
    heaviest = memory.ids[int(np.argmax(memory.weights))]
    memory.forget(memory.ids if what == "all" else heaviest)
    if what == "one for another":  # as many rows as before
        memory.add(draw(1, 4).numpy(), draw(1, 4, seed=1).numpy())
    assert cache.length == x.shape[1] - 1
    read = cache.extend(x[:, -1:])
    torch.testing.assert_close(read[0, 0], by_memory(layer, cache, x), atol=1e-9, rtol=1e-9)
    assert cache.length == x.shape[1]


def test_a_memory_that_has_not_changed_is_not_read_again():
    _, cache, x = filled()
    cache.extend(x[:, -1:])
    before = cache._far_k
    cache.extend(x[:, -1:])
    assert cache._far_k is before


def test_positions_of_a_model_go_on_after_forgetting():
    torch.manual_seed(0)
    model = ByteLM(ModelConfig(16, 1, 2, block=32, options=LayerOptions(chunk=8))).double().eval()
    with torch.no_grad():
        model.position.mul_(50.0)
    cache = ModelCache(model)
    tokens = torch.arange(20)[None]
    cache.extend(tokens[:, :19])
    for memory in cache.layers[0].memories[0]:
        memory.forget([str(i) for i in range(16)])
    logits = cache.extend(tokens[:, 19:])
    # nothing of the two chunks is left, so the last chunk alone, at its own positions, gives this
    x = model.embedding(tokens[:, 16:]) + model.position[16:20]
    for block in model.blocks:
        x = block(x)
    torch.testing.assert_close(logits[:, -1], model.logits(x)[:, -1])


def test_a_cache_refuses_what_is_not_finite_and_goes_on():
    layer, cache, x = filled(batch=2, positions=2 * CHUNK)
    bad = x[:, -1:].clone()
    bad[1] = torch.nan
    digests = [m.digest() for heads in cache.memories for m in heads]
    with pytest.raises(InputError, match="not finite"):
        cache.extend(bad)
    assert digests == [m.digest() for heads in cache.memories for m in heads]
    assert cache.length == 2 * CHUNK
    torch.testing.assert_close(cache.extend(x[:, -1:])[:, 0], layer(x)[:, -1])


def test_a_chunk_enters_all_memories_or_none(monkeypatch):
    layer, cache, x = filled(batch=2, positions=2 * CHUNK)

    def fails(*_, **__):
        raise RuntimeError("no room")

    monkeypatch.setattr(cache.memories[1][1], "add", fails)
    with pytest.raises(RuntimeError, match="no room"):
        cache.extend(x[:, -1:])
    monkeypatch.undo()
    torch.testing.assert_close(cache.extend(x[:, -1:])[:, 0], layer(x)[:, -1])


def test_a_cache_needs_sequences_and_a_hybrid_layer():
    for batch in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="batch"):
            HybridCache(hybrid(), batch)
    with pytest.raises(InputError, match="not SVAttention"):
        HybridCache(SVAttention(8, 2))


# -- broken and extreme positions ------------------------------------------------------------------


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", [2, CHUNK, 2 * CHUNK + 3, 4 * CHUNK])
def test_a_broken_position_reaches_no_earlier_one(form, bad, where):
    layer, x = hybrid(form), draw(2, 4 * CHUNK + 3, 8)
    broken = x.clone()
    broken[1, where, 3] = bad
    whole, out = layer(x), layer(broken)
    # as many rows are gathered as the widest chunk reads, and sums round by how many there are
    torch.testing.assert_close(out[0], whole[0], atol=1e-14, rtol=1e-13)
    torch.testing.assert_close(out[1, :where], whole[1, :where], atol=1e-14, rtol=1e-13)
    assert not torch.isfinite(out[1, where:]).any()


@pytest.mark.parametrize("form", FORMS)
def test_a_broken_position_changes_no_bit_before_it(form):
    layer, x = hybrid(form, C=0.01), draw(1, 4 * CHUNK, 8)  # warm-up: every chunk reads all rows
    for where in (2, CHUNK - 1, 3 * CHUNK + 1):
        broken = x.clone()
        broken[:, where] = torch.nan
        assert torch.equal(layer(broken)[:, :where], layer(x)[:, :where])


def test_a_broken_value_reaches_those_that_read_it():
    layer, x = hybrid(gamma=0.02, C=0.5), draw(1, 3 * CHUNK, 8)
    q, k, v = (y.detach() for y in layer.queries_keys_values(x))
    whole, chosen = layer.read(q, k, v)
    codes = chosen.gate.codes[0, 0, 1, : 2 * CHUNK]
    spared = int((codes == 0).nonzero()[0])  # in reserve before the last chunk
    v[0, 0, spared] = torch.inf
    read, _ = layer.read(q, k, v)
    assert torch.equal(read[0, 1], whole[0, 1])
    assert torch.equal(read[0, 0, 2 * CHUNK :], whole[0, 0, 2 * CHUNK :])
    assert not torch.isfinite(read[0, 0, spared : spared // CHUNK * CHUNK + CHUNK]).any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1e16, 1e25, 1e200])
def test_huge_later_positions_change_no_earlier_one(form, scale):
    layer, x = hybrid(form), draw(1, 3 * CHUNK, 8)
    for start in (4, CHUNK, 2 * CHUNK + 2):
        huge = x.clone()
        huge[:, start:] *= scale
        found, expected = layer(huge)[:, :start], layer(x)[:, :start]
        torch.testing.assert_close(found, expected, atol=1e-14, rtol=1e-13)


def test_causality_holds_where_products_are_huge():
    layer = hybrid().float()
    x = 1e16 * draw(1, 3 * CHUNK, 8, dtype=torch.float32)
    out, other = layer(x), layer(torch.cat([x[:, :-1], -x[:, -1:]], dim=1))
    assert torch.equal(out[:, :-1], other[:, :-1])
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("form", FORMS)
def test_float16(form):
    layer, x = hybrid(form), draw(2, 3 * CHUNK + 1, 8)
    exact = layer(x)
    half = layer.half()(x.half())
    assert half.dtype == torch.float16
    assert (half.double() - exact).abs().max() <= 2e-2
    single = hybrid(form).float()
    with torch.autocast("cpu", dtype=torch.float16):
        mixed = single(x.float())
    mixed.float().square().sum().backward()
    assert (mixed.double() - exact).abs().max() <= 2e-2
    assert all(torch.isfinite(p.grad).all() for p in single.parameters())


def test_a_sequence_without_rows_has_finite_gradients():
    layer = SVAttention(8, 2)
    x = draw(2, 4, 8, dtype=torch.float32).requires_grad_()
    context = draw(2, 9, 8, seed=1, dtype=torch.float32)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1] = False
    out = layer(x, context, mask)
    out.square().sum().backward()
    assert (out[1] == 0).all()
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


def test_nothing_in_nothing_out():
    for shape in ((2, 0, 8), (0, 20, 8), (0, 0, 8)):
        x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        out = hybrid()(x)
        assert out.shape == shape
        out.sum().backward()
    model = ByteLM(ModelConfig(16, 1, 2, block=32, options=LayerOptions(chunk=8)))
    for shape in ((2, 0), (0, 20)):
        assert model(torch.zeros(shape, dtype=torch.long)).shape == (*shape, 256)


# -- reading far from the origin -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "scale", "dtype", "room"),
    [
        (1e4, 1.0, torch.float32, 1e-5),
        (1e8, 1.0, torch.float64, 1e-11),
        (0.0, 1e25, torch.float32, 1e-5),
    ],
)
def test_reading_far_from_the_origin_is_a_memorys(offset, scale, dtype, room):
    keys, queries = ((scale * draw(n, 3, seed=n) + offset).to(dtype) for n in (30, 7))
    values = draw(30, 2, seed=1, dtype=dtype)
    gamma = 0.4 / scale**2
    memory = SupportVectorMemory(gamma=gamma, C=0.1, ridge=1e-3)
    memory.add(keys.double().numpy(), values.double().numpy())
    read = sv_attention(queries, keys, values, gamma=gamma, C=0.1)
    assert np.abs(read.double().numpy() - memory.read(queries.double().numpy())).max() <= room
    score = sv_score(queries, keys, sv_gate(keys, gamma, 0.1), gamma)
    assert np.abs(score.double().numpy() - memory.score(queries.double().numpy())).max() <= room


def test_huge_keys_at_an_ordinary_width_read_the_nearest():
    keys = 1e25 * draw(12, 3, dtype=torch.float32)
    values = draw(12, 2, dtype=torch.float32)
    read = sv_attention(keys, keys, values, gamma=0.4, C=0.1)
    torch.testing.assert_close(read, values)


def test_masked_rows_may_hold_anything_in_readout_and_score():
    keys, values, queries = draw(2, 12, 3), draw(2, 12, 2, seed=1), draw(2, 4, 3, seed=2)
    mask = torch.rand(2, 12, generator=torch.Generator().manual_seed(2)) < 0.6
    gate = sv_gate(keys, 0.4, 0.3, mask=mask)
    bad_keys, bad_values = (torch.where(mask[..., None], x, torch.nan) for x in (keys, values))
    read = sv_attention(queries, bad_keys, bad_values, gamma=0.4, C=0.3, mask=mask)
    assert torch.equal(read, sv_readout(queries, keys, values, gate, 0.4))
    score = sv_score(queries, keys, gate, 0.4)
    assert torch.equal(sv_score(queries, bad_keys, gate, 0.4), score)


# -- what cannot be --------------------------------------------------------------------------------


def test_values_that_do_not_fit():
    q, k = draw(2, 4, 3), draw(2, 12, 3)
    for v in (draw(2, 1, 2), draw(12), draw(2, 11, 2), draw(2, 12, 2).long(), [1.0]):
        with pytest.raises(InputError, match=r"^v must "):
            sv_attention(q, k, v, gamma=0.4, C=0.3)
        with pytest.raises(InputError, match=r"^v must "):
            sv_readout(q, k, v, sv_gate(k, 0.4, 0.3), 0.4)


def test_arguments_of_the_gate_that_do_not_fit():
    keys = draw(2, 9, 3)
    for bad in (keys.tolist(), keys.numpy()):
        with pytest.raises(InputError, match="keys must be a torch tensor"):
            sv_gate(bad, 0.4, 0.3)
    for bad in (None, "wide"):
        with pytest.raises(InputError, match="gamma must be a number"):
            sv_gate(keys, bad, 0.3)
        with pytest.raises(InputError, match="C must be a number"):
            sv_gate(keys, 0.4, bad)
    with pytest.raises(InputError, match="mask must be a torch tensor"):
        sv_gate(keys, 0.4, 0.3, mask=[True] * 9)
    with pytest.raises(InputError, match="ridge must be a number"):
        sv_gate(keys, 0.4, 0.3, torch.ones(2))
    with pytest.raises(InputError, match="ridge is fixed"):
        sv_gate(keys, 0.4, 0.3, torch.tensor(1e-3, requires_grad=True))
    as_tensor = sv_gate(keys, 0.4, 0.3, torch.tensor(1e-3, dtype=torch.float64))
    assert torch.equal(as_tensor.weights, sv_gate(keys, 0.4, 0.3, 1e-3).weights)
    for bad in (2.7, True, "3"):
        with pytest.raises(InputError, match="length must be a whole number"):
            sv_gate_prefixes(keys, 0.4, 0.3, lengths=[bad])
    with pytest.raises(InputError, match="meta device"):
        sv_gate(keys.to("meta"), 0.4, 0.3)
    stream = StreamingGate(torch.tensor(0.5), 0.5)
    with pytest.raises(InputError, match="floating point"):
        stream.add(torch.arange(4)[:, None])
    with pytest.raises(InputError, match="keys must be a torch tensor"):
        stream.add([[1.0]])
    with pytest.raises(InputError, match="gamma must be one number"):
        StreamingGate(torch.tensor([0.5, 0.6]), 0.5)


def test_input_of_layers_that_does_not_fit():
    layer, memory = hybrid(), SVAttention(8, 2)
    for bad in (torch.zeros(5, 8), torch.zeros(1, 5, 7), torch.zeros(1, 5, 8).long(), [[0.0]]):
        with pytest.raises(InputError, match=r"^x must"):
            layer(bad)
        with pytest.raises(InputError, match=r"^x must"):
            memory(bad, torch.zeros(1, 3, 8))
    x = torch.zeros(2, 5, 8)
    for mask in (torch.ones(2, 4) > 0, torch.ones(5) > 0, torch.ones(2, 5), [True]):
        with pytest.raises(InputError, match="mask must be a boolean tensor of shape"):
            memory(x, mask=mask)
    with pytest.raises(InputError, match="meta device"):
        HybridSVAttention(8, 2, chunk=4).to("meta")(torch.zeros(1, 9, 8, device="meta"))


def test_constructors_refuse_what_the_solver_would():
    for bad in (2.0, True, "4"):
        with pytest.raises(InputError, match="chunk must be a whole number"):
            HybridSVAttention(8, 2, chunk=bad)
        with pytest.raises(InputError, match="num_heads must be a whole number"):
            HybridSVAttention(8, bad)
    for layer in (HybridSVAttention, SVAttention):
        for bad in (0.0, 1e-12, 1e7):
            with pytest.raises(ContractError, match="ridge must be from"):
                layer(8, 2, ridge=bad)
        with pytest.raises(InputError, match="solver must be one of"):
            layer(8, 2, solver="magic")
        for bad in (None, "wide"):
            with pytest.raises(ContractError, match="gamma must be a number"):
                layer(8, 2, gamma=bad)
        for bad in (1e38, 1e-38):
            with pytest.raises(ContractError, match="gamma must be from"):
                layer(8, 2, gamma=bad)
    assert HybridSVAttention(8, 2, gamma=1e38, learn_gamma=False).gamma().isfinite().all()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch's own, in jvp
def test_function_transforms_are_refused_with_a_way_out():
    keys = draw(3, 9, 2)

    def total(keys, solver="batched"):
        return sv_gate(keys, 0.4, 0.3, solver=solver).weights.square().sum()

    for solver in ("batched", "exact", "paper"):
        with pytest.raises(InputError, match="solver='naive'"):
            torch.func.grad(total)(keys[0], solver)
        with pytest.raises(InputError, match="solver='naive'"):
            torch.func.jvp(lambda k, s=solver: total(k, s), (keys[0],), (keys[0],))
    with pytest.raises(InputError, match="batch dimensions"):
        torch.func.vmap(total)(keys)
    leaf = keys[0].clone().requires_grad_()
    total(leaf).backward()
    found = torch.func.grad(total)(keys[0], "naive")
    torch.testing.assert_close(found, leaf.grad, atol=1e-10, rtol=1e-8)


# -- weights and their settings --------------------------------------------------------------------


def test_weights_are_bound_to_their_settings():
    stored = hybrid().state_dict()
    hybrid().load_state_dict(stored)
    for other in (
        {"gamma": 0.5},
        {"C": 0.5},
        {"ridge": 1e-2},
    ):
        with pytest.raises(InputError, match=f"layer with {next(iter(other))} "):
            hybrid(**other).load_state_dict(stored)
    with pytest.raises(InputError, match="chunk 6, not 7"):
        HybridSVAttention(8, 2, chunk=7).load_state_dict(stored)
    with pytest.raises(InputError, match="layer with C "):
        SVAttention(8, 2, C=0.5).load_state_dict(SVAttention(8, 2).state_dict())


def test_weights_of_before_they_had_settings_are_taken():
    stored = {n: t for n, t in hybrid().state_dict().items() if not n.endswith("_extra_state")}
    assert not hybrid(gamma=0.5).load_state_dict(stored).missing_keys


def test_settings_survive_a_change_of_type():
    stored = {name: x.half() for name, x in hybrid().state_dict().items()}
    hybrid().half().load_state_dict(stored)
