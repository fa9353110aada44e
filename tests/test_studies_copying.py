"""The copying study: its task, its models' state, and one tiny run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory import SupportVectorMemory  # noqa: E402
from svmemory.studies import copy_report, copying  # noqa: E402
from svmemory.studies.copy_model import (  # noqa: E402
    EMBED_DIM,
    HEAD_DIM,
    HEADS,
    LAYERS,
    WINDOW,
    Copier,
    CountedSV,
    build,
    recalled,
    state_floats,
)
from svmemory.studies.copy_report import Curve  # noqa: E402
from svmemory.studies.copy_task import FILLERS, ITEMS, KINDS, NOISE, SYMBOLS, WIDTH, draw  # noqa: E402
from svmemory.studies.result import Study, Verdict  # noqa: E402
from svmemory.studies.settings import Settings  # noqa: E402


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("filler", FILLERS)
def test_a_sequence_holds_the_items_in_order_and_near_copies_of_two_names(filler):
    batch = draw(5, 60, filler, rng())
    for names, symbols, asked, answers, places in zip(*batch, strict=True):
        assert places.tolist() == sorted(set(places.tolist()))
        assert torch.equal(names[places], asked)
        assert torch.equal(symbols[places], answers)
        rest = [i for i in range(60) if i not in places.tolist()]
        apart = torch.cdist(names[rest], names[rest])
        near = apart < 12 * NOISE  # noise between two copies: sqrt(2 * 8) * NOISE = 4 NOISE
        kinds = {tuple(row.tolist()) for row in near}
        assert len(kinds) <= KINDS  # two clusters, each fully connected and apart from the other
        for row in near:
            assert len(set(symbols[rest][row].tolist())) == 1
    assert torch.allclose(batch.asked.norm(dim=-1), torch.tensor(math.sqrt(WIDTH)))


def test_known_filler_is_the_same_in_all_sequences_and_new_filler_is_not():
    def centres(filler, seed):
        batch = draw(1, 400, filler, rng(seed))
        rest = torch.ones(400, dtype=torch.bool)
        rest[batch.places[0]] = False
        return batch.names[0][rest]

    same = torch.cdist(centres("known", 1), centres("known", 2)).min(dim=1).values
    other = torch.cdist(centres("new", 1), centres("new", 2)).min(dim=1).values
    assert float(same.max()) < 12 * NOISE < float(other.min())


def test_growing_filler_leaves_the_items_as_they_are():
    short, long = draw(4, 20, "new", rng(3)), draw(4, 300, "new", rng(3))
    assert torch.equal(short.asked, long.asked)
    assert torch.equal(short.answers, long.answers)


def test_filler_is_nearly_everywhere():
    places = torch.cat([draw(50, 64, "new", rng(s)).places for s in range(20)])
    counts = np.bincount(places.flatten().numpy(), minlength=64)
    assert counts.sum() == 1000 * ITEMS
    # 1,000 draws with probability 1/8: 125 +- 10.5
    assert np.abs(counts - 125).max() < 5 * 10.5


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_answers_and_a_question_does_not_see_later_ones(layer):
    model = Copier(layer).eval()
    batch = draw(2, 40, "new", rng())
    with torch.no_grad():
        logits = model(batch)
        asked = batch.asked.clone()
        asked[:, -1] += 1.0
        changed = model(batch._replace(asked=asked))
    assert logits.shape == (2, ITEMS, SYMBOLS)
    assert torch.allclose(logits[:, :-1], changed[:, :-1], atol=1e-5)
    assert not torch.allclose(logits[:, -1], changed[:, -1], atol=1e-3)


def test_the_counted_rows_are_those_of_an_exact_memory():
    torch.manual_seed(0)
    model = Copier("sv").eval()
    assert isinstance(model.layer, CountedSV)
    batch = draw(1, 100, "new", rng())
    with torch.no_grad():
        model(batch)
        items = model.norm_1(model.name(batch.names) + model.symbol(batch.symbols))
        _, keys, _ = model.layer.queries_keys_values(items)
    for head, contract in enumerate(model.layer.contracts()):
        memory = SupportVectorMemory.from_contract(contract)
        memory.add(keys[0, head].double().numpy())
        sets = memory.partition
        assert int(model.layer.rows[0, head]) == len(sets.margin) + len(sets.error) < 100


def test_both_solvers_of_the_layer_read_the_same():
    torch.manual_seed(0)
    model = Copier("sv")
    batch = draw(3, 60, "known", rng())
    with torch.no_grad():
        batched = model.train()(batch)
        exact = model.eval()(batch)
    assert torch.allclose(batched, exact, atol=1e-4)


def test_recall_of_a_model_that_always_says_the_same():
    model = Copier("linear")
    torch.nn.init.zeros_(model.head.weight)
    torch.nn.init.zeros_(model.head.bias)
    with torch.no_grad():
        model.head.bias[5] = 1.0
    share, rows = recalled(model, "new", 20, 32, rng(7))
    answers = torch.cat([draw(16, 20, "new", g).answers for g in [rng(7)] for _ in range(2)])
    assert share == float((answers == 5).double().mean())
    assert math.isnan(rows)


def test_states_are_as_large_as_the_tensors_that_layers_carry():
    row = 2 * EMBED_DIM
    assert state_floats("softmax", 500, math.nan) == 500 * row
    assert state_floats("window", 500, math.nan) == WINDOW * row
    assert state_floats("window", 8, math.nan) == 8 * row
    assert state_floats("sv", 500, 10.0) == 10 * row + HEADS * 10
    matrix = HEADS * HEAD_DIM * HEAD_DIM
    assert state_floats("deltanet", 500, math.nan) == matrix
    assert state_floats("linear", 500, math.nan) == matrix + EMBED_DIM
    taps = build("ssm").taps  # (channels, 1, 4): four positions, of which three lie before
    held = build("ssm").state * EMBED_DIM + taps.shape[0] * (taps.shape[2] - 1)
    assert state_floats("ssm", 500, math.nan) == held


def curve(recall: list[float], rows: float = math.nan) -> Curve:
    return Curve(0.01, 1.0, [64, 2048], recall, [rows, rows], [10.0, 10.0])


def test_verdicts_say_what_was_reached():
    curves = {
        (filler, layer): [curve([1.0, 0.2], 12.0 if layer == "sv" else math.nan)]
        for filler in FILLERS
        for layer in LAYERS
    }
    curves["new", "sv"] = [curve([0.999, 0.995], 12.0)]
    curves["new", "deltanet"] = [curve([0.9, 0.07])]
    study = Study("copying", "")
    copy_report.findings(study, curves)
    verdicts = {f.what: f.verdict for f in study.findings}
    assert verdicts["new filler: recall, SV gate, lowest of all lengths (2048)"] is Verdict.met
    assert verdicts["known filler: recall, SV gate, lowest of all lengths (2048)"] is Verdict.missed
    assert verdicts["new filler: recall, DeltaNet, length 2048"] is Verdict.met
    assert verdicts["known filler: recall, DeltaNet, length 2048"] is Verdict.differs


def test_a_tiny_run_has_all_layers_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plan = copying.Plan
    monkeypatch.setattr(
        copying,
        "Plan",
        lambda **sizes: plan(**{**sizes, "steps": 3, "lengths": (16, 200), "tests": 4}),
    )
    settings = Settings(tmp_path, tmp_path, quick=True)
    study = copying.run(settings)
    rows = next(f for f in study.findings if f.what.startswith("new filler: growth of the rows"))
    assert rows.verdict is Verdict.met  # untrained keys of filler are redundant too
    assert (tmp_path / "copying.png").stat().st_size > 10_000
    assert len(list((tmp_path / "parts" / "copying").iterdir())) == len(FILLERS) * len(LAYERS)
    monkeypatch.setattr(copying, "measure", None)  # nothing is computed again
    assert copying.run(settings) == study
