"""Games as chance makes them: the sizes that are drawn, random tries, and how often and how soon experts win."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from itertools import islice
from typing import Any

import pytest

from rlx.env.game import crosswords, guess_the_number, hangman, mastermind, word_search, wordle
from rlx.env.game.crossing import Laid
from rlx.env.game.crosswords import Crosswords
from rlx.env.game.fifteen_puzzle import FifteenPuzzle
from rlx.env.game.game_2048 import Game2048
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.env.game.hangman import Hangman
from rlx.env.game.mastermind import Mastermind
from rlx.env.game.minesweeper import Minesweeper
from rlx.env.game.sokoban import Sokoban
from rlx.env.game.sudoku import Sudoku
from rlx.env.game.word_search import WordSearch
from rlx.env.game.wordle import Wordle
from rlx.types import Task
from tests.env.steps import played
from tests.loops import for_each

Size = Callable[[Mapping[str, Any]], object]
SIZES: list[tuple[Any, Size, int, set[Any]]] = [
    (FifteenPuzzle, lambda data: data["num_rows"], 60, {(2, 10), (3, 20), (4, 50)}),
    (Game2048, lambda data: data["target"], 60, {(16, 20), (32, 30), (64, 50)}),
    (Hangman, lambda data: len(data["word"]), 60, {(3, 10), (5, 15), (7, 20)}),
    (Mastermind, lambda data: (len(data["code"]), data["highest"]), 60, {((2, 4), 10), ((4, 6), 20), ((4, 8), 30)}),
    (Minesweeper, lambda data: (data["rows"], data["cols"], data["num_mines"]), 40,
     {((side, side, side**2 // 5), side**2) for side in range(5, 9)}),
    (Sokoban, lambda data: len(data["rows"]), 20, {(6, 20), (8, 50)}),
    (Sudoku, lambda data: data["puzzle"].count("0"), 30, {(9, 15), (47, 50)}),
    (Wordle, lambda data: len(data["word"]), 60, {(3, 15), (4, 20), (5, 25)}),
]  # fmt: skip
"""Games, the size of a task, tasks to draw, and all sizes with their turns."""


@for_each("game, size, num, expected", SIZES)
def test_random_games_are_of_these_sizes(game: Any, size: Size, num: int, expected: set[Any]) -> None:
    drawn = [task.data for task in islice(game(random=True).tasks("train", 0), num)]
    assert {(size(data), data["max_turns"]) for data in drawn} == expected


HOT, ION = Laid("hot", 0, 1, "down"), Laid("ion", 1, 0, "across")
TRIES: list[tuple[Any, Task, int, int]] = [
    (Crosswords(), crosswords.describe([HOT, ION], ["", ""], 4, 20), 999, 5 * 26),
    (GuessTheNumber(), guess_the_number.describe(20, 1, 50, 10), 8, 8),
    (GuessTheNumber(), guess_the_number.describe(20, 1, 50, 10), 99, 50),
    (Hangman(), hangman.describe("geese", 20), 40, 40),
    (Mastermind(), mastermind.describe((3, 1, 4, 2), 8, False, 30), 40, 40),
    (Mastermind(), mastermind.describe((1, 2, 3, 4), 4, False, 9), 40, 24),
    (WordSearch(), word_search.describe(["xhxx", "ionx", "xtxz", "zzzz"], [HOT, ION], 20), 99, 16),
    (Wordle(), wordle.describe("crane", 20), 50, 50),
]
"""Games, tasks, tries to draw, and how many there are."""


@for_each("env, task, num, expected", TRIES)
def test_random_tries_are_distinct_and_as_many_as_there_are(env: Any, task: Task, num: int, expected: int) -> None:
    tries = env.random_tries(task, num, 0)
    assert len({action.text for action in tries}) == len(tries) == expected


EXPERTS: list[tuple[Any, int, int, Container[int]]] = [
    (Crosswords(num_words=3, max_turns=30), 30, 30, range(1, 31)),
    (Crosswords(num_words=3, shortest=6, longest=8, max_turns=40), 30, 30, range(1, 41)),
    (Crosswords(num_words=3, max_turns=20, random=True), 30, 30, range(1, 21)),
    (Crosswords(num_words=9), 30, 30, range(1, 101)),
    (Game2048(target=64, max_turns=50), 30, 27, range(1, 51)),
    (Hangman(length=3, max_turns=10), 20, 12, range(1, 11)),
    (Hangman(length=5, max_turns=15), 20, 18, range(1, 16)),
    (Hangman(length=7, max_turns=20), 20, 20, range(1, 21)),
    (Mastermind(highest=8, max_turns=30), 50, 50, range(1, 10)),
    (Mastermind(length=2), 50, 50, range(1, 7)),
    (Mastermind(repeats=True), 50, 50, range(1, 12)),
    (Sokoban(num_rows=6, num_columns=6, num_boxes=2, max_turns=20), 8, 8, range(2, 21)),
    (Sokoban(num_rows=8, num_columns=8, num_boxes=4, max_turns=50), 8, 8, range(4, 51)),
    (Sokoban(num_rows=8, num_columns=8, num_boxes=5, max_turns=50), 8, 8, range(5, 51)),
    (Sudoku(size=4, clues=7, max_turns=15), 5, 5, range(1, 16)),
    (Sudoku(clues=34, max_turns=50), 5, 5, range(1, 51)),
    (Sudoku(clues=28, max_turns=81), 5, 5, range(1, 82)),
    (Wordle(length=3), 10, 10, range(1, 13)),
    (Wordle(length=5), 10, 10, range(1, 10)),
    (Wordle(length=8), 10, 10, range(1, 6)),
]
"""Games, tasks to play, games that are won at least, and the turns that each may take."""


@for_each("env, num, least, turns", EXPERTS)
def test_experts_win_within_these_turns(env: Any, num: int, least: int, turns: Container[int]) -> None:
    wins = 0
    for seed, task in enumerate(islice(env.tasks("train", 0), num)):
        moves = env.demonstrate(task, seed, ())
        steps = list(played(env.start(task), (move.action for move in moves)))
        assert len(steps) in turns
        assert steps[-1].done
        if steps[-1].success:
            assert sum(step.reward for step in steps) == pytest.approx(1.0)
            assert next(moves, None) is None, "the expert goes on after the end"
        wins += bool(steps[-1].success)
    assert wins >= least
