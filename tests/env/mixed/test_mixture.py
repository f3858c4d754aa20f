"""A mixture's stream of tasks: by weight, in one order, each part's own tasks to their end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.countdown.countdown import Countdown
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.environment import Environment
from rlx.environment.world import part_of, trained_parts
from tests.errors import raises_naming
from tests.loops import for_each

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


class Counted(float):
    """A weight that knows how often all of them were looked at."""

    looks: ClassVar = [0]

    def __rtruediv__(self, other: float) -> float:
        self.looks[0] += 1
        return other / float(self)


def test_the_next_task_costs_the_same_however_many_parts_there_are() -> None:
    mixture = Mixture(parts={f"p{i}": Portion(env=ENVS["b"], weight=Counted(1 + i % 3)) for i in range(50)})
    assert len(list(islice(mixture.tasks("train", 0), 200))) == 200
    assert Counted.looks[0] <= 250


def test_the_test_split_goes_on_until_all_parts_have_ended() -> None:
    counts = Counter(task.env for task in mix(1.0, 1.0).tasks("test", 0))
    assert counts == {"a": 3, "b": len(list(ENVS["b"].tasks("test", 0)))}


def test_a_test_may_take_the_parts_evenly_and_training_goes_by_their_weights() -> None:
    mixture = replace(mix(3.0, 1.0), even_test=True)
    assert Counter(task.env for task in islice(mixture.tasks("test", 0), 6)) == {"a": 3, "b": 3}
    assert Counter(task.env for task in islice(mixture.tasks("train", 0), 8)) == {"a": 6, "b": 2}


def test_a_part_of_no_weight_is_evaluated_and_never_trained_on() -> None:
    mixture = mix(1.0, 0.0, 2.0)
    assert {task.env for task in islice(mixture.tasks("train", 0), 50)} == {"a", "c"}
    assert {task.env for task in islice(mixture.tasks("test", 0), 4)} == {"a", "b", "c"}
    assert set(trained_parts(mixture)) == {"a", "c"}
    chosen = replace(mixture, curriculum_floor=0.1).curriculum
    assert chosen is not None
    assert set(chosen.begin()) == {"a", "c"}


def test_what_is_asked_about_a_task_is_asked_of_its_part() -> None:
    mixture = mix(1.0, 1.0)
    first, second = islice(mixture.tasks("train", 0), 2)
    assert (part_of(mixture, first), part_of(mixture, second)) == (ENVS["a"], ENVS["b"])
    assert (mixture.max_rounds, part_of(mixture, first).max_rounds) == (None, 8)
    with raises_naming(ValueError, "env:", repr(second.id), repr(second.env)):
        part_of(mix(1.0), second)


@for_each(
    "parts, place",
    [
        ({}, "parts={}"),
        ({"eval": Portion(env=Countdown())}, "parts=eval"),
        ({"a/b": Portion(env=Countdown())}, "parts=a/b"),
        ({"a": Portion(env=mix(1.0))}, "parts=a"),
    ],
)
def test_what_is_no_mixture_is_refused(parts: dict[str, Portion], place: str) -> None:
    with raises_naming(ValueError, place):
        Mixture(parts=parts)
    with raises_naming(ValueError, "weight=-1"):
        Portion(env=Countdown(), weight=-1)
    with raises_naming(ValueError, "parts:", "weight", 0):
        mix(0.0, 0.0)
