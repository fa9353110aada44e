"""Texts that belong to somebody: TOFU's authors (Maini et al. 2024) and Synthea's patients."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .settings import Settings

_PAIRS_AN_AUTHOR = 20  # in order, in TOFU's files
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


def tofu(settings: Settings, whole: bool) -> Corpus:
    """Pairs about invented authors: all 4,000, or the 400 of forget10 and 400 of the others.

    The splits are TOFU's own: 1, 5 and 10 % of its 200 authors.
    """
    folder = settings.file("tofu")
    rows = _lines(folder / "forget10.json")
    if not whole:
        rows = [row for row in rows if row["task_id"] == "1"]
    rows += _lines(folder / "retain10.json")
    pairs = [(row["question"], row["answer"]) for row in rows]
    author = {pair: f"author {i // _PAIRS_AN_AUTHOR}" for i, pair in enumerate(pairs)}
    splits = {
        split: tuple(
            dict.fromkeys(
                author[row["question"], row["answer"]]
                for row in _lines(folder / f"{split}.json")
                if row["task_id"] == "1"
            )
        )
        for split in _TOFU_SPLITS
    }
    questions, answers = zip(*pairs, strict=True)
    return Corpus("TOFU", questions, answers, tuple(author[pair] for pair in pairs), splits)


def synthea(settings: Settings, people: int) -> Corpus:
    """Sentences about the first invented patients; a question is a sentence without its secret.

    The splits are one patient, 5 % and 10 % of the patients.
    """
    rows = _lines(settings.file("synthea", "patient_sentences.jsonl.gz"))[:people]
    answers = [sentence for row in rows for sentence in row["sentences"]]
    subjects = [row["patient"] for row in rows for _ in row["sentences"]]
    names = tuple(dict.fromkeys(subjects))
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


def _lines(path: Path) -> list[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
