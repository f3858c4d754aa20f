"""Crosswords: letters go where they belong, each is paid once, there are turns for all of them."""

from __future__ import annotations

import re
from itertools import islice

from rlx.env.game.crossing import Laid, letters_on
from rlx.env.game.crosswords import Crosswords, describe
from rlx.env.game.words import LONGEST, SHORTEST, every_clue
from rlx.types import Action, Step
from tests.loops import for_each

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


@for_each("env", [ENV, HARD, Crosswords(num_words=3, max_turns=20, random=True), Crosswords(num_words=9)])
def test_a_puzzle_has_so_many_words_their_clues_and_a_turn_for_each_letter(env: Crosswords) -> None:
    for task in islice(env.tasks("train", 0), 30):
        words = [Laid(*word) for word in task.data["words"]]
        assert len(words) == env.num_words
        assert [every_clue()[one.word] for one in words] == task.data["clues"]
        assert len(letters_on(words, task.data["side"])) <= env.max_turns


def test_random_tries_are_letters_in_cells_to_be_filled() -> None:
    tries = ENV.random_tries(TASK, 999, 0)
    assert sum(ENV.start(TASK).step(action).reward > 0 for action in tries) == 5
