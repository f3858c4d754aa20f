"""Sudoku: the board, what a digit is worth, and why one does not stand."""

from __future__ import annotations

from itertools import islice

import pytest

from rlx.env.game.sudoku import Sudoku, describe
from rlx.types import Action, Step

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
