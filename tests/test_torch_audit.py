"""The audit of trained models: it passes what is right and catches what is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from commands import in_folder, refused  # noqa: E402
from svmemory import Contract, InputError, reference  # noqa: E402
from svmemory.audit import model as audit  # noqa: E402
from svmemory.audit.trained import freeze  # noqa: E402
from svmemory.torch.language import checkpoint  # noqa: E402
from svmemory.torch.language.model import ModelConfig  # noqa: E402
from svmemory.torch.language.run import run_training  # noqa: E402
from svmemory.torch.language.text import ByteText  # noqa: E402
from svmemory.torch.language.train import TrainConfig  # noqa: E402
from svmemory.torch.registry import LayerOptions  # noqa: E402

CONFIG = ModelConfig(
    embed_dim=16, layers=2, num_heads=2, block=40, attention="sv", options=LayerOptions(chunk=16)
)
TEXT = "".join(f"row {i * 6007 % 997:03d} is forgotten to the byte. " for i in range(300)).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text and a model trained on it for a few steps."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_bytes(TEXT)
    training = TrainConfig(steps=15, batch=4, lr=1e-2, eval_windows=4)
    for name, config in {
        "dot": CONFIG,
        "mix": replace(CONFIG, options=replace(CONFIG.options, readout="mix", learn_cap=True)),
        "all extras": replace(
            CONFIG, options=replace(CONFIG.options, with_values=True, fade=True, readout="mix")
        ),
        "softmax": replace(CONFIG, attention="softmax"),
        "uniform": replace(CONFIG, attention="uniform"),
    }.items():
        run_training(config, training, folder / "text.txt", folder / name)
    return folder


def heads_of(folder, name="dot"):
    model = checkpoint.load(folder / name / checkpoint.NAME).build()
    windows = ByteText.from_file(folder / "text.txt", 40).validation_windows(2)[:, :-1]
    return freeze(model, windows)


@pytest.mark.parametrize("name", ["dot", "mix", "all extras"])
def test_a_trained_model_passes(folder, name):
    report = audit.run_model(
        folder / name / checkpoint.NAME, folder / "text.txt", windows=2, trials=20
    )
    assert report.failures == []
    assert report.passed
    assert (report.gates, report.partitions_equal) == (2 * 2 * 2 * 2, 16)
    assert (report.digests_equal, report.deleted_partitions_equal, report.refits) == (20, 20, 0)
    assert report.weights.worst < 1e-6
    assert report.events > 0  # rows with weight were deleted
    assert report.as_dict()["passed"] is True


def test_frozen_heads_are_what_the_reference_solver_says(folder):
    """The reference solver shares no code with layer or engine."""
    heads, replayed = heads_of(folder)
    assert replayed
    assert len(heads) == 2 * 2 * 2
    for head in heads:
        for gate in head.gates:
            solution = reference.from_keys(head.keys[: gate.end], head.contract)
            assert solution.labels == gate.labels
            np.testing.assert_allclose(gate.weights, solution.weights, atol=1e-6)
            read = head.read_with(gate, solution.weights)
            used = head.read[gate.end : gate.end + head.chunk]
            np.testing.assert_allclose(used, read, atol=1e-5)
        assert [gate.end for gate in head.gates] == [16, 32]


def test_another_contract_is_caught(folder):
    # a head with rows on the margin: a vertex may be the optimum of several contracts
    head = next(h for h in heads_of(folder, "mix")[0] if "S" in h.gates[0].labels)
    c = head.contract
    for other in (Contract(2.0 * c.gamma, c.mass, c.ridge), Contract(c.gamma, c.mass, 0.1)):
        wrong = audit.check_gates(replace(head, contract=other))
        assert max(check.weights for check in wrong) > audit.WEIGHT_LIMIT


def test_a_gate_that_was_tampered_with_is_caught(folder):
    heads, _ = heads_of(folder)
    gate = heads[0].gates[0]
    moved = np.roll(gate.weights, 1)
    labels = gate.labels[-1] + gate.labels[:-1]
    bad = replace(heads[0], gates=(replace(gate, weights=moved, labels=labels),))
    (check,) = audit.check_gates(bad)
    assert not check.partition_equal
    assert check.weights > 1e-2
    (check,) = audit.check_gates(replace(heads[0], read=heads[0].read + 0.01, gates=(gate,)))
    assert check.readout > audit.WEIGHT_LIMIT


def test_keys_that_are_not_finite_fail_the_audit(folder):
    heads, _ = heads_of(folder)
    rows = heads[0].rows.copy()
    rows[3, 0] = np.nan
    checks = audit.check_gates(replace(heads[0], rows=rows))
    assert not any(check.partition_equal for check in checks)
    assert all(np.isnan(check.weights) for check in checks)


def test_a_deletion_whose_memory_keeps_a_trace_is_caught(folder, monkeypatch):
    heads, _ = heads_of(folder)
    table = audit.Rows.memory

    def forgetful(self, contract, order):
        memory = table(self, contract, order)
        honest = memory.forget

        def forget(ids):
            done = honest(ids=ids[:1])  # one of the two stays
            return done

        memory.forget = forget
        return memory

    monkeypatch.setattr(audit.Rows, "memory", forgetful)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="same rows"):
        audit.check_deletion(heads[0], heads[0].gates[0], None, rng)


def test_a_failed_figure_is_a_failure(folder):
    report = audit.run_model(
        folder / "dot" / checkpoint.NAME, folder / "text.txt", windows=1, trials=2
    )
    nan = audit.Spread(0.0, 0.0, float("nan"))
    for change, message in (
        ({"replayed": False}, "other bits"),
        ({"partitions_equal": 7}, "7 of 8 partitions"),
        ({"weights": nan}, "weights are off by nan"),
        ({"readouts": None}, "readouts are never checked"),
        ({"digests_equal": 1}, "1 of 2 digests"),
        ({"deleted_partitions_equal": 1}, "1 of 2 partitions after deletion"),
        ({"refits": 1}, "1 refits"),
        ({"completed": 1}, "1 of 2 completed"),
    ):
        failures = replace(report, **change).failures
        assert any(message in failure for failure in failures), failures


@pytest.mark.parametrize("name", ["softmax", "uniform"])
def test_models_without_the_gate_are_refused(folder, name):
    with pytest.raises(InputError, match=f"attention '{name}' has no gate"):
        audit.run_model(folder / name / checkpoint.NAME, folder / "text.txt")


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    return in_folder(tmp_path, capsys, monkeypatch)


def test_command(run, folder):
    path, text = str(folder / "dot" / checkpoint.NAME), str(folder / "text.txt")
    arguments = ["audit", "model", path, "--text", text, "--windows", "1", "--trials", "5"]
    done = run(*arguments, "--json")
    assert done.code == 0
    assert done.document["passed"] is True
    assert done.document["digests_equal"] == 5
    shown = run(*arguments)
    assert shown.code == 0
    assert "digests equal           5/5" in shown.out
    assert shown.out.endswith("passed\n")


def test_command_fails_when_a_check_does(run, folder, monkeypatch):
    monkeypatch.setattr(audit, "WEIGHT_LIMIT", -1.0)
    path, text = str(folder / "dot" / checkpoint.NAME), str(folder / "text.txt")
    done = run("audit", "model", path, "--text", text, "--windows", "1", "--trials", "2")
    assert done.code == 1
    assert "weights are off by" in done.out.splitlines()[-1]


def test_command_refuses_bad_input(run, folder):
    text = str(folder / "text.txt")
    refused(run("audit", "model", "missing.safetensors", "--text", text), "missing.safetensors")
    refused(run("audit", "model", text, "--text", text), "not a checkpoint")
