"""Text that people read: what could make a screen show something else than was signed."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"  # invisible, and part of how Persian and Indic names are spelt


def strange(text: str) -> str | None:
    """Name, as ``U+202E``, of the first character that is no plain text; None if there is none.

    Not plain are control and format characters (among them those that turn the reading direction),
    line and paragraph separators, surrogates, and code points without a character.
    """
    return next((f"U+{ord(letter):04X}" for letter in text if not _plain(letter)), None)


def visible(text: object) -> str:
    r"""Text for a terminal: what is not plain is written as ``\u202e``."""
    return "".join(letter if _plain(letter) else _escaped(letter) for letter in str(text))


def _plain(letter: str) -> bool:
    kind = unicodedata.category(letter)
    return letter in _JOINERS or not (kind.startswith("C") or kind in ("Zl", "Zp"))


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
