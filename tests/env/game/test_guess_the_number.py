"""Guess the number: the expert halves, hints are right, what is forbidden costs the turn, nonsense ends the game."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.guess_the_number import GuessTheNumber, describe, guess
from rlx.environment.expert import demonstration
from rlx.environment.world import dialect_of
from rlx.protocol.direct import Direct
from rlx.types import Action, Text

ENV = GuessTheNumber()
TASK = describe(20, 1, 50, 10)


def act(text: str) -> Action:
    return Action(kind="act", name="guess", text=text)


@pytest.mark.parametrize(("low", "high"), [(1, 50), (1, 2), (0, 999)])
def test_the_expert_halves_what_is_left(low: int, high: int) -> None:
    counts = []
    for number in range(low, high + 1):
        task = describe(number, low, high, 10)
        episode = ENV.start(task)
        steps = [episode.step(move.action) for move in ENV.demonstrate(task, 0, ())]
        assert [step.done for step in steps] == [False] * (len(steps) - 1) + [True]
        assert sum(step.reward for step in steps) == 1.0
        counts.append(len(steps))
    assert max(counts) == ceil(log2(high - low + 2))
    if (low, high) == (1, 50):
        assert sum(counts) / len(counts) == pytest.approx(4.86)


def test_an_expert_that_guesses_any_number_left_needs_longer() -> None:
    env, counts = GuessTheNumber(expert="any"), []
    for seed in range(20):
        for number in range(1, 51):
            moves = [int(move.action.text) for move in env.demonstrate(describe(number, 1, 50, 10), seed, ())]
            assert moves[-1] == number
            for index, guessed in enumerate(moves):  # on the side that every hint before it points to
                assert all((guessed - before) * (number - before) > 0 for before in moves[:index])
            counts.append(len(moves))
    assert sum(counts) / len(counts) == pytest.approx(6.18, abs=0.2), "2 (1 + 1/50) H_50 - 3"


def test_every_number_is_trained_on_and_tested() -> None:
    tested = {task.data["secret"] for task in ENV.tasks("test", 0)}
    trained = {task.data["secret"] for task, _ in zip(ENV.tasks("train", 0), range(1000))}
    assert tested == trained == set(range(1, 51))


def test_a_demonstration_ends_with_the_game() -> None:
    env = GuessTheNumber(expert="any")
    ends = [demonstration(env, dialect_of(env, Direct()), describe(n, 1, 50, 4), 0)[1] for n in range(1, 51)]
    assert max(len(shown) for shown in ends) == 4
    assert all(shown[-1].step.done and not any(one.step.done for one in shown[:-1]) for shown in ends)
    assert any(shown[-1].step.truncated for shown in ends)


def test_hints_point_to_the_number() -> None:
    episode = ENV.start(TASK)
    assert episode.opening().observation == (Text("It is a number from 1 to 50."),)
    said = [episode.step(guess(number)).observation[0].text for number in (10, 30, 10, 51)]
    assert said == ["higher than 10", "lower than 30", "you guessed 10 before", "51 is not from 1 to 50"]
    assert episode.step(guess(20)).success


@given(st.integers(1, 60), st.integers(0, 3))
def test_a_random_game_says_its_own_range(number: int, seed: int) -> None:
    env = GuessTheNumber(random=True)
    task = next(env.tasks("train", seed))
    low, high, turns = (task.data[name] for name in ("low", "high", "max_turns"))
    assert 1 <= low <= 10
    assert low + 5 <= high <= low + 50
    assert (turns - 2) ** 2 < high - low <= (turns - 1) ** 2
    episode = env.start(task)
    assert episode.opening().observation[0].text == f"It is a number from {low} to {high}."
    assert ("not from" in episode.step(guess(number)).observation[0].text) == (not low <= number <= high)


def test_what_was_guessed_is_kept_once() -> None:
    episode = ENV.start(describe(20, 1, 50, 10**6))
    for number in [7, 8, 99, 100] * 10:
        episode.step(guess(number))
    assert len(episode.guesses) == 2
