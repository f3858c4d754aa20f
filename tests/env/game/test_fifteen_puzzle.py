"""Fifteen puzzle: every start can be solved in its slides, the expert's way is the shortest on small boards."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.fifteen_puzzle import FifteenPuzzle, Tiles, describe, in_order, shuffle, solve
from rlx.types import Action, Text

ENV = FifteenPuzzle()


def slide(name: str) -> Action:
    return Action(kind="act", name=name, text="")


def distances(num_rows: int) -> dict[Tiles, int]:
    """How far each position is from the order, by the rules alone."""
    far = {in_order(num_rows): 0}
    for tiles in (queue := list(far)):
        gap = tiles.index(0)
        for place in range(num_rows**2):
            if abs(gap // num_rows - place // num_rows) + abs(gap % num_rows - place % num_rows) == 1:
                other = list(tiles)
                other[gap], other[place] = other[place], 0
                if tuple(other) not in far:
                    far[tuple(other)] = far[tiles] + 1
                    queue.append(tuple(other))
    return far


def test_all_small_boards_are_solved_by_the_shortest_way() -> None:
    far = distances(2)
    assert (len(far), max(far.values())) == (12, 6)
    for tiles, distance in far.items():
        assert len(solve(tiles, 2, 1.0)) == distance


@given(st.integers(2, 4), st.integers(1, 30), st.integers(0, 10**6))
def test_the_expert_solves_any_start_within_its_slides(num_rows: int, distance: int, seed: int) -> None:
    task = describe(shuffle(Random(seed), num_rows, distance), num_rows, 60)
    episode = ENV.start(task)
    steps = [episode.step(move.action) for move in ENV.demonstrate(task, 0, ())]
    assert steps[-1].success
    assert [step.reward for step in steps] == [0.0] * (len(steps) - 1) + [1.0]
    if num_rows < 4:
        assert len(steps) <= distance


@pytest.mark.slow
def test_the_shortest_ways_of_three_rows_are_those_of_a_search_of_all_positions() -> None:
    far = distances(3)
    assert (len(far), max(far.values())) == (181440, 31)
    for tiles in Random(0).sample(sorted(far), 300):
        assert len(solve(tiles, 3, 1.0)) == far[tiles]


def test_a_game_shows_the_board_and_says_what_cannot_slide() -> None:
    episode = ENV.start(describe((1, 2, 3, 4, 5, 6, 0, 7, 8), 3, 20))
    assert episode.opening().observation == (Text("1 2 3\n4 5 6\n. 7 8"),)
    said = [episode.step(slide(name)).observation[0].text for name in ("right", "up", "down", "up", "left", "left")]
    assert said == [
        "nothing can slide right\n1 2 3\n4 5 6\n. 7 8",
        "nothing can slide up\n1 2 3\n4 5 6\n. 7 8",
        "moved 4 down\n1 2 3\n. 5 6\n4 7 8",
        "moved 4 up\n1 2 3\n4 5 6\n. 7 8",
        "moved 7 left\n1 2 3\n4 5 6\n7 . 8",
        "solved",
    ]


def test_numbers_of_two_digits_stand_in_columns() -> None:
    start = ENV.start(describe(in_order(4), 4, 50)).opening().observation[0].text
    assert start == " 1  2  3  4\n 5  6  7  8\n 9 10 11 12\n13 14 15  ."


@pytest.mark.parametrize("size", [(2, 10), (3, 20), (4, 50)])
def test_starts_are_near_enough_and_never_in_order(size: tuple[int, int]) -> None:
    num_rows, max_turns = size
    for task in islice(FifteenPuzzle(num_rows=num_rows, max_turns=max_turns).tasks("train", 0), 100):
        assert tuple(task.data["tiles"]) != in_order(num_rows)
        if num_rows < 4:
            assert len(solve(tuple(task.data["tiles"]), num_rows, 1.0)) <= max_turns
    near = FifteenPuzzle(num_rows=num_rows, distance=1)
    assert len({task.id for task in islice(near.tasks("train", 0), 30)}) <= 2


def test_shuffling_takes_no_slide_back() -> None:
    far = [len(solve(shuffle(Random(seed), 4, 4), 4, 1.0)) for seed in range(400)]
    assert all(70 < far.count(distance) < 130 for distance in (1, 2, 3, 4))


def test_all_eleven_small_starts_are_in_the_splits() -> None:
    env = FifteenPuzzle(num_rows=2, max_turns=10)
    starts = {task.id for task in islice(env.tasks("train", 0), 500)} | {task.id for task in env.tasks("test", 0)}
    assert len(starts) == 11
