"""Minesweeper: the first cell is never a mine, numbers count, blanks open, flags protect, the expert takes no risk that
it need not take."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.minefield import risks
from rlx.env.game.minesweeper import CLEARED, Minesweeper, describe, reveal
from rlx.types import Action, Step
from tests.loops import for_each

ENV = Minesweeper(rows=5, cols=5, num_mines=5, max_turns=25)
TASK = describe([0, 1, 9, 20, 24, *range(2, 11)], 5, 5, 5, 25)
"""If one begins in the middle:

* * 1 1 1
2 2 1 1 *
0 0 0 1 1
1 1 0 1 1
* 1 0 1 *
"""


def flag(row: int, col: int) -> Action:
    return Action(kind="act", name="flag", text=f"{row} {col}")


def said(step: Step) -> str:
    return step.observation[0].text.split("\n")[0]


def board(step: Step) -> str:
    return step.observation[0].text.partition("\n")[2]


def test_a_board_by_hand() -> None:
    episode = ENV.start(TASK)
    opening = "  0 1 2 3 4\n" + "\n".join(f"{row} . . . . ." for row in range(5))
    assert episode.opening().observation[0].text == opening
    step = episode.step(reveal(2, 2))
    assert said(step) == "15 cells revealed"
    assert board(step) == "  0 1 2 3 4\n0 . . . . .\n1 2 2 1 1 .\n2 0 0 0 1 .\n3 1 1 0 1 .\n4 . 1 0 1 ."
    assert step.reward == 15 / 20


@for_each("first", range(25))
def test_wherever_one_begins_there_is_no_mine_nor_beside_it(first: int) -> None:
    for task in islice(ENV.tasks("train", 0), 20):
        episode = ENV.start(task)
        step = episode.step(reveal(*divmod(first, 5)))
        assert not step.done or step.success
        assert step.success or board(step).split("\n")[first // 5 + 1].split(" ")[first % 5 + 1] == "0"
        assert len(episode.mines) == 5


@given(st.integers(3, 10), st.integers(3, 10), st.data())
def test_every_number_counts_the_mines_around_it(rows: int, cols: int, data: st.DataObject) -> None:
    most = rows * cols - CLEARED
    if most < 1:
        return
    env = Minesweeper(rows=rows, cols=cols, num_mines=data.draw(st.integers(1, most)), max_turns=100)
    task = next(env.tasks("train", data.draw(st.integers(0, 9))))
    episode = env.start(task)
    rewards = [episode.step(reveal(*data.draw(st.sampled_from([(0, 0), (1, 2), (2, 1)])))).reward]
    mines = {divmod(mine, cols) for mine in episode.mines}
    for cell in range(rows * cols):
        row, col = divmod(cell, cols)
        if (row, col) not in mines and episode.revealed()[cell] is None:
            rewards.append(episode.step(reveal(row, col)).reward)
        near = [(r, c) for r, c in mines if abs(r - row) < 2 and abs(c - col) < 2]
        assert (row, col) in mines or episode.revealed()[cell] == len(near)
    assert sum(rewards) == pytest.approx(1.0)


def test_a_flag_keeps_a_cell_from_being_revealed_until_it_is_taken() -> None:
    episode = ENV.start(TASK)
    assert said(episode.step(flag(3, 2))) == "flag put"
    assert said(episode.step(reveal(3, 2))) == "3 2 has a flag"
    assert not episode.mines
    step = episode.step(reveal(2, 2))
    assert said(step) == "11 cells revealed"
    assert board(step).endswith("3 1 1 F 1 .\n4 . . . . .")
    episode.step(flag(0, 0))
    assert said(episode.step(reveal(0, 0))) == "0 0 has a flag"
    assert said(episode.step(flag(3, 2))) == "flag taken"
    assert said(episode.step(reveal(3, 2))) == "4 cells revealed"
    assert said(episode.step(flag(3, 2))) == "3 2 is revealed already"


def test_all_safe_cells_win_without_a_flag() -> None:
    episode = ENV.start(TASK)
    steps = [episode.step(reveal(*cell)) for cell in [(2, 2), (0, 4), (0, 3), (0, 2), (2, 4), (3, 4)]]
    assert [said(step) for step in steps] == ["15 cells revealed", *["1 cell revealed"] * 4, "all clear"]
    assert steps[-1].success


def test_the_expert_takes_the_least_risk_and_wins_most_games() -> None:
    env = Minesweeper(num_mines=12, max_turns=64)
    wins = 0
    for seed, task in enumerate(islice(env.tasks("train", 0), 30)):
        episode = env.start(task)
        for move in env.demonstrate(task, seed, ()):
            risk = risks(episode.revealed(), 8, 12)
            row, col = map(int, move.action.text.split())
            assert risk[row * 8 + col] == min(risk.values())
            step = episode.step(move.action)
        wins += bool(step.success)
    assert wins >= 18
