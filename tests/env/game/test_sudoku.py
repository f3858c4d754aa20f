"""Sudoku: the board, what a digit is worth, and why one does not stand."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import pytest

from rlx.env.game.sudoku import Sudoku, describe
from rlx.types import Action, Step, Task

ENV = Sudoku(size=4, clues=7, max_turns=15)
TASK = describe([1, 2, 0, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 0], [1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1], 15)
BOARD = """c: 1 2 | 3 4
1: 1 2 | . 4
2: 3 4 | 1 2
3: 2 1 | 4 3
4: 4 3 | 2 ."""


def fill(text: str) -> Action:
    return Action(kind="act", name="fill", text=text)


def said(step: Step) -> str:
    return step.observation[0].text


def test_a_game_shows_the_board_and_says_why_a_digit_does_not_stand() -> None:
    episode = ENV.start(TASK)
    assert said(episode.opening()) == BOARD
    assert said(episode.step(fill("1 3 4"))) == f"row 1 column 3 is not 4\n{BOARD}"
    assert said(episode.step(fill("1 1 3"))) == f"row 1 column 1 is 1 already\n{BOARD}"
    for text in ("0 1 1", "1 5 1", "1 1 5"):
        assert said(episode.step(fill(text))) == f"rows, columns and digits are from 1 to 4\n{BOARD}"
    after = BOARD.replace("1 2 | .", "1 2 | 3")
    assert episode.step(fill("1  3 3")) == Step(
        observation=(type(TASK.prompt[0])(f"row 1 column 3 is 3\n{after}"),), reward=0.5
    )
    step = episode.step(fill("4 4 1"))
    assert (said(step), step.reward, step.success) == ("solved", 0.5, True)


def test_nine_columns_are_three_boxes() -> None:
    board = said(Sudoku().start(next(Sudoku().tasks("train", 0))).opening()).split("\n")
    assert board[0] == "c: 1 2 3 | 4 5 6 | 7 8 9"
    assert [line[:3] for line in board[1:]] == [f"{row}: " for row in range(1, 10)]
    assert all(len(line) == len(board[0]) for line in board)


@pytest.mark.parametrize("env", [ENV, Sudoku(clues=34, max_turns=50), Sudoku(clues=28, max_turns=81)])
def test_the_expert_fills_each_cell_once_and_says_what_is_hard(env: Sudoku) -> None:
    for task in islice(env.tasks("train", 0), 5):
        moves = list(env.demonstrate(task, 0, ()))
        assert len(moves) == task.data["puzzle"].count("0")
        assert any("search" in move.thought or "Only with" in move.thought for move in moves) == (
            task.data["grade"] == 3
        )


def test_a_task_says_how_many_cells_are_empty_and_its_grade() -> None:
    for grade in (1, 2, 3):
        for task in islice(Sudoku(clues=32, grade=grade).tasks("train", 0), 10):
            num_empty = task.data["puzzle"].count("0")
            assert f"{num_empty} cells are empty" in task.prompt[0].text
            assert num_empty <= 49
            assert 1 <= task.data["grade"] <= grade


@pytest.mark.parametrize(
    ("name", "env"),
    [("easy", ENV), ("hard", Sudoku(clues=34, max_turns=50)), ("random", Sudoku(random=True))],
)
def test_gem_plays_the_same(gem: Any, name: str, env: Sudoku) -> None:
    for _, ours, theirs in gem.beside(env, f"game:Sudoku-v0-{name}", gem_state, gem_words):
        for step, answer in zip(ours, theirs):
            if "\n" in said(step):
                board = [line.replace("|", "").split()[1:] for line in said(step).split("\n") if "c:" not in line]
                rows = [line.replace("|", "").split()[1:] for line in answer["suffix"].split("\n") if line[:1] == "R"]
                assert board[-len(rows) :] == rows
            for why, ours_says in AS_OURS.items():
                assert step.truncated or (why in answer["text"]) == (ours_says in said(step))


AS_OURS = {
    "out of bounds": "are from 1 to",
    "already filled": "already",
    "violates Sudoku rules": "is not",
    "Congratulations": "solved",
}


def gem_state(task: Task) -> dict[str, Any]:
    puzzle, solution = (rows_of(task.data[name]) for name in ("puzzle", "solution"))
    num_empty = task.data["puzzle"].count("0")
    sizes = {"scale": len(puzzle), "max_turns": task.data["max_turns"], "init_num_empty": num_empty}
    return {"board": puzzle, "full_grid": solution, **sizes}


def rows_of(digits: str) -> list[list[int]]:
    size = int(len(digits) ** 0.5)
    return [[int(digit) for digit in digits[start : start + size]] for start in range(0, size**2, size)]


def gem_words(rng: Random, task: Task) -> list[str]:
    """Mostly right digits, in half of the games all of them, some that do not stand; sometimes what cannot be read."""
    words = [move.action.text for move in ENV.demonstrate(task, 0, ())]
    if rng.random() < 0.5:
        words = [word if rng.random() < 0.6 else " ".join(map(str, rng.choices(range(10), k=3))) for word in words]
        words += words[: task.data["max_turns"] - len(words)]
    if rng.random() < 0.2:
        words[rng.randrange(len(words))] = rng.choice(["", "x", "1 2", "1,2,3", "1 2 a"])
    return words
