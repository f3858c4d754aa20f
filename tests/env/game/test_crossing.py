"""Boards with words: the same for a seed in every release, and found with little work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import sha256
from itertools import islice
from typing import Any

import pytest

from rlx.env.game.crossing import Board, Crossing, place_of, places_of
from rlx.env.game.crosswords import Crosswords
from rlx.env.game.word_search import WordSearch


def num_calls(work: Callable[[], Any]) -> int:
    """Count the calls of Python functions."""
    calls = [0]

    def count(frame: Any, event: str, argument: Any) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls[0]


@pytest.mark.parametrize(
    "game", [Crosswords(num_words=3, max_turns=30), WordSearch(), WordSearch(shortest=6, longest=8)]
)
def test_a_puzzle_takes_few_calls(game: Crossing) -> None:
    tasks = game.tasks("train", 0)
    next(tasks)
    assert num_calls(lambda: list(islice(tasks, 100))) < 100 * 600


def test_puzzles_are_those_of_earlier_releases() -> None:
    games = [
        *(kind(**keywords) for kind in (WordSearch, Crosswords) for keywords in ({}, {"random": True})),
        *(kind(num_words=10, shortest=3, longest=8) for kind in (WordSearch, Crosswords)),
    ]
    drawn = [repr((task.id, dict(task.data))) for game in games for task in islice(game.tasks("train", 1), 40)]
    assert sha256("".join(drawn).encode()).hexdigest()[:16] == "9e0d6d3e72729634"


def test_places_are_numbered_as_they_are_listed() -> None:
    assert [place_of("abc", place, 5) for place in range(30)] == list(places_of("abc", 5))
    board = Board(5)
    board.put(place_of("abcde", 4, 5))  # across, in row 2
    crossing = [place_of("xcx", place, 5) for place in board.crossings("xcx") if board.is_free("xcx", place)]
    assert crossing == [("xcx", 1, 2, "down")]
