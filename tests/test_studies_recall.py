"""The distinct-key recall study: its measure, its readouts, and one tiny run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory import SupportVectorMemory  # noqa: E402
from svmemory.studies import recall as study_module  # noqa: E402
from svmemory.studies.recall import CAP, GAMMA, PAIRS, PAPER, Head, draw, recall  # noqa: E402
from svmemory.studies.result import Study, Verdict  # noqa: E402
from svmemory.studies.settings import Settings  # noqa: E402


def test_recall_counts_readouts_that_are_nearest_to_their_own_value():
    values = torch.tensor([[[0.0], [1.0], [5.0]]])
    assert recall(values, values) == 1.0
    assert recall(torch.tensor([[[0.4], [0.4], [2.0]]]), values) == pytest.approx(1 / 3)
    assert recall(values.flip(1), values) == pytest.approx(1 / 3)


def test_the_gated_head_reads_as_an_exact_memory_does():
    torch.manual_seed(1)
    head = Head("gate").double()
    keys, values = (x.double() for x in draw(1, torch.Generator().manual_seed(0)))
    with torch.no_grad():
        q, k = head.to_query(keys)[0].numpy(), head.to_key(keys)[0].numpy()
        read = head(keys, values)[0].numpy()
    memory = SupportVectorMemory(GAMMA, CAP, 1e-3)
    memory.add(k, values[0].numpy())
    assert np.abs(read - memory.read(q)).max() < 1e-9
    sets = memory.partition
    assert head.support(keys) == (len(sets.margin) + len(sets.error)) / PAIRS


def test_the_ungated_head_is_a_weighted_mean_with_gaussian_weights():
    torch.manual_seed(1)
    head = Head("ungated RBF").double()
    keys, values = (x.double() for x in draw(2, torch.Generator().manual_seed(0)))
    with torch.no_grad():
        q, k = head.to_query(keys).numpy(), head.to_key(keys).numpy()
        read = head(keys, values).numpy()
    for b in range(2):
        weights = np.exp(-GAMMA * ((q[b][:, None] - k[b][None]) ** 2).sum(-1))
        expected = weights @ values[b].numpy() / weights.sum(1, keepdims=True)
        assert np.abs(read[b] - expected).max() < 1e-12


def test_all_ways_start_from_the_same_matrices_and_one_seed_gives_one_result():
    first = study_module.trained("softmax", 3, 2, 10)
    assert study_module.trained("softmax", 3, 2, 10) == first
    assert study_module.trained("softmax", 4, 2, 10) != first
    assert study_module.trained("gate", 3, 0, 10)["support"] <= 1.0


def test_a_gate_that_wins_is_reported_as_a_difference():
    def part(value: float) -> dict[str, float]:
        return {"recall": value, "error": 0.1, "support": 1.0}

    def verdict(gate: list[float]) -> Verdict:
        found = {"gate": [part(x) for x in gate]}
        others = [part(x) for x in (0.95, 0.96, 0.95)][: len(gate)]
        found |= {way: others for way in PAPER if way != "gate"}
        study = Study("recall", "")
        study_module._findings(study, found)
        return next(f.verdict for f in study.findings if "minus" in f.what)

    assert verdict([0.97, 0.98, 0.98]) is Verdict.differs
    assert verdict([0.94, 0.95, 0.93]) is Verdict.met
    assert verdict([0.99]) is Verdict.shown  # one seed has no interval


def test_a_tiny_run_keeps_the_control_negative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    original = study_module.trained
    monkeypatch.setattr(
        study_module, "trained", lambda way, seed, steps, tests: original(way, seed, 40, 50)
    )
    study = study_module.run(Settings(tmp_path, tmp_path, quick=True, seeds=2))
    found = {f.what: f for f in study.findings}
    lead = found["recall, gate minus ungated Gaussian, seed by seed"]
    assert lead.ours < 0.05
    assert lead.verdict is Verdict.shown  # two seeds of 40 steps: nothing is claimed
    assert found["recall, gate"].ours > found["recall, softmax"].ours
    assert found["share of rows with weight, gate"].ours > 0.9
    assert (tmp_path / "recall.png").stat().st_size > 10_000
