"""2048: tiles slide and merge by the rules, doublings are paid once, a seed brings the tiles that GEM draws from it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.game_2048 import DIRECTIONS, Game2048, describe, merge, slide, slides
from rlx.types import Action
from tests.loops import for_each

ENV = Game2048()
ROWS = st.lists(st.sampled_from([0, 0, 2, 2, 4, 8, 16]), min_size=2, max_size=6).map(tuple)
BOARDS = st.integers(2, 5).flatmap(
    lambda size: st.lists(
        st.lists(st.sampled_from([0, 2, 4]), min_size=size, max_size=size).map(tuple), min_size=size, max_size=size
    ).map(tuple)
)


def act(name: str) -> Action:
    return Action(kind="act", name=name, text="")


@for_each(
    "row, after",
    [
        ((2, 0, 0, 2), (4, 0, 0, 0)),
        ((2, 2, 2, 2), (4, 4, 0, 0)),
        ((2, 2, 2, 0), (4, 2, 0, 0)),
        ((4, 2, 2, 0), (4, 4, 0, 0)),
        ((4, 0, 2, 2), (4, 4, 0, 0)),
        ((0, 0, 0, 8), (8, 0, 0, 0)),
        ((2, 4, 2, 4), (2, 4, 2, 4)),
        ((8, 4, 4, 8), (8, 8, 8, 0)),
    ],
)
def test_rows_slide_by_hand(row: tuple[int, ...], after: tuple[int, ...]) -> None:
    assert merge(row) == after


@given(ROWS)
def test_a_slide_keeps_the_sum_and_leaves_no_gap(row: tuple[int, ...]) -> None:
    after = merge(row)
    assert (len(after), sum(after)) == (len(row), sum(row))
    assert after == tuple(sorted(after, key=lambda tile: tile == 0))


@given(BOARDS)
def test_directions_are_turns_of_one_another(board: tuple[tuple[int, ...], ...]) -> None:
    assert slide(board, "right") == tuple(row[::-1] for row in slide(tuple(row[::-1] for row in board), "left"))
    assert slide(board, "up") == tuple(zip(*slide(tuple(zip(*board)), "left")))
    assert slide(board, "down") == slide(board[::-1], "up")[::-1]
    if any(0 in row for row in board) and any(map(any, board)):
        assert slides(board)


def test_a_game_shows_the_board_and_says_what_does_not_move() -> None:
    episode = ENV.start(describe(3, 128, 4, 100))
    first = episode.opening().observation[0].text
    assert sorted(first.split()) == ["."] * 14 + ["2"] * 2
    episode.board = ((16, 2, 4, 8), (0,) * 4, (0,) * 4, (0,) * 4)
    episode.most = 16
    step = episode.step(act("left"))
    assert step.observation[0].text == "nothing moves left\n16  2  4  8\n" + "\n".join([" .  .  .  ."] * 3)
    assert (step.reward, step.done) == (0.0, False)


def test_doublings_are_paid_once_and_add_up_to_one() -> None:
    episode = ENV.start(describe(3, 32, 2, 100))
    episode.board, episode.most, episode.least = ((8, 8), (2, 0)), 8, 2
    assert episode.step(act("left")).reward == 1 / 4
    episode.board = ((8, 8), (2, 0))
    assert episode.step(act("left")).reward == 0.0
    episode.board = ((16, 16), (0, 0))
    step = episode.step(act("left"))
    assert (step.reward, step.success, step.observation[0].text) == (1 / 4, True, "reached 32")


def test_a_full_board_in_which_nothing_moves_ends_the_game() -> None:
    ends = 0
    for task in islice(Game2048(size=2, target=128, max_turns=1000).tasks("train", 0), 10):
        episode = ENV.start(task)
        steps = [episode.step(act(name)) for name in DIRECTIONS * 100 if not slides_are_over(episode)]
        assert (steps[-1].done, steps[-1].truncated, steps[-1].success) == (True, False, False)
        assert steps[-1].observation[0].text.startswith("nothing can move\n")
        assert not any(step.done for step in steps[:-1])
        ends += 1
    assert ends == 10


def slides_are_over(episode: Any) -> bool:
    return not slides(episode.board)
