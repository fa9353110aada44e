"""The texts of the language benchmark, and how shares and intervals are told."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

import numpy as np
from scipy.stats import ttest_1samp

import language
from common import Report
from gate_view import View, view
from language_studies import Entry, studies
from redundant import redundant
from svmemory import InputError
from svmemory.torch.language import checkpoint
from svmemory.torch.language.curves import Curves
from svmemory.torch.language.model import ModelConfig
from svmemory.torch.language.run import run_training
from svmemory.torch.language.text import ByteText
from svmemory.torch.language.train import TrainConfig
from svmemory.torch.registry import LayerOptions


def test_a_redundant_text_says_every_piece_four_times_within_1024_bytes() -> None:
    pieces = [bytes([i]) * 64 for i in range(43)]  # the last three do not fill four
    text = redundant(b"".join(pieces))
    assert len(text) == 40 * 4 * 64
    for group in range(10):
        start = 1024 * group
        said = Counter(text[at : at + 64] for at in range(start, start + 1024, 64))
        assert said == {piece: 4 for piece in pieces[4 * group : 4 * group + 4]}
    assert text == redundant(b"".join(pieces))


@pytest.mark.parametrize("size", [50_000, 99_999])
def test_what_validates_a_redundant_text_is_not_in_its_training_part(size: int) -> None:
    whole = np.random.default_rng(0).bytes(size)
    text = ByteText(redundant(whole), 8)
    trained = bytes(text.training.tolist())
    validation = bytes(text.validation.tolist())
    assert len(validation) >= 0.099 * (len(trained) + len(validation))
    assert not any(validation[at : at + 64] in trained for at in range(0, len(validation), 64))


def curves(best: float) -> Curves:
    return Curves(loss=[9.0], validation_step=[1], validation=[best])


def test_a_share_is_the_control_minus_the_form_by_seed() -> None:
    entries = [Entry("a", "sv", 3, {}, "b"), Entry("b", "uniform", 3, {})]
    ours, theirs = [3.0, 3.5, 2.9], [3.2, 3.4, 3.3]
    report = Report("language", False, 0, {})
    found = {
        "a": {seed: curves(x) for seed, x in zip((4, 5, 6), ours, strict=True)},
        # in another order, and one whose partner is not done
        "b": {seed: curves(x) for seed, x in zip((7, 6, 5, 4), [9.0, *theirs[::-1]], strict=True)},
    }
    views = {"a": [View(0.2, 0.1), View(0.4, 0.3)], "b": []}
    language.tell_shares(report, entries, found, views)
    gaps = [b - a for a, b in zip(ours, theirs, strict=True)]
    low, high = ttest_1samp(gaps, 0.0).confidence_interval(0.95)
    ((form, control, seeds, share, span, gamma, likeness),) = report.tables[0]["rows"]
    assert (form, control, seeds) == ("a", "b", 3)
    assert share == pytest.approx(sum(gaps) / 3)
    assert span == f"{low:+.3f} to {high:+.3f}"
    assert (gamma, likeness) == (pytest.approx(0.3), pytest.approx(0.2))


def test_a_view_is_of_all_pairs_of_rows(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"a row is kept and another goes. " * 60)
    options = LayerOptions(chunk=8, with_values=True)
    config = ModelConfig(8, 2, 2, block=16, options=options)
    run_training(config, TrainConfig(steps=2, batch=2, lr=0.1), text, tmp_path / "run")
    path = tmp_path / "run" / checkpoint.NAME
    model = checkpoint.load(path).build().double()
    windows = ByteText.from_file(text, 16).validation_windows(4)[:, :-1]
    x = model.embedding(windows) + model.position
    values, gammas = [], []
    for block in model.blocks:
        _, k, v = block.attention.queries_keys_values(block.norm_1(x))
        rows = np.concatenate([k.detach(), v.detach()], axis=-1)
        for b, h in np.ndindex(4, 2):
            gammas.append(block.attention.gamma()[h].item())
            values += [
                math.exp(-gammas[-1] * float(np.square(rows[b, h, i] - rows[b, h, j]).sum()))
                for i in range(16)
                for j in range(i)
            ]
        x = block(x)
    seen = view(path, text)
    assert seen.gamma == pytest.approx(np.mean(gammas), rel=1e-5)
    assert seen.likeness == pytest.approx(np.mean(values), rel=1e-5)
    assert 0.0 < seen.likeness < 0.999999


def test_runs_of_another_text_or_size_are_not_reported(tmp_path: Path) -> None:
    for name, content in (("one", b"a row is kept. " * 200), ("two", b"a row is dropped. " * 200)):
        (tmp_path / name).write_bytes(content)
    config = ModelConfig(8, 1, 1, block=16, options=LayerOptions(chunk=8))
    training = TrainConfig(steps=1, batch=1, eval_windows=1)

    def again(text: str, model: ModelConfig = config) -> Curves | None:
        return language.train(model, training, tmp_path / text, tmp_path / "run", 1, math.inf)

    assert again("one") == again("one") is not None
    with pytest.raises(InputError, match="another text"):
        again("two")
    with pytest.raises(InputError, match="another model: embed_dim 8, not 16"):
        again("one", replace(config, embed_dim=16))


def test_every_control_is_an_entry_that_reads_everything() -> None:
    for entries in studies().values():
        by_name = {entry.name: entry for entry in entries}
        for entry in entries:
            if entry.control is not None:
                control = by_name[entry.control]
                assert control.attention == "uniform"
                # what concerns the gate alone may differ, what concerns the read may not
                gate = {"learn_gamma", "learn_cap", "with_values"}
                assert control.options == {k: v for k, v in entry.options.items() if k not in gate}
