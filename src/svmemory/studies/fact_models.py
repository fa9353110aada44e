"""Eight facts in a memory, eight facts in weights, and the trained projections of the memory.

A fact is a person (a vector in R^16) and a secret (one of 64 symbols). No two facts of a set have
the same secret. A question is a person's vector with noise; an answer is a distribution over the
symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from ..contract import Contract
from ..memory import SupportVectorMemory
from ..torch.gate import sv_attention

Floats = NDArray[np.float64]

FACTS = 8
PERSON = 16
SYMBOLS = 64
KEY = 8
HIDDEN = 64
NOISE = 0.2
"""Standard deviation, in every feature, between a question and the person it is about."""

CAP, RIDGE = 0.25, 1e-3
_LEAST = 1e-12  # keeps a logarithm finite where a symbol gets no weight


class FactSet(NamedTuple):
    """Persons (B, 8, 16) and secrets (B, 8), all different within a set."""

    persons: Tensor
    secrets: Tensor


def draw(sets: int, rng: torch.Generator) -> FactSet:
    """Random sets of facts."""
    persons = torch.randn(sets, FACTS, PERSON, generator=rng, dtype=torch.float64)
    lottery = torch.rand(sets, SYMBOLS, generator=rng)
    return FactSet(persons, lottery.topk(FACTS, dim=1).indices)


def ask(persons: Tensor, rng: torch.Generator) -> Tensor:
    """Questions about persons (..., 16): the same with noise."""
    noise = torch.randn(persons.shape, generator=rng, dtype=persons.dtype)
    return persons + NOISE * noise


class Recaller(Protocol):
    """Whatever has facts and parameters, and answers questions."""

    def logits(self, questions: Tensor) -> Tensor:
        """Log-probabilities, up to a constant, (q, 64) for questions (q, 16)."""

    def parameters(self) -> list[nn.Parameter]:
        """What unlearning by gradients may change."""


class Projections(nn.Module):
    """The trained part of the memory: where persons and questions go, and the kernel's width."""

    def __init__(self) -> None:
        super().__init__()
        self.to_key = nn.Linear(PERSON, KEY, bias=False, dtype=torch.float64)
        self.to_query = nn.Linear(PERSON, KEY, bias=False, dtype=torch.float64)
        self.log_gamma = nn.Parameter(torch.zeros((), dtype=torch.float64))

    @property
    def contract(self) -> Contract:
        """Contract of a memory of these keys."""
        return Contract.from_cap(float(self.log_gamma.detach().exp()), CAP, RIDGE)

    def answer(self, questions: Tensor, facts: FactSet) -> Tensor:
        """Weight on each symbol, (..., q, 64), for questions (..., q, 16)."""
        return sv_attention(
            self.to_query(questions),
            self.to_key(facts.persons),
            one_hot(facts.secrets, SYMBOLS).double(),
            gamma=self.log_gamma.exp(),
            C=CAP,
            ridge=RIDGE,
        )


@dataclass
class InMemory:
    """Facts as rows of a memory: gradients may change the projections, not the rows' secrets."""

    projections: Projections
    facts: FactSet

    def logits(self, questions: Tensor) -> Tensor:
        """Logarithm of the weight on each symbol."""
        answers = self.projections.answer(questions, self.facts)
        return answers.clamp_min(_LEAST).log()

    def parameters(self) -> list[nn.Parameter]:
        """The projections and the width."""
        return list(self.projections.parameters())


@dataclass
class InWeights:
    """Facts in the weights of a network with one hidden layer."""

    network: nn.Module

    def logits(self, questions: Tensor) -> Tensor:
        """The network's output."""
        out: Tensor = self.network(questions)
        return out

    def parameters(self) -> list[nn.Parameter]:
        """All weights."""
        return list(self.network.parameters())


def train_projections(steps: int, seed: int, batch: int = 16, lr: float = 0.01) -> Projections:
    """Learn to recall on ever new sets of facts."""
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Projections()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        facts = draw(batch, rng)
        answers = model.answer(ask(facts.persons, rng), facts).clamp_min(_LEAST).log()
        loss = nn.functional.nll_loss(answers.flatten(0, 1), facts.secrets.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def train_network(facts: FactSet, steps: int, seed: int, lr: float = 0.01) -> nn.Module:
    """Learn the facts (n, 16), (n,) of one set by heart."""
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Linear(PERSON, HIDDEN, dtype=torch.float64),
            nn.GELU(),
            nn.Linear(HIDDEN, SYMBOLS, dtype=torch.float64),
        )
    descend(InWeights(network), facts, steps, lr, rng)
    return network


def descend(model: Recaller, facts: FactSet, steps: int, lr: float, rng: torch.Generator) -> None:
    """Adam on the cross entropy of noisy questions about the facts (n, 16), (n,)."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        loss = cross_entropy(model.logits(ask(facts.persons, rng)), facts.secrets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def ascend(
    model: Recaller, facts: FactSet, one: int, most: int, lr: float, rng: torch.Generator
) -> int:
    """Adam *up* the cross entropy of one fact, until its question is answered otherwise.

    Returns
    -------
    int
        Steps taken, at most ``most``.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, maximize=True)
    person, secret = facts.persons[one : one + 1], facts.secrets[one : one + 1]
    for step in range(most):
        with torch.no_grad():
            if not bool((model.logits(person).argmax(-1) == secret).any()):
                return step
        loss = cross_entropy(model.logits(ask(person, rng)), secret)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return most


def as_memory(
    model: Projections, facts: FactSet, leave_out: int | None = None
) -> SupportVectorMemory:
    """The facts (8, 16), (8,) as rows of an exact memory at the layer's contract.

    Ids are "0" to "7"; a value is a secret as a row of zeros and a one.

    Parameters
    ----------
    model : Projections
    facts : FactSet
    leave_out : int, optional
        A fact that the memory is not to see.
    """
    with torch.no_grad():
        keys = model.to_key(facts.persons).numpy()
    values = one_hot(facts.secrets, SYMBOLS).double().numpy()
    rows = [i for i in range(len(keys)) if i != leave_out]
    memory = SupportVectorMemory.from_contract(model.contract)
    memory.add(keys[rows], values[rows], ids=rows)
    return memory
