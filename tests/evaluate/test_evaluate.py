from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, product
from typing import Any, Literal

import pytest

from rlx.environment import Environment, Episode
from rlx.evaluation.budget import cut_episode
from rlx.evaluation.evaluate import Evaluate, evaluate, held_out
from rlx.evaluation.floor import FloorError, floor, random_score
from rlx.types import Action, Completion, Sampling, Start, Step, Task, Trajectory, Turn
from tests.errors import raises_naming
from tests.loops import for_each


@dataclass
class Digit(Episode):
    digit: int

    def step(self, action: Action) -> Step:
        return Step(done=True, success=action == Action(kind="answer", text=str(self.digit)))


@dataclass(frozen=True, kw_only=True)
class Guessing(Environment):
    """Ten tasks; task i is solved by the digit i."""

    max_rounds: int = 8

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter([Task(id=f"{split}-{i}", prompt=(), data={"digit": i}) for i in range(10)])

    def start(self, task: Task) -> Digit:
        return Digit(task.data["digit"])

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        return [str((seed * 31 + attempt * 7) % 10) for attempt in range(num)]


@dataclass
class Played:
    """Task i takes i calls and then an answer, right in odd samples only; remembers what it was asked."""

    asked: list[tuple[int | None, Sampling]]

    def __call__(self, max_rounds: int | None, sampling: Sampling, starts: Sequence[Start]) -> list[Trajectory]:
        self.asked.append((max_rounds, sampling))
        return [self.episode(start, max_rounds) for start in starts]

    def episode(self, start: Start, max_rounds: int | None) -> Trajectory:
        turns = (*[self.turn("call")] * start.task.data["digit"], self.turn("answer"))
        right = start.sample % 2 == 1
        whole = Trajectory(task=start.task, sample=start.sample, turns=turns, status="done", success=right)
        return whole if max_rounds is None else cut_episode(whole, max_rounds)

    def turn(self, kind: Literal["call", "answer"]) -> Turn:
        done = Completion(token_ids=(1,), logprobs=(0.0,), stop="stop")
        return Turn(prompt_ids=(1,), completion=done, action=Action(kind=kind, text=""))


SMALL = Evaluate(num_tasks=10, num_samples=4, ks=(1, 4), max_rounds=(8, 5), num_resamples=200)


def test_each_budget_is_named_and_the_largest_is_played_for_all() -> None:
    play = Played([])
    eight, five = evaluate(SMALL, Guessing(), play, max_context=99)
    assert (eight.max_rounds, five.max_rounds) == (8, 5)
    assert eight.figures["eval/pass@4"].value == pytest.approx(0.9)
    assert eight.figures["eval/pass@1"].value == pytest.approx(0.45)
    assert five.figures["eval@5/pass@4"].value == pytest.approx(0.6)
    assert not set(eight.figures) & set(five.figures)
    assert play.asked == [(8, Sampling(temperature=0.6, top_k=20, top_p=0.95, max_new_tokens=128, max_context=99))]


def test_groups_keep_the_order_of_tasks_and_samples() -> None:
    (only,) = evaluate(
        Evaluate(num_tasks=3, num_samples=2, ks=(1,), num_resamples=10), Guessing(), Played([]), max_context=9
    )
    asked = [(group.task.id, t.task.id, t.sample) for group in only.groups for t in group.trajectories]
    assert asked == [(f"test-{i}", f"test-{i}", s) for i, s in product(range(3), range(2))]
    assert only.max_rounds == 8
    assert [score.task for score in only.scores] == ["test-0", "test-1", "test-2"]


def test_a_test_split_with_fewer_tasks_is_taken_whole() -> None:
    assert len(held_out(Evaluate(num_tasks=11, num_samples=16), Guessing())) == 10
    assert len(held_out(Evaluate(num_tasks=3, num_samples=16), Guessing())) == 3


def test_a_test_split_that_repeats_itself_is_refused() -> None:
    class Two(Guessing):
        def tasks(self, split: str, seed: int) -> Iterator[Task]:
            return cycle(islice(super().tasks(split, seed), 2))

    with raises_naming(ValueError, "repeats", "2 of", "4 tasks"):
        held_out(Evaluate(num_tasks=4, num_samples=16), Two())


def test_a_short_answer_of_the_player_is_refused() -> None:
    with raises_naming(ValueError, "40 episodes", "got 0"):
        evaluate(SMALL, Guessing(), lambda max_rounds, sampling, starts: [], max_context=9)


def test_the_floor_counts_samples_in_which_any_try_hits() -> None:
    env = Guessing()
    task = Task(id="t", prompt=(), data={"digit": 3})
    hits = ["3" in env.random_tries(task, 2, 5 * 20 + sample) for sample in range(20)]
    assert random_score(Evaluate(num_tries=2, num_samples=20, seed=5), env, task).num_correct == sum(hits)
    assert 0 < sum(hits) < 20


def test_random_tries_that_fail_are_no_floor_of_zero() -> None:
    class Failing(Guessing):
        def start(self, task: Task) -> Any:
            raise RuntimeError("stuck\nfast")

    with raises_naming(FloorError, "env:", "random try", "'test-0'", "RuntimeError", "stuck") as error:
        floor(SMALL, Failing())
    assert "\n" not in str(error.value)


def test_the_floor_has_the_shape_of_the_figures_and_repeats() -> None:
    found = floor(SMALL, Guessing())
    assert set(found) == {"random/pass@1", "random/pass@4"}
    assert found == floor(SMALL, Guessing())
    assert found["random/pass@1"].low <= found["random/pass@1"].value <= found["random/pass@4"].value


def test_an_environment_that_cannot_be_guessed_has_no_floor() -> None:
    class Unknown(Guessing):
        has_random_tries = False

    assert floor(SMALL, Unknown()) == {}


def test_an_environment_without_a_limit_is_evaluated_without_one() -> None:
    class Endless(Environment):
        tasks, start = Guessing.tasks, Guessing.start  # type: ignore[assignment]

    play = Played([])
    settings = Evaluate(num_tasks=10, num_samples=2, ks=(1,), num_resamples=10)
    (only,) = evaluate(settings, Endless(), play, max_context=9)
    assert (only.max_rounds, only.figures["eval/pass@1"].value) == (None, pytest.approx(0.5))
    assert play.asked[0][0] is None


@for_each(
    "bad",
    [
        {"ks": (1, 17)},
        {"ks": (0,)},
        {"ks": (1, 1)},
        {"num_tasks": 0},
        {"max_rounds": (8, 8)},
        {"max_rounds": (-1,)},
        {"num_resamples": 0},
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_k": -1},
        {"max_new_tokens": 0},
        {"seed": -1},
        {"interval": -1},
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_line(bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        Evaluate(**bad)


@for_each("num_samples, ks", [(1, (1,)), (4, (1, 4)), (16, (1, 4, 8, 16)), (50, (1, 4, 8, 16, 50))])
def test_ks_follow_the_number_of_samples(num_samples: int, ks: tuple[int, ...]) -> None:
    assert Evaluate(num_samples=num_samples).ks == ks


def test_lists_of_a_config_become_tuples() -> None:
    settings = Evaluate(ks=[4, 1], max_rounds=[8, 5])  # type: ignore[arg-type]
    assert (settings.ks, settings.max_rounds) == ((1, 4), (8, 5))
