"""BERT's tokenizer for lower-case English: words, then the longest pieces a vocabulary has."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_LONGEST_WORD = 100  # letters; longer ones are unknown


class WordPiece:
    """Text to numbers.

    Parameters
    ----------
    vocabulary : sequence of str
        Pieces by number. Pieces inside a word start with ``##``; ``[CLS]``, ``[SEP]`` and ``[UNK]``
        must be among them.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._number = {piece: i for i, piece in enumerate(vocabulary)}
        self._first, self._last = self._number["[CLS]"], self._number["[SEP]"]
        self._unknown = self._number["[UNK]"]

    def __call__(self, text: str, most: int) -> list[int]:
        """Numbers of a text's pieces between ``[CLS]`` and ``[SEP]``, at most ``most`` in all."""
        inside = [number for word in words(text) for number in self._pieces(word)]
        return [self._first, *inside[: most - 2], self._last]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            before = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._number.get(before + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def words(text: str) -> list[str]:
    """Words and punctuation marks, in lower case and without accents."""
    plain = "".join(
        letter
        for letter in unicodedata.normalize("NFD", text.lower())
        if unicodedata.category(letter) != "Mn"
    )
    spaced = []
    for letter in plain:
        kind = unicodedata.category(letter)
        if kind in ("Cc", "Cf") and letter not in "\t\n\r":
            continue
        spaced.append(f" {letter} " if _stands_alone(letter, kind) else letter)
    return "".join(spaced).split()


def _stands_alone(letter: str, kind: str) -> bool:
    """Punctuation, every ASCII sign, and Chinese characters are words of their own."""
    sign = letter.isascii() and letter.isprintable() and not letter.isalnum() and letter != " "
    return sign or kind.startswith("P") or "\u4e00" <= letter <= "\u9fff"
