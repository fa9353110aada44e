"""One trial: eight facts, of which one is forgotten in every way, and one corrected."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import one_hot

from ..decay import decayed_read
from .fact_models import (
    FACTS,
    SYMBOLS,
    FactSet,
    InMemory,
    InWeights,
    Projections,
    Recaller,
    as_memory,
    ascend,
    ask,
    descend,
    draw,
    train_network,
)

Floats = NDArray[np.float64]

FACTORS = (0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-6)
NOISY = 20
"""Noisy questions about each fact, besides the exact one."""

NETWORK = 150
"""Steps in which a network learns the facts."""

FINE_TUNE = 100
MOST_ASCENT = 200
RATE = 0.01

Read = Callable[[Floats], Floats]
"""Questions (q, 16) to a weight or logit for each symbol (q, 64)."""


@dataclass(frozen=True)
class Trial:
    """What is asked in one trial."""

    facts: FactSet
    one: int
    exact: Floats  # (8, 16) the persons
    noisy: Floats  # (8, NOISY, 16)

    @property
    def rest(self) -> list[int]:
        """All facts but the forgotten one."""
        return [i for i in range(FACTS) if i != self.one]

    def judge(self, read: Read, seconds: float) -> dict[str, float]:
        """Leak, and share of the other seven answered, exactly asked and with noise."""
        secrets = self.facts.secrets.numpy()
        exact = read(self.exact).argmax(axis=1)  # (8,)
        noisy = read(self.noisy.reshape(-1, self.noisy.shape[-1])).argmax(axis=1)
        noisy = noisy.reshape(FACTS, NOISY)
        return {
            "leak": float(exact[self.one] == secrets[self.one]),
            "noisy leak": float((noisy[self.one] == secrets[self.one]).mean()),
            "others": float((exact[self.rest] == secrets[self.rest]).mean()),
            "noisy others": float((noisy[self.rest] == secrets[self.rest, None]).mean()),
            "seconds": seconds,
        }


def trial(model: Projections, seed: int, number: int) -> dict[str, Any]:
    """Forget one of eight facts in every way; results by way, and the checks of exactness."""
    rng = torch.Generator().manual_seed(
        int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    )
    drawn = draw(1, rng)
    facts = FactSet(drawn.persons[0], drawn.secrets[0])
    one = int(torch.randint(FACTS, (1,), generator=rng))
    many = facts.persons[:, None].expand(-1, NOISY, -1)
    now = Trial(facts, one, facts.persons.numpy(), ask(many, rng).numpy())
    with torch.no_grad():
        weight = model.to_query.weight.numpy().T  # (16, 8)
    found: dict[str, Any] = _in_memory(model, now, weight)
    found |= _through_gradients(model, now, rng)
    found |= {"checks": _checks(model, now, weight), "editing": _edit(model, now, weight)}
    return found


def _in_memory(model: Projections, now: Trial, weight: Floats) -> dict[str, Any]:
    """Exact deletion and decay of a row."""
    memory = as_memory(model, now.facts)
    found = {"before": now.judge(lambda x: memory.read(x @ weight), 0.0)}

    def decayed(factor: float, questions: Floats) -> Floats:
        return decayed_read(memory, [now.one], questions @ weight, factor)

    for factor in FACTORS:
        start = time.perf_counter()
        decayed(factor, now.exact[:1])
        seconds = time.perf_counter() - start
        found[f"decay {factor:g}"] = now.judge(partial(decayed, factor), seconds)
    start = time.perf_counter()
    memory.forget(ids=now.one)
    seconds = time.perf_counter() - start
    found["exact"] = now.judge(lambda x: memory.read(x @ weight), seconds)
    return found


def _through_gradients(model: Projections, now: Trial, rng: torch.Generator) -> dict[str, Any]:
    """Ascent and fine-tuning of the memory's projections, and of facts in weights."""
    rest = FactSet(now.facts.persons[now.rest], now.facts.secrets[now.rest])
    seed = int(torch.randint(2**31, (1,), generator=rng))
    start = time.perf_counter()
    network = train_network(now.facts, NETWORK, seed)
    found = {"weights, before": _judged(now, InWeights(network), time.perf_counter() - start)}

    hosts: dict[str, Callable[[], Recaller]] = {
        "projections": lambda: InMemory(deepcopy(model), now.facts),
        "weights": lambda: InWeights(deepcopy(network)),
    }
    for host, fresh in hosts.items():
        changed = fresh()
        start = time.perf_counter()
        steps = ascend(changed, now.facts, now.one, MOST_ASCENT, RATE, rng)
        found[f"{host}, ascent"] = _judged(now, changed, time.perf_counter() - start)
        found[f"{host}, ascent"]["steps"] = float(steps)
        changed = fresh()
        start = time.perf_counter()
        descend(changed, rest, FINE_TUNE, RATE, rng)
        found[f"{host}, fine-tuning"] = _judged(now, changed, time.perf_counter() - start)
    start = time.perf_counter()
    anew = train_network(rest, NETWORK, seed)
    found["weights, anew"] = _judged(now, InWeights(anew), time.perf_counter() - start)
    return found


