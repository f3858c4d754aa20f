"""The words: small letters, each once, enough of every length; text is read as letters or not at all."""

from __future__ import annotations

from rlx.env.game.words import LONGEST, SHORTEST, every_word, letter_counts, letters_of, words_of
from tests.loops import for_each


def test_words_are_of_small_letters_and_each_once() -> None:
    words = every_word()
    assert len(words) == len(set(words))
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
    assert {len(word) for word in words} == set(range(SHORTEST, LONGEST + 1))
    assert all(len(words_of(length)) > 300 for length in range(SHORTEST, LONGEST + 1))
    assert sum(len(words_of(length)) for length in range(SHORTEST, LONGEST + 1)) == len(words)


@for_each(
    "text, letters",
    [("Crane", "crane"), ("c r a n e", "crane"), (" a\t", "a"), ("", None), ("a1", None), ("é", None), ("ſ", None)],
)
def test_text_is_letters_or_nothing(text: str, letters: str | None) -> None:
    assert letters_of(text) == letters


def test_a_letter_counts_once_in_a_word() -> None:
    assert letter_counts(["eel", "bee", "cat"])["e"] == 2
