"""A memory of texts, ways to make it forget some, and what can still be read out of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import ks_2samp

from ..decay import decayed_read
from ..memory import SupportVectorMemory
from .corpora import Corpus
from .embeddings import Encoder

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Read = Callable[[Floats], Floats]

GAMMA = 8.0  # texts without a word in common are about 2 apart: their kernel value is 1e-7
NU = 0.25
FACTORS = (0.1, 0.01, 0.0001)
EXACT, KEEP, EVICT = "exact deletion", "nothing done", "eviction"
WRONG_ANSWERS = 5
CHANCE = 6.0  # standard deviations: once in 10^9 questions times candidates
DROPPED_WORDS = 0.2


def decay(factor: float) -> str:
    """Name of the method."""
    return f"decay to {factor:g}"


@dataclass(frozen=True)
class Tally:
    """What a method leaves behind, over the forgotten and a sample of the kept questions.

    Attributes
    ----------
    secrets, kept : int
        Questions asked of each sort.
    leaked, leaked_loosely : int
        Forgotten questions, asked word for word and with words missing, whose readout names an
        answer that should be gone.
    right, right_loosely : int
        Kept questions whose readout names their answer.
    quality : float
        p-value of a two-sample Kolmogorov-Smirnov test of the truth ratios against those of a
        memory that never saw the forgotten texts: TOFU's forget quality. 1: the same.
    distance : float
        The test's statistic: the largest difference of the two distributions.
    seconds : float
    """

    secrets: int
    kept: int
    leaked: int
    leaked_loosely: int
    right: int
    right_loosely: int
    quality: float
    distance: float
    seconds: float


def codes(answers: Sequence[str]) -> Floats:
    """One row of 256 signs an answer: the bits of its SHA-256; (n, 256)."""
    digests = b"".join(hashlib.sha256(answer.encode()).digest() for answer in answers)
    bits = np.unpackbits(np.frombuffer(digests, dtype=np.uint8).reshape(len(answers), 32), axis=1)
    signs: Floats = 1.0 - 2.0 * bits.astype(np.float64)
    return signs


def thinned(text: str, rng: np.random.Generator) -> str:
    """The text with about a fifth of its words left out, never all."""
    words = text.split()
    stays = rng.random(len(words)) >= DROPPED_WORDS
    stays[rng.integers(len(words))] = True
    return " ".join(word for word, stay in zip(words, stays, strict=True) if stay)


class TextMemory:
    """A corpus in a memory: key = embedded question, value = code of the answer.

    Parameters
    ----------
    corpus : Corpus
    encode : Encoder
    seed : int
        Of the words left out, the kept questions asked, and the wrong answers of truth ratios.
    asked : int
        How many kept questions to ask at most.
    """

    def __init__(self, corpus: Corpus, encode: Encoder, seed: int, asked: int) -> None:
        self.corpus = corpus
        self._encode = encode
        self._seed = seed
        self._asked = asked
        self._codes = codes(corpus.answers)
        # the same question or the same answer twice: each stands for the other
        number = {text: i for i, text in enumerate(dict.fromkeys(corpus.answers))}
        self._answer = np.array([number[text] for text in corpus.answers])

    @cached_property
    def _keys(self) -> Floats:
        return self._encode(self.corpus.questions)

    @cached_property
    def memory(self) -> SupportVectorMemory:
        """The memory that holds everything, in canonical form."""
        n = len(self.corpus)
        memory = SupportVectorMemory.from_nu(NU, n, gamma=GAMMA)
        return self._filled(memory, np.arange(n))

    @property
    def support(self) -> float:
        """Share of rows with weight."""
        return float((self.memory.weights > 0).mean())

    def forgetting(self, people: Sequence[str]) -> dict[str, Any]:
        """Forget these subjects by every method.

        Returns
        -------
        dict
            ``methods``: a :class:`Tally` as a dict for each; ``same_digest``, ``same_bits``: exact
            deletion against the memory that never saw them, digests and readouts of all questions;
            ``rebuilt``: seconds to build that memory; ``support``.
        """
        gone = np.isin(self.corpus.subjects, people)
        secret, rest = np.flatnonzero(gone), np.flatnonzero(~gone)
        contract = self.memory.contract
        start = perf_counter()
        never = self._filled(SupportVectorMemory.from_contract(contract), rest)
        rebuilt = perf_counter() - start
        rng = np.random.default_rng([self._seed, 1])
        kept = np.sort(rng.choice(rest, min(self._asked, len(rest)), replace=False))
        # an answer that a kept row gives too is no secret
        secret = secret[~np.isin(self._answer[secret], self._answer[rest])]
        wrong = rng.choice(rest, (len(secret), WRONG_ANSWERS))
        secrets = self._answer[secret]
        asked, loose = self._keys[kept], self._loosely(kept)
        probed, probed_loosely = self._keys[secret], self._loosely(secret)
        ideal = self._truth_ratios(never.read(probed), secret, wrong)

        tallies: dict[str, dict[str, Any]] = {}
        same_bits = same_digest = False
        for name, change in self._methods(people, np.flatnonzero(gone)).items():
            start = perf_counter()
            read, memory = change()
            seconds = perf_counter() - start
            readout = read(probed)
            test = ks_2samp(self._truth_ratios(readout, secret, wrong), ideal)
            tally = Tally(
                secrets=len(secret),
                kept=len(kept),
                leaked=self._leaked(readout, secrets),
                leaked_loosely=self._leaked(read(probed_loosely), secrets),
                right=self._right(read(asked), kept),
                right_loosely=self._right(read(loose), kept),
                quality=float(test.pvalue),
                distance=float(test.statistic),
                seconds=seconds,
            )
            tallies[name] = asdict(tally)
            if name == EXACT:
                same_digest = memory.digest() == never.digest()
                every = np.concatenate([self._keys, probed_loosely, loose])
                same_bits = read(every).tobytes() == never.read(every).tobytes()
        return {
            "methods": tallies,
            "same_digest": same_digest,
            "same_bits": same_bits,
            "rebuilt": rebuilt,
            "support": self.support,
        }

    def _loosely(self, rows: Ints) -> Floats:
        """Keys of these questions asked with words missing."""
        seeds = ([self._seed, 0, int(row)] for row in rows)
        texts = [
            thinned(self.corpus.questions[row], np.random.default_rng(seed))
            for row, seed in zip(rows, seeds, strict=True)
        ]
        return self._encode(texts)

    def _filled(self, memory: SupportVectorMemory, rows: Ints) -> SupportVectorMemory:
        memory.add(
            self._keys[rows],
            self._codes[rows],
            ids=rows.tolist(),
            subjects=[self.corpus.subjects[row] for row in rows],
        )
        memory.canonicalise()
        return memory

    def _methods(
        self, people: Sequence[str], gone: Ints
    ) -> dict[str, Callable[[], tuple[Read, SupportVectorMemory]]]:
        """What each method does to the memory, and how one reads it then."""
        whole = self.memory

        def exact() -> tuple[Read, SupportVectorMemory]:
            memory = whole.copy()
            for person in people:
                memory.forget(subject=person)
            memory.canonicalise()
            return memory.read, memory

        def evicted() -> tuple[Read, SupportVectorMemory]:
            memory = whole.copy()
            lightest = np.argsort(whole.weights, kind="stable")[: len(gone)]
            memory.forget(ids=[whole.ids[row] for row in lightest])
            return memory.read, memory

        def decayed(factor: float) -> Callable[[], tuple[Read, SupportVectorMemory]]:
            ids = [str(row) for row in gone]
            return lambda: (lambda points: decayed_read(whole, ids, points, factor), whole)

        return {
            KEEP: lambda: (whole.read, whole),
            EVICT: evicted,
            **{decay(factor): decayed(factor) for factor in FACTORS},
            EXACT: exact,
        }

    def _named(self, readouts: Floats) -> Ints:
        """The answer whose code is nearest to each readout, among all that were ever held.

        -1 where the nearest is no nearer than chance would bring one of them: the product of a
        readout with a code that has no part in it is about normal, its deviation the readout's
        length.
        """
        products = readouts @ self._codes.T  # (q, n)
        nearest = products.argmax(axis=1)
        sure = products.max(axis=1) > CHANCE * np.linalg.norm(readouts, axis=1)
        return np.where(sure, nearest, -1)

    def _leaked(self, readouts: Floats, secrets: Ints) -> int:
        named = self._named(readouts)
        return int((np.isin(self._answer[named], secrets) & (named >= 0)).sum())

    def _right(self, readouts: Floats, rows: Ints) -> int:
        questions = self.corpus.questions
        answer = self._answer.tolist()
        return sum(
            named >= 0 and (answer[named] == answer[row] or questions[named] == questions[row])
            for named, row in zip(self._named(readouts).tolist(), rows.tolist(), strict=True)
        )

    def _truth_ratios(self, readouts: Floats, rows: Ints, wrong: Ints) -> Floats:
        """Log of (mean probability of wrong answers / probability of the right one), per row.

        An answer's probability is the softmax over the products of its code with the readout; its
        normaliser drops out of the ratio.
        """
        right = (readouts * self._codes[rows]).sum(axis=1)
        others = np.einsum("qd,qwd->qw", readouts, self._codes[wrong])
        ratios: Floats = logsumexp(others, axis=1) - np.log(wrong.shape[1]) - right
        return ratios
