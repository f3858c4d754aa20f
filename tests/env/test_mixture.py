"""A mixture's stream of tasks: by weight, in one order, each part's own tasks to their end."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.countdown import Countdown
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.env.mixture import Mixture, Portion
from rlx.types import Environment
from rlx.world import part_of, rounds_of

ENVS: dict[str, Environment] = {"a": Countdown(num_test=3), "b": GuessTheNumber(), "c": GuessTheNumber(low=7)}


def mix(*weights: float) -> Mixture:
    return Mixture(parts={name: Portion(env=ENVS[name], weight=weight) for name, weight in zip("abc", weights)})


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=3), st.integers(1, 60))
def test_every_start_of_the_stream_has_the_parts_by_their_weights(weights: list[float], num: int) -> None:
    counts = Counter(task.env for task in islice(mix(*weights).tasks("train", 0), num))
    for name, weight in zip("abc", weights):
        assert abs(counts[name] - num * weight / sum(weights)) < len(weights)


def test_each_parts_tasks_are_its_own_in_their_order() -> None:
    mixed = list(islice(mix(1.0, 2.0).tasks("train", 3), 12))
    for name in "ab":
        own = [task.id for task in mixed if task.env == name]
        assert own == [task.id for task in islice(ENVS[name].tasks("train", 3), len(own))]
    assert mixed == list(islice(mix(1.0, 2.0).tasks("train", 3), 12))
    assert len({task.key for task in mixed}) == len({(task.env, task.id) for task in mixed})


def test_the_test_split_goes_on_until_all_parts_have_ended() -> None:
    counts = Counter(task.env for task in mix(1.0, 1.0).tasks("test", 0))
    assert counts == {"a": 3, "b": len(list(ENVS["b"].tasks("test", 0)))}


def test_what_is_asked_about_a_task_is_asked_of_its_part() -> None:
    mixture = mix(1.0, 1.0)
    first, second = islice(mixture.tasks("train", 0), 2)
    assert (part_of(mixture, first), part_of(mixture, second)) == (ENVS["a"], ENVS["b"])
    assert (rounds_of(mixture), rounds_of(part_of(mixture, first))) == (None, 8)
    with pytest.raises(ValueError, match="which is none of"):
        part_of(mix(1.0), second)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, r"^parts=\{\}: expected at least one environment"),
        ({"eval": Portion(env=Countdown())}, "^parts=eval: expected names of lower-case letters"),
        ({"a/b": Portion(env=Countdown())}, "^parts=a/b: expected names"),
        ({"a": Portion(env=mix(1.0))}, "^parts=a: expected environments that are not mixtures"),
    ],
)
def test_what_is_no_mixture_is_refused(parts: dict[str, Portion], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mixture(parts=parts)
    with pytest.raises(ValueError, match=r"^weight=0: expected a number above 0"):
        Portion(env=Countdown(), weight=0)
