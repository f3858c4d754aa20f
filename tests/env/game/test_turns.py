"""Turns by hand: the answer, the reward and the end; what is forbidden costs a turn, and a last turn pays in part."""

from __future__ import annotations

import pytest

from rlx.env.game import (
    crosswords,
    fifteen_puzzle,
    guess_the_number,
    hangman,
    mastermind,
    minesweeper,
    sokoban,
    tower_of_hanoi,
    word_search,
    wordle,
)
from rlx.env.game.crossing import Laid
from rlx.env.game.sokoban_rooms import room_of
from rlx.types import Action
from tests.env.game.options import make
from tests.loops import for_each

HOT, ION = Laid("hot", 0, 1, "down"), Laid("ion", 1, 0, "across")
TASKS = {
    "crosswords": crosswords.describe([HOT, ION], ["not cold", "it has a charge"], 4, 20),
    "fifteen_puzzle": fifteen_puzzle.describe((1, 2, 3, 4, 5, 6, 0, 7, 8), 3, 2),
    "guess_the_number": guess_the_number.describe(20, 1, 50, 2),
    "hangman": hangman.describe("geese", 20),
    "mastermind": mastermind.describe((3, 1, 4, 2), 8, False, 3),
    "minesweeper": minesweeper.describe([0, 1, 9, 20, 24, *range(2, 11)], 5, 5, 5, 25),
    "sokoban": sokoban.describe(room_of(["#######", "#PXO__#", "#_X___#", "#_O___#", "#######"]), 5, 2),
    "tower_of_hanoi": tower_of_hanoi.describe("CACC", 2),
    "word_search": word_search.describe(["xhxx", "ionx", "xtxz", "zzzz"], [HOT, ION], 20),
    "wordle": wordle.describe("crane", 20),
}
GOES_ON, WON, LOST, CUT = (False, False, None), (True, False, True), (True, False, False), (True, True, False)
"""`done`, `truncated` and `success` of a step."""
TURNS = [
    ("crosswords", "1 1 o; 0 4 h", "0 4 is not on the board", 0.0, GOES_ON),
    ("crosswords", "1 1 o; 0 0 h", "no letter belongs at 0 0", 0.0, GOES_ON),
    ("crosswords", "1 1 o; 1 1 o", "1 1 is filled already", 0.0, GOES_ON),
    ("crosswords", "1 1 o; 0 1 x", "0 1 is not x", 0.0, GOES_ON),
    ("fifteen_puzzle", "down", "moved 4 down", 0.0, GOES_ON),
    ("fifteen_puzzle", "down; right", "nothing can slide right", 5 / 9, CUT),
    ("guess_the_number", "30", "lower than 30", 0.0, GOES_ON),
    ("guess_the_number", "30; 20", "correct", 1.0, WON),
    ("guess_the_number", "30; 30", "you guessed 30 before", 1 - 10 / 49, CUT),
    ("guess_the_number", "30; 50", "lower than 50", 1 - 30 / 49, CUT),
    ("guess_the_number", "30; 51", "51 is not from 1 to 50", 0.0, CUT),
    ("hangman", "geese", "correct", 1.0, WON),
    ("mastermind", "1 2 3", "the code has 4 digits", 0.0, GOES_ON),
    ("mastermind", "1 2 3 9", "digits are from 1 to 8", 0.0, GOES_ON),
    ("mastermind", "0 1 2 3", "digits are from 1 to 8", 0.0, GOES_ON),
    ("mastermind", "3 1 5 6", "3 1 5 6: black 2 white 0", 0.5, GOES_ON),
    ("mastermind", "3 1 5 6; 3 1 5 6", "you guessed 3 1 5 6 before", 0.0, GOES_ON),
    ("mastermind", "5 6 7 8; 5 6 7 8; 3 1 2 4", "3 1 2 4: black 2 white 2", 0.5, CUT),
    ("minesweeper", "2 2; 5 0", "5 0 is not on the board", 0.0, GOES_ON),
    ("minesweeper", "2 2; 0 5", "0 5 is not on the board", 0.0, GOES_ON),
    ("minesweeper", "2 2; 2 2", "2 2 is revealed already", 0.0, GOES_ON),
    ("minesweeper", "2 2; 0 0", "that was a mine", 0.0, LOST),
    ("sokoban", "right; up", "a wall is in the way", 0.5, CUT),
    ("tower_of_hanoi", "A B", "moved disk 3 from A to B", 0.0, GOES_ON),
    ("tower_of_hanoi", "A B; A B", "tower A is empty", 0.75, CUT),
    ("word_search", "0 1 0 4", "0 1 0 4 is not on the board", 0.0, GOES_ON),
    ("word_search", "0 1 2 3", "words are across or down, not 0 1 2 3", 0.0, GOES_ON),
    ("word_search", "0 0 0 2", "no hidden word is at 0 0 0 2", 0.0, GOES_ON),
    ("word_search", "1 1 1 1", "no hidden word is at 1 1 1 1", 0.0, GOES_ON),
    ("word_search", "0 1 2 1", "found hot, 1 word left", 0.5, GOES_ON),
    ("word_search", "0 1 2 1; 2 1 0 1", "you tried 2 1 0 1 before", 0.0, GOES_ON),
    ("word_search", "0 1 2 1; 2 1 0 1; 0 1 2 1", "you tried 0 1 2 1 before", 0.0, GOES_ON),
    ("wordle", "cranes", "the word has 5 letters", 0.0, GOES_ON),
    ("wordle", "a", "the word has 5 letters", 0.0, GOES_ON),
    ("wordle", "react; R e a c t", "you guessed react before", 0.0, GOES_ON),
]
"""Games, turns, and of the last one: the answer without the board, the reward and the end."""


@for_each("game, turns, answer, reward, end", TURNS)
def test_a_turn_by_hand(game: str, turns: str, answer: str, reward: float, end: tuple[bool, bool, bool | None]) -> None:
    env, task = make(f"game/{game}"), TASKS[game]
    episode = env.start(task)
    opening = episode.opening().observation
    for text in turns.split("; "):
        is_verb = text in {verb.name for verb in env.actions}
        action = Action(kind="act", name=text if is_verb else env.actions[0].name, text="" if is_verb else text)
        step = episode.step(action)
    (said,) = step.observation
    first, has_board, _ = said.text.partition("\n")
    assert first == answer
    assert bool(has_board) == (end in (GOES_ON, CUT) and any("\n" in part.text for part in opening))
    assert step.reward == pytest.approx(reward)
    assert (step.done, step.truncated, step.success) == end
