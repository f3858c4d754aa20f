"""Guess the number: the expert halves, hints are right, nonsense is answered, splits never overlap."""

from __future__ import annotations

from itertools import islice
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.guess_the_number import GuessTheNumber, guess
from rlx.types import Action, Text

ENV = GuessTheNumber()
TASK = ENV.describe(20)


@pytest.mark.parametrize(("low", "high"), [(1, 50), (1, 2), (-7, 8), (0, 999)])
def test_the_expert_halves_what_is_left(low: int, high: int) -> None:
    env = GuessTheNumber(low=low, high=high)
    counts = []
    for number in range(low, high + 1):
        episode = env.start(env.describe(number))
        steps = [episode.step(move.action) for move in env.demonstrate(env.describe(number), 0, ())]
        assert [step.done for step in steps] == [False] * (len(steps) - 1) + [True]
        assert sum(step.reward for step in steps) == 1.0
        assert steps[-1].metrics == {"guesses": len(steps)}
        counts.append(len(steps))
    assert max(counts) == ceil(log2(high - low + 2))
    if (low, high) == (1, 50):
        assert sum(counts) / len(counts) == pytest.approx(4.86)


def test_hints_point_to_the_number() -> None:
    episode = ENV.start(TASK)
    assert episode.opening().observation == (Text("It is a number from 1 to 50."),)
    said = [episode.step(guess(number)).observation for number in (10, 30)]
    assert said == [(Text("higher"),), (Text("lower"),)]
    assert episode.step(guess(20)).success


@given(st.text(max_size=30))
def test_any_text_is_answered(text: str) -> None:
    step = ENV.start(TASK).step(Action(kind="act", name="guess", text=text))
    assert step.done == (text.strip() == "20")


@pytest.mark.parametrize("text", ["", "51", "0", "٢٠", "2" * 99, "20.0", "1e1", "--20", "0x14"])
def test_what_is_no_number_in_range_costs_nothing_but_the_turn(text: str) -> None:
    step = ENV.start(TASK).step(Action(kind="act", name="guess", text=text))
    assert step.observation == (Text("Error: guess a number from 1 to 50"),)
    assert not step.done


def test_splits_never_overlap_and_the_test_has_each_number_once() -> None:
    test = [task.id for task in ENV.tasks("test", 0)]
    assert test == [task.id for task in ENV.tasks("test", 1)]
    assert len(test) == len(set(test)) >= 5
    assert set(test).isdisjoint(task.id for task in islice(ENV.tasks("train", 0), 500))
    assert [t.id for t in islice(ENV.tasks("train", 0), 9)] != [t.id for t in islice(ENV.tasks("train", 1), 9)]
    smallest = GuessTheNumber(high=2)
    assert [next(smallest.tasks(split, 0)).data["secret"] for split in ("train", "test")] == [1, 2]


def test_random_tries_are_distinct_guesses() -> None:
    tries = ENV.random_tries(TASK, 8, 0)
    assert len({action.text for action in tries}) == 8
    assert len(ENV.random_tries(TASK, 99, 0)) == 50
    assert {action.name for action in tries} == {"guess"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"high": 1}, "^high=1: expected a number above low=1"), ({"max_rounds": -1}, "^max_rounds=-1")],
)
def test_ranges_that_hold_nothing_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GuessTheNumber(**wrong)