def _judged(now: Trial, model: Recaller, seconds: float) -> dict[str, float]:
    @torch.no_grad()
    def read(questions: Floats) -> Floats:
        return np.asarray(model.logits(torch.from_numpy(questions)).numpy())

    return now.judge(read, seconds)


def _checks(model: Projections, now: Trial, weight: Floats) -> dict[str, float]:
    """Compare the layer with the memory, and the memory after forgetting with never-saw."""
    questions = np.concatenate([now.exact, now.noisy.reshape(-1, now.exact.shape[1])])
    memory = as_memory(model, now.facts)
    with torch.no_grad():
        layer = model.answer(torch.from_numpy(questions), now.facts).numpy()
    apart = float(np.abs(layer - memory.read(questions @ weight)).max())
    memory.forget(ids=now.one)
    never_saw = as_memory(model, now.facts, leave_out=now.one)
    same_digest = memory.digest() == never_saw.digest()  # both in canonical form from here on
    after, other = memory.read(questions @ weight), never_saw.read(questions @ weight)
    return {
        "layer apart": apart,
        "same digest": float(same_digest),
        "same bits": float(after.tobytes() == other.tobytes()),
        "secret weight": float(np.abs(after[:, int(now.facts.secrets[now.one])]).max()),
    }


def _edit(model: Projections, now: Trial, weight: Floats) -> dict[str, float]:
    """Correct one fact by forgetting it and adding it with another symbol."""
    memory = as_memory(model, now.facts)
    memory.canonicalise()
    old, before = memory.weights[now.rest], memory.read(now.exact @ weight)
    held = set(now.facts.secrets.tolist())
    new = next(symbol for symbol in range(SYMBOLS) if symbol not in held)
    key = memory.keys[now.one : now.one + 1]
    start = time.perf_counter()
    memory.forget(ids=now.one)
    memory.add(key, one_hot(torch.tensor([new]), SYMBOLS).double().numpy(), ids=[now.one])
    seconds = time.perf_counter() - start
    secrets = now.facts.secrets.clone()
    secrets[now.one] = new
    only_saw = as_memory(model, FactSet(now.facts.persons, secrets))
    same_digest = memory.digest() == only_saw.digest()
    order = [memory.ids.index(str(i)) for i in now.rest]
    after = memory.read(now.exact @ weight)
    others = np.delete(np.arange(SYMBOLS), [new, int(now.facts.secrets[now.one])])
    return {
        "corrected": float(after[now.one].argmax() == new),
        "others answer as before": float(
            (after[now.rest].argmax(1) == before[now.rest].argmax(1)).mean()
        ),
        "same weights": float(memory.weights[order].tobytes() == old.tobytes()),
        "same readout": float(after[:, others].tobytes() == before[:, others].tobytes()),
        "same digest": float(same_digest),
        "seconds": seconds,
    }
