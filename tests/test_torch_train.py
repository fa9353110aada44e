"""Training runs: they learn, they go on from a checkpoint in the same bits, and they share work."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from commands import in_folder, refused  # noqa: E402
from svmemory import ConvergenceError, FileFormatError, InputError  # noqa: E402
from svmemory.torch.language import checkpoint  # noqa: E402
from svmemory.torch.language.curves import Curves  # noqa: E402
from svmemory.torch.language.model import PRESETS, ByteLM, ModelConfig, next_byte_loss  # noqa: E402
from svmemory.torch.language.run import run_training  # noqa: E402
from svmemory.torch.language.text import ByteText  # noqa: E402
from svmemory.torch.language.train import TrainConfig, Trainer  # noqa: E402
from svmemory.torch.language.world import World  # noqa: E402
from svmemory.torch.registry import LAYERS, LayerOptions  # noqa: E402

SMALL = ModelConfig(
    embed_dim=16,
    layers=2,
    num_heads=2,
    block=24,
    attention="sv",
    options=LayerOptions(chunk=8, window=8, dropout=0.1),
)
TRAINING = TrainConfig(steps=12, batch=4, eval_every=4, save_every=5)
ALONE = World(0, 1, torch.device("cpu"))


def generated_text():
    """Sentences that repeat with numbers that do not: 24 kB."""
    cases = (f"case {i * 7919 % 1000:03d}: the row is forgotten to the byte.\n" for i in range(500))
    return "".join(cases).encode()


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(generated_text())
    return path


def trainer(text, out, model=SMALL, training=TRAINING, resume=False):
    out.mkdir(exist_ok=True)
    data = ByteText.from_file(text, model.block)
    return Trainer(model, training, data, out, ALONE, resume=resume)


@pytest.mark.parametrize("attention", ["sv", "random", "softmax"])
def test_a_run_goes_on_in_the_same_bits(text, tmp_path, attention):
    model = replace(SMALL, attention=attention)
    whole = trainer(text, tmp_path / "whole", model)
    whole.run()
    trainer(text, tmp_path / "parts", model).run(until=7)
    torch.rand(13)  # what happens in between must not matter
    parts = trainer(text, tmp_path / "parts", model, resume=True)
    assert parts.step == 7
    parts.run()
    assert parts.curves == whole.curves
    files = [(tmp_path / run / checkpoint.NAME).read_bytes() for run in ("whole", "parts")]
    assert files[0] == files[1]
    assert Curves.read(tmp_path / "parts" / "curves.json") == whole.curves
    assert len(whole.curves.loss) == 12
    assert whole.curves.validation_step == [4, 8, 12]
    assert len(whole.curves.support) == (0 if attention == "softmax" else 12)


def test_a_lost_step_is_done_again(text, tmp_path):
    """A run that died between two checkpoints goes on from the last one."""
    trainer(text, tmp_path / "run").run(until=5)
    curves = Curves.read(tmp_path / "run" / "curves.json")
    Curves([*curves.loss, 9.0], [*curves.gradient, 9.0]).write(tmp_path / "run" / "curves.json")
    again = trainer(text, tmp_path / "run", resume=True)
    again.run()
    whole = trainer(text, tmp_path / "whole")
    whole.run()
    assert again.curves.loss == whole.curves.loss


def test_learning_lowers_the_loss(text, tmp_path):
    run = trainer(text, tmp_path / "run", training=replace(TRAINING, steps=60, lr=1e-2))
    run.run()
    assert run.curves.loss[0] == pytest.approx(8.0, abs=0.3)  # all bytes alike at first
    assert run.curves.validation[-1] < 4.0
    assert all(g > 0 for g in run.curves.gate_gradient)
    assert run.curves.unconverged == [0] * 60


@pytest.mark.parametrize("attention", LAYERS)
def test_every_attention_trains(text, tmp_path, attention):
    model = replace(SMALL, attention=attention, options=replace(SMALL.options, dropout=0.0))
    run = trainer(text, tmp_path / "run", model, replace(TRAINING, steps=3))
    run.run()
    assert run.curves.loss[-1] < run.curves.loss[0]
    found = checkpoint.load(tmp_path / "run" / checkpoint.NAME)
    tokens = torch.arange(24)[None]
    torch.manual_seed(0)
    expected = run.model.eval()(tokens)
    torch.manual_seed(0)
    assert torch.equal(found.build()(tokens), expected)
    again = trainer(text, tmp_path / "run", model, replace(TRAINING, steps=3), resume=True)
    assert again.step == 3


def test_a_run_of_one_chunk_goes_on(text, tmp_path):
    """Its gate is never solved, so its width has no gradient and no optimizer state."""
    model = replace(SMALL, options=LayerOptions(chunk=24))
    trainer(text, tmp_path, model).run(until=2)
    assert trainer(text, tmp_path, model, resume=True).step == 2


def test_validation_is_the_mean_over_its_windows(text, tmp_path):
    run = trainer(text, tmp_path / "run", training=replace(TRAINING, eval_windows=7))
    windows = run.text.validation_windows(7)
    assert windows.shape == (7, 25)
    with torch.no_grad():
        losses = [float(next_byte_loss(run.model.eval(), w[None])) for w in windows]
    assert run.validate() == pytest.approx(sum(losses) / 7 / math.log(2), rel=1e-6)


def test_batches_depend_on_seed_and_step_alone():
    text = ByteText(bytes(range(256)) * 40, 16)
    first = text.batch(0, 3, 5)
    assert torch.equal(first, text.batch(0, 3, 5))
    assert not torch.equal(first, text.batch(0, 4, 5))
    assert not torch.equal(first, text.batch(1, 3, 5))
    assert torch.equal(first[:, 1:], (first[:, :-1] + 1) % 256)  # windows of the text as it stands
    windows = text.validation_windows(100)
    assert len(windows) == (len(text.validation) - 1) // 16
    assert windows[1:, 0].tolist() == windows[:-1, -1].tolist()  # one begins where the last ended


def test_the_learning_rate_rises_and_falls():
    config = TrainConfig(steps=100, lr=1.0)
    rates = [config.rate(step) for step in range(100)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)


def test_weight_decay_spares_vectors():
    model = ByteLM(SMALL)
    decayed, spared = (group["params"] for group in model.parameter_groups(0.1))
    assert all(p.dim() >= 2 for p in decayed)
    assert {id(block.attention.gamma.log_ratio) for block in model.blocks} <= set(map(id, spared))
    assert len(decayed) + len(spared) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("preset", "millions"), [("tiny", 0.85), ("3m", 3.28), ("10m", 10.9), ("32m", 31.9)]
)
def test_presets_have_the_sizes_they_are_named_for(preset, millions):
    with torch.device("meta"):
        model = ByteLM(PRESETS[preset])
    count = sum(p.numel() for p in model.parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.1)


def test_a_loss_that_is_not_finite_stops_the_run(text, tmp_path):
    run = trainer(text, tmp_path / "run")
    run.run(until=5)
    saved = (tmp_path / "run" / checkpoint.NAME).read_bytes()
    with torch.no_grad():
        run.model.embedding.weight[:] = torch.inf
    with pytest.raises(ConvergenceError, match="step 6: loss nan"):
        run.run()
    assert (tmp_path / "run" / checkpoint.NAME).read_bytes() == saved


def test_a_checkpoint_of_another_run_is_refused(text, tmp_path):
    trainer(text, tmp_path / "run").run(until=5)
    with pytest.raises(InputError, match="another training: seed 0, not 1"):
        trainer(text, tmp_path / "run", training=replace(TRAINING, seed=1), resume=True)
    with pytest.raises(InputError, match="another model: attention sv, not softmax"):
        trainer(text, tmp_path / "run", replace(SMALL, attention="softmax"), resume=True)


def test_a_checkpoint_from_before_a_setting_existed_goes_on_with_its_default(text, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    trainer(text, tmp_path / "whole").run()
    trainer(text, tmp_path / "run").run(until=5)
    path = tmp_path / "run" / checkpoint.NAME
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["svmemory"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del about["model"]["options"]["fade"], about["training"]["clip"]
    save_file(tensors, path, metadata={"svmemory": json.dumps(about)})
    trainer(text, tmp_path / "run", resume=True).run()
    ends = (checkpoint.load(tmp_path / name / checkpoint.NAME) for name in ("whole", "run"))
    first, second = (one.part("model") for one in ends)
    assert all(torch.equal(first[name], second[name]) for name in first)
    faded = replace(SMALL, options=replace(SMALL.options, fade=True))
    save_file(tensors, path, metadata={"svmemory": json.dumps(about)})
    with pytest.raises(InputError, match=r"another model: fade False, not True$"):
        trainer(text, tmp_path / "run", faded, resume=True)


def test_damaged_checkpoints_are_refused(text, tmp_path):
    path = tmp_path / checkpoint.NAME
    with pytest.raises(FileNotFoundError):
        checkpoint.load(path)
    trainer(text, tmp_path).run(until=5)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="damaged or not a checkpoint"):
        checkpoint.load(path)
    path.write_bytes(whole.replace(b"model.embedding.weight", b"model.embedding.weighs"))
    with pytest.raises(FileFormatError, match="does not fit"):
        checkpoint.load(path).build()
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(FileFormatError, match="not a checkpoint of svmemory train"):
        checkpoint.load(path)


def test_unusable_settings_are_refused(text, tmp_path):
    with pytest.raises(InputError, match="steps must be at least 1"):
        TrainConfig(steps=0)
    with pytest.raises(InputError, match="lr must be"):
        TrainConfig(steps=1, lr=0.0)
    with pytest.raises(InputError, match="its last tenth must hold 257"):
        ByteText(b"short" * 100, 256)
    data = ByteText.from_file(text, SMALL.block)
    with pytest.raises(InputError, match="does not divide by 3"):
        Trainer(SMALL, TRAINING, data, tmp_path, World(0, 3, torch.device("cpu")))
    run_training(SMALL, TRAINING, text, tmp_path / "run", until=1)
    with pytest.raises(InputError, match="--resume"):
        run_training(SMALL, TRAINING, text, tmp_path / "run")
    with pytest.raises(InputError, match="nothing to go on from"):
        run_training(SMALL, TRAINING, text, tmp_path / "other", resume=True)


def test_two_processes_train_like_one(text, tmp_path):
    """torchrun, gloo: every process takes half of each batch."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ["-m", "svmemory", "train", "--text", str(text), "--steps", "6", "--batch", "4"]
    arguments += ["--block", "80", "--chunk", "32", "--eval-every", "3", "--device", "cpu"]
    arguments += ["--threads", "1", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    launch += ["--master-port", str(port)]
    for name, start in (("one", []), ("two", launch)):
        result = subprocess.run(
            [sys.executable, *start, *arguments, "--out", str(tmp_path / name)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert result.returncode == 0, result.stderr
        assert f"processes         {1 if name == 'one' else 2}" in result.stdout
    one, two = (Curves.read(tmp_path / name / "curves.json") for name in ("one", "two"))
    # the sums are taken in another order: equal up to float32 roundings
    assert two.loss == pytest.approx(one.loss, rel=1e-5)
    assert two.gradient == pytest.approx(one.gradient, rel=1e-4)
    assert two.validation == pytest.approx(one.validation, rel=1e-5)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, capsys, monkeypatch, text):
    return in_folder(tmp_path, capsys, monkeypatch)


ARGUMENTS = ["--text", "text.txt", "--steps", "4", "--batch", "2", "--block", "48", "--chunk", "16"]


def test_command_trains_stops_and_goes_on(run, tmp_path):
    train = ["train", *ARGUMENTS, "--out", "run", "--json"]
    half = run(*train, "--stop-after", "2")
    assert (half.code, half.err) == (0, "")
    assert half.document["step"] == 2
    whole = run(*train, "--resume")
    assert whole.code == 0
    assert whole.document["step"] == 4
    assert whole.document["attention"] == "sv"
    assert whole.document["matched_window"] == round(whole.document["support"]) + 16
    straight = run("train", *ARGUMENTS, "--out", "straight", "--json")
    assert straight.document["training_loss"] == whole.document["training_loss"]
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["checkpoint.safetensors", "curves.json", "curves.png"]
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len(json.loads((tmp_path / "run" / "curves.json").read_text())["loss"]) == 4


def test_command_speaks_to_people(run):
    done = run("train", *ARGUMENTS, "--out", "run", "--stop-after", "1")
    assert done.code == 0
    assert "best validation" not in done.out  # none yet
    assert "stopped after step 1 of 4" in done.err


def test_command_refuses_bad_input(run):
    refused(run("train", *ARGUMENTS, "--out", "x", "--attention", "nothing"), "attention must be")
    refused(run("train", *ARGUMENTS, "--out", "x", "--C", "0"), "C must be > 0")
    refused(run("train", *ARGUMENTS, "--out", "x", "--text", "missing.txt"), "missing.txt")
    refused(run("train", *ARGUMENTS, "--out", "x", "--resume"), "nothing to go on from")


def test_a_run_leaves_the_processor_as_it_was(text, tmp_path):
    tiny = torch.tensor([1e-310], dtype=torch.float64)  # a denormal number
    run_training(SMALL, TRAINING, text, tmp_path / "run", until=1)
    assert (tiny * 0.5).item() == 5e-311


# -- going on from what does not fit ---------------------------------------------------------------


def rewritten(path, tensors=None, **about):
    """A checkpoint with other tensors (None removes one) and other entries in its header."""
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["svmemory"])
    stored = {**load_file(path), **(tensors or {})}
    header = {name: x for name, x in {**header, **about}.items() if x is not ...}
    stored = {name: x for name, x in stored.items() if x is not None}
    save_file(stored, path, metadata={"svmemory": json.dumps(header)})


def test_another_text_is_refused(text, tmp_path):
    trainer(text, tmp_path / "run").run(until=2)
    whole = text.read_bytes()
    text.write_bytes(whole.replace(b"case 000", b"case 00O"))
    with pytest.raises(InputError, match="another text"):
        trainer(text, tmp_path / "run", resume=True)
    path = tmp_path / "run" / checkpoint.NAME
    settings = [name for name in checkpoint.load(path).tensors if name.endswith("_extra_state")]
    assert settings
    rewritten(path, dict.fromkeys(settings), text=...)  # of before these were stored
    assert trainer(text, tmp_path / "run", resume=True).step == 2
    assert checkpoint.load(path).build().config == SMALL


EMBEDDING = "model.embedding.weight"
MOMENT = "optimizer.embedding.weight.exp_avg"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 13}, "step 13 of 12"),
        ({"step": -1}, "step -1 of 12"),
        ({"step": 2.5}, "step 2.5 of 12"),
        ({"step": True}, "step True of 12"),
        ({"model": [1]}, "must be objects"),
        ({"tensors": {EMBEDDING: None}}, f"lacks the tensor {EMBEDDING}"),
        ({"tensors": {EMBEDDING: torch.zeros(256, 16).half()}}, "not torch.float32"),
        ({"tensors": {EMBEDDING: torch.zeros(256, 15)}}, r"\(256, 15\), not"),
        ({"tensors": {"model.more": torch.zeros(1)}}, "model.more that its model has not"),
    ],
)
def test_a_damaged_model_is_refused_by_training_and_audit(run, tmp_path, change, message):
    trainer(tmp_path / "text.txt", tmp_path / "run").run(until=2)
    path = tmp_path / "run" / checkpoint.NAME
    rewritten(path, **change)
    with pytest.raises(FileFormatError, match=message):
        checkpoint.load(path).build()
    done = run("audit", "model", str(path), "--text", "text.txt")
    refused(
        done, "checkpoint.safetensors: damaged" if "tensors" not in change else "the checkpoint"
    )
    with pytest.raises(FileFormatError, match=message):
        trainer(tmp_path / "text.txt", tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (None, f"lacks the tensor {MOMENT}"),
        (torch.zeros(3), r"is torch.float32 \(3,\), not"),
        (torch.zeros(256, 16).double(), "is torch.float64"),
    ],
)
def test_a_damaged_optimizer_is_refused(text, tmp_path, tensor, message):
    trainer(text, tmp_path).run(until=2)
    rewritten(tmp_path / checkpoint.NAME, {MOMENT: tensor})
    with pytest.raises(FileFormatError, match=message):
        trainer(text, tmp_path, resume=True)


def test_curves_that_are_too_short_are_refused(text, tmp_path):
    trainer(text, tmp_path).run(until=3)
    path = tmp_path / "curves.json"
    whole = json.loads(path.read_text())
    for name in ("loss", "gradient", "support"):
        path.write_text(json.dumps({**whole, name: whole[name][:2]}))
        with pytest.raises(FileFormatError, match="does not reach step 3"):
            trainer(text, tmp_path, resume=True)


def test_settings_that_are_refused_leave_no_folder(run, tmp_path, text):
    refused(run("train", *ARGUMENTS, "--out", "x", "--C", "0"), "C must be > 0")
    with pytest.raises(InputError, match="until must be at least 1"):
        run_training(SMALL, TRAINING, text, tmp_path / "x", until=0)
    assert not (tmp_path / "x").exists()


def test_an_interrupt_says_where_to_go_on(run, monkeypatch):
    assert run("train", *ARGUMENTS, "--out", "run", "--stop-after", "2").code == 0

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_advance", interrupted)
    done = run("train", *ARGUMENTS, "--out", "run", "--resume")
    assert (done.code, done.out) == (130, "")
    assert done.err == "interrupted; the checkpoint is at step 2: --resume goes on\n"
