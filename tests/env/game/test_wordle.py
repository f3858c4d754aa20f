"""Wordle: marks are right for letters that come twice, rewards add up, the expert's words fit what it was told."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.wordle import Wordle, describe, guess, marks
from rlx.env.game.words import words_of
from tests.loops import for_each

ENV = Wordle()
TASK = describe("crane", 20)
WORDS = st.text("abc", min_size=5, max_size=5)


@for_each(
    "word, guessed, found",
    [
        ("crane", "crane", "GGGGG"),
        ("crane", "nacre", "YYYYG"),
        ("crane", "geese", "XXXXG"),
        ("geese", "eerie", "YGXXG"),
        ("abbey", "babes", "YYGGX"),
        ("apple", "puppy", "YXGXX"),
        ("crane", "moist", "XXXXX"),
    ],
)
def test_marks_by_hand(word: str, guessed: str, found: str) -> None:
    assert marks(word, guessed) == found


@given(WORDS, WORDS)
def test_marks_count_each_letter_of_the_word_once(word: str, guessed: str) -> None:
    found = marks(word, guessed)
    assert [mark == "G" for mark in found] == [one == other for one, other in zip(word, guessed)]
    for letter in "abc":
        marked = sum(mark != "X" for mark, guess in zip(found, guessed) if guess == letter)
        assert marked == min(Counter(word)[letter], Counter(guessed)[letter])


def test_a_letter_in_place_is_paid_once_and_the_word_by_the_rest() -> None:
    episode = ENV.start(TASK)
    steps = [episode.step(guess(word)) for word in ("crown", "crimp", "plane", "crane")]
    assert [step.reward for step in steps] == pytest.approx([0.2, 0.0, 0.3, 0.5])
    assert steps[0].observation[0].text == "c r o w n\nG G X X Y"
    assert steps[-1].success


@for_each("length", (3, 5, 8))
def test_the_guesses_of_the_expert_fit_all_marks(length: int) -> None:
    env = Wordle(length=length)
    for seed, task in enumerate(islice(env.tasks("train", 0), 10)):
        word = task.data["word"]
        guesses = [move.action.text for move in env.demonstrate(task, seed, ())]
        assert guesses[-1] == word
        for place, one in enumerate(guesses):
            assert all(marks(one, earlier) == marks(word, earlier) for earlier in guesses[:place])


def test_random_tries_are_words() -> None:
    assert {action.text for action in ENV.random_tries(TASK, 50, 0)} <= set(words_of(5))
