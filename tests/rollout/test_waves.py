"""A batch is counted in turns: whole episodes of the first tasks, in waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlx.algo.parts import Sampler
from rlx.algo.samplers import independent
from rlx.rollout.waves import count_turns, num_dropped, sample_turns
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn
from tests.loops import for_each

DONE = Completion(token_ids=(1,), logprobs=(-1.0,), stop="stop")
TURN = Turn(prompt_ids=(1,), completion=DONE, action=Action(kind="answer", text=""))


@dataclass
class Counted:
    """A player whose task number i has lengths[i] turns in each of its episodes."""

    lengths: Sequence[int]
    samples: int = 1
    waves: list[int] = field(default_factory=list)

    def sample(self, sampler: Sampler, tasks: Sequence[Task]) -> list[Group]:
        self.waves.append(len(tasks))
        return [self.group(task) for task in tasks]

    def group(self, task: Task) -> Group:
        turns = (TURN,) * self.lengths[int(task.id)]
        return Group(
            task=task,
            trajectories=tuple(
                Trajectory(task=task, sample=sample, turns=turns, status="done") for sample in range(self.samples)
            ),
        )


def play(player: Any, num_turns: int | None) -> list[Group]:
    tasks = [Task(id=str(number), prompt=(), data={}) for number in range(len(player.lengths))]
    return sample_turns(player, independent(player.samples), tasks, num_turns)


def test_without_a_number_all_tasks_are_played_at_once() -> None:
    player = Counted([3, 1, 2])
    assert len(play(player, None)) == 3
    assert player.waves == [3]


def test_the_first_tasks_that_have_the_turns_are_kept() -> None:
    player = Counted([4] * 100)
    groups = play(player, 128)
    assert [group.task.id for group in groups] == [str(number) for number in range(32)]
    assert player.waves == [16, 16]


def test_single_turns_take_a_second_wave_of_all_that_is_missing() -> None:
    player = Counted([1] * 200)
    assert len(play(player, 128)) == 128
    assert player.waves == [16, 112]


def test_what_a_wave_played_too_much_is_left_out() -> None:
    player = Counted([20] * 100)
    assert count_turns(play(player, 128)) == 140
    assert player.waves == [16]


def test_a_step_without_enough_turns_plays_all_its_tasks() -> None:
    assert len(play(Counted([1] * 5), 128)) == 5


@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    samples=st.integers(1, 4),
    num_turns=st.integers(1, 200),
)
def test_the_number_is_reached_by_the_last_task_alone(lengths: list[int], samples: int, num_turns: int) -> None:
    player = Counted(lengths, samples)
    groups = play(player, num_turns)
    assert [group.task.id for group in groups] == [str(number) for number in range(len(groups))]
    assert count_turns(groups[:-1]) < num_turns
    assert count_turns(groups) >= num_turns or len(groups) == len(lengths)
    assert num_dropped(groups, len(lengths), num_turns) == sum(player.waves) - len(groups)


@for_each("name", ["reinforce", "rebn", "ppo", "a2c"])
def test_turn_level_algorithms_count_a_step_in_turns(name: str) -> None:
    from pathlib import Path

    from rlx.plan.prospect import Prospect
    from rlx.settings.compose import build_run, compose

    words = ["env=game/guess_the_number", f"algo={name}", "algo.num_turns=12", "warm_start=none"]
    run = build_run(compose(words), Path())
    assert run.algo.num_turns == 12
    assert Prospect(run=run).main.load.episodes <= 12
