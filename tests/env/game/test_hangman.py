"""Hangman: letters are shown where they stand, the word wins, rewards add up, the expert asks for likely letters."""

from __future__ import annotations

import re
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest

from rlx.env.game.hangman import Hangman, describe, guess
from rlx.env.game.words import words_of
from rlx.types import Step, Task

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


def test_the_word_at_once_is_worth_all() -> None:
    assert ENV.start(TASK).step(guess("geese")).reward == 1.0


def test_random_tries_are_letters_and_words() -> None:
    tries = [action.text for action in ENV.random_tries(TASK, 40, 0)]
    assert len([text for text in tries if len(text) == 1]) == 20
    assert {text for text in tries if len(text) > 1} <= set(words_of(5))


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("easy", Hangman(length=3, max_turns=10)),
        ("hard", Hangman(length=7)),
        ("random", Hangman(random=True)),
    ],
)
def test_gem_plays_the_same(gem: Any, name: str, env: Hangman) -> None:
    for _, ours, theirs in gem.beside(env, f"game:Hangman-v0-{name}", gem_state, random_words):
        for step, answer in zip(ours[1:], theirs[1:]):
            first, *rest = said(step).split("\n")
            if rest:
                grid = answer["suffix"].split("\n")[2]
                assert rest[0].split() == grid.lower().split()
            for hint, own in AS_OURS.items():
                assert re.search(hint, answer["text"]) is None or re.search(own, first)


AS_OURS = {
    "already been guessed before": "^you tried . before",
    "that is in the secret": "^. is in it",
    "that is not in the secret": "^. is not in it",
    "which is incorrect": "^it is not ",
    "but the secret word is of length": "^the word has ",
    "Congratulations": "^correct",
}


def gem_state(task: Task) -> dict[str, Any]:
    word = task.data["word"]
    sizes = {"word_length": len(word), "max_turns": task.data["max_turns"]}
    return {"secret_word": word.upper(), "board": ["_"] * len(word), **sizes}


def random_words(rng: Random, task: Task) -> list[str]:
    """Letters and words, the right word in half of the games."""
    word = task.data["word"]

    def one() -> str:
        letters = [rng.choice(ascii_lowercase), rng.choice(word)]
        return rng.choice([*letters, *letters, rng.choice(words_of(len(word))), rng.choice(words_of(4)), "E"])

    texts = [one() for _ in range(task.data["max_turns"])]
    if rng.random() < 0.5:
        texts[rng.randrange(len(texts))] = rng.choice([word, word.upper()])
    if rng.random() < 0.2:
        texts[rng.randrange(len(texts))] = rng.choice(["", "1", "cr4ne", "a, b"])
    return texts
