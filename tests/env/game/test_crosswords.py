"""Crosswords: letters go where they belong, each is paid once, there are turns for all of them."""

from __future__ import annotations

import re
from itertools import islice
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest

from rlx.env.game.crossing import Laid, letters_on
from rlx.env.game.crosswords import Crosswords, describe
from rlx.env.game.words import LONGEST, SHORTEST, every_clue
from rlx.types import Action, Step, Task

ENV = Crosswords(num_words=3, max_turns=30)
HARD = Crosswords(num_words=3, shortest=6, longest=8, max_turns=40)
TASK = describe([Laid("hot", 0, 1, "down"), Laid("ion", 1, 0, "across")], ["not cold", "it has a charge"], 4, 20)


def act(text: str) -> Action:
    return Action(kind="act", name="put", text=text)


def said(step: Step) -> str:
    return step.observation[0].text.split("\n")[0]


def test_clues_are_many_short_and_do_not_name_their_word() -> None:
    clues = every_clue()
    assert len(clues) == len(set(clues.values())) > 150
    for length in range(SHORTEST, LONGEST + 1):
        assert len([word for word in clues if len(word) == length]) >= 30
    for word, clue in clues.items():
        assert word.isascii()
        assert word.islower()
        assert SHORTEST <= len(word) <= LONGEST
        assert len(clue) < 80
        assert word not in re.findall(r"\w+", clue)


def test_a_game_by_hand() -> None:
    episode = ENV.start(TASK)
    assert TASK.prompt[0].text.endswith(
        "1. down from row 0 column 1, 3 letters: not cold\n2. across from row 1 column 0, 3 letters: it has a charge"
    )
    assert episode.opening().observation[0].text == "  0 1 2 3\n0 . _ . .\n1 _ _ _ .\n2 . _ . .\n3 . . . ."
    step = episode.step(act("1 1 O"))
    assert step.observation[0].text == "o is right\n  0 1 2 3\n0 . _ . .\n1 _ o _ .\n2 . _ . .\n3 . . . ."
    rewards = [episode.step(act(text)).reward for text in ("0 1 h", "2 1 t", "1 0 i")]
    assert [step.reward, *rewards] == [0.2] * 4
    last = episode.step(act("1 2 n"))
    assert (last.reward, last.success) == (0.2, True)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("0 4 h", "0 4 is not on the board"),
        ("0 0 h", "no letter belongs at 0 0"),
        ("1 1 o", "1 1 is filled already"),
        ("0 1 x", "0 1 is not x"),
    ],
)
def test_what_is_no_right_letter_costs_a_turn(text: str, answer: str) -> None:
    episode = ENV.start(TASK)
    episode.step(act("1 1 o"))
    step = episode.step(act(text))
    assert (said(step), step.reward, step.done) == (answer, 0.0, False)


@pytest.mark.parametrize(
    "env", [ENV, HARD, Crosswords(num_words=3, max_turns=20, random=True), Crosswords(num_words=9)]
)
def test_a_puzzle_has_so_many_words_their_clues_and_a_turn_for_each_letter(env: Crosswords) -> None:
    for task in islice(env.tasks("train", 0), 30):
        words = [Laid(*word) for word in task.data["words"]]
        assert len(words) == env.num_words
        assert [every_clue()[one.word] for one in words] == task.data["clues"]
        assert len(letters_on(words, task.data["side"])) <= env.max_turns


def test_random_tries_are_letters_in_cells_to_be_filled() -> None:
    tries = ENV.random_tries(TASK, 999, 0)
    assert sum(ENV.start(TASK).step(action).reward > 0 for action in tries) == 5


@pytest.mark.parametrize(
    ("name", "env"),
    [("easy", ENV), ("hard", HARD), ("easy", Crosswords(num_words=3, max_turns=20, random=True))],
    ids=["easy", "hard", "random"],
)
def test_gem_plays_the_same(gem: Any, name: str, env: Crosswords) -> None:
    """GEM's own random one cannot be made; the state brings its sizes."""
    for _, ours, theirs in gem.beside(env, f"game:Crosswords-v0-{name}", gem_state, random_words):
        for step, answer in zip(ours[1:], theirs[1:]):
            if "\n" in step.observation[0].text:
                rows = step.observation[0].text.split("\n")[2:]
                grid = re.findall(r"^R0?(\d+) (.*)$", answer["suffix"], re.MULTILINE)
                assert [row.upper().split() for row in rows] == [[number, *line.split()] for number, line in grid]
            if not step.truncated:
                for hint, own in AS_OURS.items():
                    assert hint not in answer["text"] or own in said(step)


AS_OURS = {
    "out of bounds": "is not on the board",
    "black dot": "no letter belongs",
    "already filled": "is filled already",
    "it is incorrect": "is not ",
    "correctly": "is right",
    "Congratulations": "all is filled",
}


def gem_state(task: Task) -> dict[str, Any]:
    side, words = task.data["side"], task.data["words"]
    letters = letters_on([Laid(*word) for word in words], side)
    cells = [[letters.get(row * side + col, ".") for col in range(side)] for row in range(side)]
    return {
        "solution": cells,
        "board": [["." if cell == "." else "_" for cell in row] for row in cells],
        "clues": dict(zip([word for word, *_ in words], task.data["clues"])),
        "placed_words": {word: [row, col, way] for word, row, col, way in words},
        "total_letter_cells": len(letters),
        "max_turns": task.data["max_turns"],
    }


def random_words(rng: Random, task: Task) -> list[str]:
    """Right letters in random order, some twice, some wrong, some elsewhere."""
    side = task.data["side"]
    letters = letters_on([Laid(*word) for word in task.data["words"]], side)
    told = [(*divmod(cell, side), letters[cell]) for cell in rng.sample(sorted(letters), len(letters))]
    for _ in range(rng.choice([0, 4, 8])):
        row, col, letter = rng.choice(told)
        wrong = [(row, col, rng.choice(ascii_lowercase)), (row, rng.randrange(side + 1), letter.upper())]
        told.insert(rng.randrange(len(told)), rng.choice(wrong))
    said = [f"{row} {col} {letter}" for row, col, letter in told]
    if rng.random() < 0.2:
        said[rng.randrange(len(said))] = rng.choice(["", "1 2", "0 0 1", "(0 1 a)"])
    return said
