"""Texts that belong to somebody: TOFU's authors (Maini et al. 2024) and Synthea's patients."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .settings import MissingError, Settings, reading

_PAIRS_AN_AUTHOR = 20  # in order, in TOFU's files
_TOFU = ("task_id", "question", "answer")  # what its lines are read for
_TOFU_SPLITS = ("forget01", "forget05", "forget10")
_DAY = re.compile(r"\b(\d{4})-\d\d-\d\d\b")
_SOCIAL_SECURITY = re.compile(r"\b\d{3}-\d\d-\d{4}\b")


@dataclass(frozen=True)
class Corpus:
    """Questions and answers, each pair with the person it is about.

    Attributes
    ----------
    name : str
    questions, answers, subjects : tuple of str
        Aligned.
    splits : dict
        Name of a deletion request to the subjects that it names.
    """

    name: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    subjects: tuple[str, ...]
    splits: dict[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.questions)

    def mark(self) -> str:
        """Hash of all pairs and their people: what a result computed from them depends on."""
        texts = json.dumps([self.questions, self.answers, self.subjects])
        return hashlib.sha256(texts.encode()).hexdigest()[:16]


def tofu(settings: Settings, whole: bool) -> Corpus:
    """Pairs about invented authors: all 4,000, or the 400 of forget10 and 400 of the others.

    The splits are TOFU's own: 1, 5 and 10 % of its 200 authors.

    Raises
    ------
    MissingError
        If one of its files is not in the data folder.
    """
    forget = {split: settings.file("tofu", f"{split}.json") for split in _TOFU_SPLITS}
    retain = settings.file("tofu", "retain10.json")
    rows = _lines(forget["forget10"], *_TOFU)
    pairs = [(question, answer) for task, question, answer in rows if whole or task == "1"]
    pairs += _lines(retain, "question", "answer")
    author = {pair: f"author {i // _PAIRS_AN_AUTHOR}" for i, pair in enumerate(pairs)}
    splits: dict[str, tuple[str, ...]] = {}
    for split, path in forget.items():
        rows = _lines(path, *_TOFU)
        with reading(path):  # every pair must be one of forget10's
            asked = [author[question, answer] for task, question, answer in rows if task == "1"]
        splits[split] = tuple(dict.fromkeys(asked))
    questions, answers = zip(*pairs, strict=True)
    return Corpus("TOFU", questions, answers, tuple(author[pair] for pair in pairs), splits)


def synthea(settings: Settings, people: int) -> Corpus:
    """Sentences about the first invented patients; a question is a sentence without its secret.

    The splits are one patient, 5 % and 10 % of the patients.

    Raises
    ------
    MissingError
        If the file is not in the data folder, or holds fewer patients.
    """
    path = settings.file("synthea", "patient_sentences.jsonl.gz")
    rows = _lines(path, "patient", "sentences")[:people]
    answers = [sentence for _, sentences in rows for sentence in sentences]
    subjects = [patient for patient, sentences in rows for _ in sentences]
    names = tuple(dict.fromkeys(subjects))
    if len(names) < people:
        raise MissingError(f"needs {people} patients with sentences, {path} has {len(names)}")
    splits = {
        "1 patient": names[:1],
        "5 %": names[: round(0.05 * people)],
        "10 %": names[: round(0.10 * people)],
    }
    questions = tuple(cue(answer) for answer in answers)
    return Corpus("Synthea", questions, tuple(answers), tuple(subjects), splits)


def cue(sentence: str) -> str:
    """A sentence with days cut down to their year and without social security numbers."""
    return _SOCIAL_SECURITY.sub("", _DAY.sub(r"\1", sentence))


def _lines(path: Path, *names: str) -> list[Any]:
    """What each line of the file has under these names, as tuples."""
    opened = gzip.open if path.suffix == ".gz" else open
    with reading(path), opened(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
        if not rows:
            raise ValueError("it is empty")
        return [tuple(row[name] for name in names) for row in rows]
