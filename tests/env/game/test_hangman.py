"""Hangman: letters are shown where they stand, the word wins, rewards add up, the expert asks for likely letters."""

from __future__ import annotations

import pytest

from rlx.env.game.hangman import Hangman, describe, guess
from rlx.env.game.words import words_of
from rlx.types import Step

ENV = Hangman()
TASK = describe("geese", 20)


def said(step: Step) -> str:
    return step.observation[0].text


def test_a_game_by_hand() -> None:
    episode = ENV.start(TASK)
    assert said(episode.opening()) == "_ _ _ _ _"
    steps = [episode.step(guess(text)) for text in ("e", "a", "e", "crane", "eel", "g", "Geese")]
    assert [said(step) for step in steps] == [
        "e is in it\n_ e e _ e\ntried e",
        "a is not in it\n_ e e _ e\ntried e a",
        "you tried e before\n_ e e _ e\ntried e a",
        "it is not crane\n_ e e _ e\ntried e a",
        "the word has 5 letters\n_ e e _ e\ntried e a",
        "g is in it\ng e e _ e\ntried e a g",
        "correct",
    ]
    assert [step.reward for step in steps] == pytest.approx([0.3, 0, 0, 0, 0, 0.1, 0.6])
    assert steps[-1].success


def test_all_letters_shown_do_not_win_before_the_word_is_said() -> None:
    episode = ENV.start(TASK)
    steps = [episode.step(guess(text)) for text in ("g", "e", "s", "geese")]
    assert [step.done for step in steps] == [False, False, False, True]
    assert sum(step.reward for step in steps) == pytest.approx(1.0)
    assert steps[-1].reward == 0.5


def test_random_tries_are_letters_and_words() -> None:
    tries = [action.text for action in ENV.random_tries(TASK, 40, 0)]
    assert len([text for text in tries if len(text) == 1]) == 20
    assert {text for text in tries if len(text) > 1} <= set(words_of(5))
