"""The facts study: its models, its trial, and one tiny run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from svmemory.studies import fact_report, facts  # noqa: E402
from svmemory.studies.fact_models import (  # noqa: E402
    FACTS,
    SYMBOLS,
    FactSet,
    InMemory,
    InWeights,
    Projections,
    as_memory,
    ascend,
    descend,
    draw,
    train_projections,
)
from svmemory.studies.fact_trials import FACTORS, NOISY, Trial, trial  # noqa: E402
from svmemory.studies.result import Study, Verdict  # noqa: E402
from svmemory.studies.settings import Settings  # noqa: E402


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def model() -> Projections:
    return train_projections(30, seed=0)


@pytest.fixture(scope="module")
def found(model: Projections) -> dict:
    return trial(model, 0, 0)


def one_set(seed: int = 0) -> FactSet:
    sets = draw(1, rng(seed))
    return FactSet(sets.persons[0], sets.secrets[0])


def test_secrets_of_a_set_are_all_different():
    secrets = draw(200, rng()).secrets
    assert all(len(set(row.tolist())) == FACTS for row in secrets)
    assert set(secrets.flatten().tolist()) == set(range(SYMBOLS))


def test_memory_and_layer_answer_alike_and_give_weight_to_held_symbols_only(model):
    known = one_set()
    memory = as_memory(model, known)
    questions = torch.randn(5, 16, dtype=torch.float64, generator=rng(1))
    with torch.no_grad():
        layer = model.answer(questions, known).numpy()
        read = memory.read(model.to_query(questions).numpy())
    assert np.abs(layer - read).max() < 1e-9
    absent = np.setdiff1d(np.arange(SYMBOLS), known.secrets.numpy())
    assert (read[:, absent] == 0.0).all()
    assert np.allclose(read.sum(axis=1), 1.0)


def test_judging_counts_leaks_and_the_others():
    known = FactSet(torch.eye(FACTS, 16, dtype=torch.float64), torch.arange(FACTS))
    exact = known.persons.numpy()
    now = Trial(known, 2, exact, np.repeat(exact[:, None], NOISY, axis=1))
    perfect = now.judge(lambda x: x, 0.0)  # person i is the unit vector of symbol i
    assert (perfect["leak"], perfect["noisy leak"], perfect["others"]) == (1.0, 1.0, 1.0)
    moved = np.eye(16)
    moved[[2, 5]] = moved[[9, 9]]  # persons 2 and 5 now answer symbol 9
    changed = now.judge(lambda x: x @ moved, 0.0)
    assert (changed["leak"], changed["noisy leak"]) == (0.0, 0.0)
    assert changed["others"] == changed["noisy others"] == pytest.approx(6 / 7)


def test_ascent_stops_when_the_answer_has_changed_and_descent_brings_it_back():
    known = one_set()
    network = torch.nn.Linear(16, SYMBOLS, dtype=torch.float64)
    host = InWeights(network)
    descend(host, known, 200, 0.05, rng())
    assert (host.logits(known.persons).argmax(-1) == known.secrets).all()
    steps = ascend(host, known, 3, 500, 0.05, rng())
    assert 0 < steps < 500
    assert int(host.logits(known.persons[3:4]).argmax()) != int(known.secrets[3])
    assert ascend(host, known, 3, 500, 0.05, rng()) == 0
    descend(host, known, 200, 0.05, rng())
    assert (host.logits(known.persons).argmax(-1) == known.secrets).all()


def test_gradients_of_the_memory_reach_its_projections(model):
    known = one_set()
    host = InMemory(model, known)
    loss = host.logits(known.persons).square().mean()
    gradients = torch.autograd.grad(loss, host.parameters())
    assert all(bool(g.abs().max() > 0) for g in gradients)


def test_exact_deletion_leaks_nothing_and_is_never_saw_to_the_bit(found):
    assert found["exact"]["leak"] == found["exact"]["noisy leak"] == 0.0
    assert found["checks"]["secret weight"] == 0.0
    assert found["checks"]["same bits"] == found["checks"]["same digest"] == 1.0
    assert found["checks"]["layer apart"] < 1e-9
    assert found["exact"]["others"] >= found["before"]["others"]


def test_decay_leaves_the_secret_where_deletion_does_not(found):
    leaks = [found[f"decay {f:g}"]["noisy leak"] for f in FACTORS]
    assert leaks == sorted(leaks, reverse=True)  # the smaller the factor, the fewer leaks
    assert leaks[0] > 0.0


def test_an_edit_corrects_one_binding_and_leaves_the_others(found):
    edit = {name: value for name, value in found["editing"].items() if name != "seconds"}
    assert edit == dict.fromkeys(edit, 1.0)


def test_one_leak_after_deletion_would_be_reported(found):
    broken = {**found, "exact": {**found["exact"], "leak": 1.0}}
    study = Study("facts", "")
    fact_report.findings(study, [found, broken])
    leak = next(f for f in study.findings if f.what == "leak rate, exact deletion")
    assert (leak.ours, leak.verdict) == (0.5, Verdict.missed)


def test_a_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict):
    monkeypatch.setattr(facts, "trial", lambda model, seed, number: found)
    monkeypatch.setattr(facts, "train_projections", lambda steps, seed: None)
    study = facts.run(Settings(tmp_path, tmp_path, quick=True))
    by_name = {f.what: f for f in study.findings}
    assert by_name["leak rate, exact deletion"].ours == 0.0
    assert by_name["leak rate, exact deletion"].verdict is Verdict.met
    assert by_name["digest after deletion is that of never-saw"].verdict is Verdict.met
    assert by_name["edit: digest of a memory that only saw the new fact"].verdict is Verdict.met
    assert (tmp_path / "facts.png").stat().st_size > 10_000
