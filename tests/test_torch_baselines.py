"""Every baseline against its definition, written another way."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory import InputError  # noqa: E402
from svmemory.torch.baselines import (  # noqa: E402
    DeltaNet,
    LinearAttention,
    RBFAttention,
    SelectiveSSM,
    SoftmaxAttention,
    WindowAttention,
)
from svmemory.torch.baselines.deltanet import delta_rule, delta_rule_recurrent  # noqa: E402
from svmemory.torch.baselines.linear import (  # noqa: E402
    linear_attention,
    linear_attention_quadratic,
)
from svmemory.torch.baselines.softmax import window_attention  # noqa: E402
from svmemory.torch.baselines.ssm import selective_scan, selective_scan_recurrent  # noqa: E402

LENGTHS = (1, 7, 64, 65, 150)  # odd ones, and one either side of a chunk
LAYERS = {
    "softmax": SoftmaxAttention,
    "window": lambda d, h: WindowAttention(d, h, window=5),
    "linear": LinearAttention,
    "deltanet": DeltaNet,
    "ssm": SelectiveSSM,
    "rbf": RBFAttention,
}


def draw(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def same(fast, slow, inputs, tolerance=1e-11):
    """Values and gradients agree."""
    twins = [[x.clone().requires_grad_() for x in inputs] for _ in range(2)]
    one, two = fast(*twins[0]), slow(*twins[1])
    torch.testing.assert_close(one, two, atol=tolerance, rtol=tolerance)
    cotangent = draw(one.shape, seed=9)[0]
    grads = [
        torch.autograd.grad(out, xs, cotangent) for out, xs in zip((one, two), twins, strict=True)
    ]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("length", LENGTHS)
def test_linear_attention_is_its_quadratic_form(length):
    inputs = draw(*[(2, 3, length, 8)] * 3)
    same(linear_attention, linear_attention_quadratic, inputs)


@pytest.mark.parametrize("length", LENGTHS)
def test_deltanet_in_chunks_is_its_recurrence(length):
    q, k, v, beta = draw(*[(2, 3, length, 8)] * 3, (2, 3, length))
    k = torch.nn.functional.normalize(k, dim=-1)
    same(delta_rule, delta_rule_recurrent, [q, k, v, beta.sigmoid()])


def test_deltanet_writes_over_a_key():
    k = torch.zeros(1, 1, 3, 2, dtype=torch.float64)
    k[..., 0] = 1.0  # one key three times, strength 1: only the last value is left
    v = torch.tensor([[[[1.0, 0.0], [0.0, 5.0], [3.0, 4.0]]]], dtype=torch.float64)
    read = delta_rule(k, k, v, torch.ones(1, 1, 3, dtype=torch.float64))
    torch.testing.assert_close(read, v)


@pytest.mark.parametrize("length", LENGTHS)
def test_selective_scan_in_chunks_is_its_recurrence(length):
    u, delta, write, read = draw((2, 3, length, 5), (2, 3, length), (2, length, 4), (2, length, 4))
    decay = torch.tensor([0.1, 1.0, 16.0], dtype=torch.float64)
    delta = torch.nn.functional.softplus(delta)
    same(selective_scan, selective_scan_recurrent, [u, delta, decay, write, read])


def test_selective_scan_does_not_overflow_on_fast_decay():
    u, write, read = draw((1, 1, 64, 2), (1, 64, 3), (1, 64, 3))
    delta = torch.full((1, 1, 64), 50.0, dtype=torch.float64)
    out = selective_scan(u, delta, torch.tensor([40.0], dtype=torch.float64), write, read)
    expected = 50.0 * u * (write * read).sum(-1, keepdim=True)  # nothing survives one step
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("window", [1, 3, 64, 200])
@pytest.mark.parametrize("length", LENGTHS)
def test_window_is_a_masked_softmax(length, window):
    def masked(q, k, v):
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
        seen = (j <= i) & (j > i - window)
        return logits.masked_fill(~seen, -torch.inf).softmax(-1) @ v

    same(
        lambda q, k, v: window_attention(q, k, v, window),
        masked,
        draw(*[(2, 3, length, 8)] * 3),
        tolerance=1e-10,
    )


def test_softmax_layer_is_the_formula():
    layer = SoftmaxAttention(12, 3).double()
    x = draw((2, 9, 12))[0]
    q, k, v = layer.queries_keys_values(x)
    logits = (q @ k.transpose(-1, -2) / 2.0).masked_fill(
        torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf
    )
    expected = (logits.softmax(-1) @ v).transpose(1, 2).reshape(2, 9, 12) @ layer.to_out.weight.T
    torch.testing.assert_close(layer(x), expected)


def test_rbf_layer_weighs_by_distance():
    layer = RBFAttention(12, 3, gamma=0.7).double()
    x = draw((2, 9, 12))[0]
    q, k, v = layer.queries_keys_values(x)
    kernel = torch.exp(-0.7 * (q[:, :, :, None] - k[:, :, None]).square().sum(-1)).tril()
    read = kernel @ v / kernel.sum(-1, keepdim=True)
    expected = read.transpose(1, 2).reshape(2, 9, 12) @ layer.to_out.weight.T
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_keep_shapes_and_never_look_ahead(name):
    torch.manual_seed(0)
    layer = LAYERS[name](16, 2).double()
    x = draw((2, 70, 16))[0]
    out = layer(x)
    assert out.shape == x.shape
    changed = x.clone()
    changed[:, 40:] += 1.0
    after = layer(changed)
    torch.testing.assert_close(after[:, :40], out[:, :40], atol=1e-12, rtol=1e-12)
    assert (after[:, 40:] - out[:, 40:]).abs().amax() > 1e-3


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_reach_every_parameter(name):
    torch.manual_seed(0)
    layer = LAYERS[name](16, 2)
    layer(torch.randn(2, 30, 16)).square().mean().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.abs().amax() > 0


def test_unusable_numbers_are_refused():
    with pytest.raises(InputError, match="divide"):
        SoftmaxAttention(10, 3)
    with pytest.raises(InputError, match="window"):
        WindowAttention(8, 2, window=0)
    with pytest.raises(InputError, match="dropout"):
        SoftmaxAttention(8, 2, dropout=1.0)
    for layer in (LinearAttention, DeltaNet, SelectiveSSM):
        with pytest.raises(InputError, match="dropout must be 0"):
            layer(8, 2, dropout=0.1)
