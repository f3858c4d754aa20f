"""Common English words of 3 to 8 letters, in words.txt beside this file; some of them with a clue, in clues.txt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SHORTEST, LONGEST = 3, 8


@cache
def words_of(length: int) -> tuple[str, ...]:
    return tuple(word for word in every_word() if len(word) == length)


@cache
def words_between(shortest: int, longest: int) -> tuple[str, ...]:
    return tuple(word for length in range(shortest, longest + 1) for word in words_of(length))


@cache
def every_word() -> tuple[str, ...]:
    """Return the words in the file's order."""
    return tuple(Path(__file__).with_name("words.txt").read_text(encoding="ascii").split())


@cache
def every_clue() -> dict[str, str]:
    """Return the words of clues.txt, each with its clue."""
    lines = Path(__file__).with_name("clues.txt").read_text(encoding="ascii").splitlines()
    return dict(line.split(": ", 1) for line in lines)


@cache
def clued_between(shortest: int, longest: int) -> tuple[str, ...]:
    """Return the words with a clue of these lengths."""
    return tuple(word for word in every_clue() if shortest <= len(word) <= longest)


def letter_counts(words: Iterable[str]) -> Counter[str]:
    """Return the number of words with each letter, in an order that no hash seed changes."""
    return Counter(letter for word in words for letter in dict.fromkeys(word))


def letters_of(text: str) -> str | None:
    """The letters a to z that a text spells, in small ones; blanks between them are nothing. None for other text."""
    letters = "".join(text.split())
    return letters.lower() if letters.isascii() and letters.isalpha() else None
