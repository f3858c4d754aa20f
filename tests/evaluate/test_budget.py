"""Cutting an episode at a smaller limit of turns is playing it under that limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from rlx.env.countdown.countdown import Countdown, describe
from rlx.environment import Environment, Episode
from rlx.environment.world import cost_of, environment_turns, step_within
from rlx.evaluation.budget import cut_episode, cut_groups
from rlx.rollout.measure import env_figures
from rlx.types import Action, Completion, Group, Status, Step, Task, Text, Trajectory, Turn
from tests.loops import for_each

TASK = describe((44, 19, 35), 98)
CALLS = ["((44 - 35) * 19)", "((44 * 35) * 19)", "((19 + 35) + 44)"]


class Walk(Environment, Episode):
    """Acts until it is told to stop; answers do nothing."""

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter(())

    def start(self, task: Task) -> Walk:
        return self

    def step(self, action: Action) -> Step:
        stopped = action.name == "stop"
        return Step(observation=(Text("on"),), reward=0.5, done=stopped, success=stopped or None, metrics={"steps": 1})


class Judging(Walk):
    def unanswered(self, task: Task) -> dict[str, float]:
        return {"f1": 0.0}


def play(env: Environment, max_rounds: int, actions: Sequence[Action]) -> Trajectory:
    """A player that does what it is told, until the episode ends."""
    episode, turns = env.start(TASK), []
    unanswered = env.unanswered(TASK)
    step = Step()
    for action in actions:
        step = step_within(episode, action, len(environment_turns(turns)), max_rounds, step, unanswered)
        tool = replace(step.tool, num_tokens=3 if step.tool.num_calls else 0)
        turns.append(
            Turn(
                prompt_ids=(1,),
                completion=Completion(token_ids=(1,), logprobs=(0.0,), stop="stop"),
                action=action,
                observation=step.observation,
                reward=step.reward - cost_of(env, tool),
                tool=tool,
                metrics=step.metrics,
            )
        )
        if step.done:
            break
    status: Status = "context" if not step.done else "truncated" if step.truncated else "done"
    return Trajectory(task=TASK, sample=0, turns=tuple(turns), status=status, success=bool(step.success))


WORDS = [Action(kind="call", name="python", text=text) for text in CALLS]
ACTIONS = [*WORDS, Action(kind="invalid", text="why"), Action(kind="answer", text=CALLS[-1])]
STEPS = [Action(kind="act", name=name, text="") for name in ("on", "on", "on")]


@for_each("rounds", [0, 1, 2, 3, 4, 5, 8])
def test_a_cut_episode_is_the_episode_played_under_the_smaller_limit(rounds: int) -> None:
    env = Countdown(lambda_token=0.01)
    assert cut_episode(play(env, 8, ACTIONS), rounds) == play(env, rounds, ACTIONS)


@for_each("rounds, last", product([0, 1, 2, 3, 4, 5, 8], ["stop", "on"]))
def test_acts_are_cut_off_but_made(rounds: int, last: str) -> None:
    walk, steps = Walk(), [*STEPS, Action(kind="answer", text="1"), Action(kind="act", name=last, text="")]
    assert cut_episode(play(walk, 8, steps), rounds) == play(walk, rounds, steps)  # type: ignore[arg-type]


@for_each("rounds", [0, 1, 2, 3, 4, 5, 8])
def test_a_summary_is_cut_off_with_what_follows_and_counts_for_nothing(rounds: int) -> None:
    summary = Action(kind="summary", text="so far")
    actions = [ACTIONS[0], summary, *ACTIONS[1:3], summary, *ACTIONS[3:]]
    whole = play(Countdown(), 8, actions)
    assert [turn.reward for turn in whole.turns if turn.action == summary] == [0.0, 0.0]
    assert cut_episode(whole, rounds) == play(Countdown(), rounds, actions)
    plain = cut_episode(play(Countdown(), 8, ACTIONS), rounds)
    assert len(environment_turns(cut_episode(whole, rounds).turns)) == len(plain.turns)


@for_each("rounds, actions", product(range(4), [WORDS, STEPS]))
def test_an_episode_without_an_answer_has_the_figures_of_one(rounds: int, actions: Sequence[Action]) -> None:
    group = Group(task=TASK, trajectories=(play(Judging(), 8, actions),))
    ((cut,),) = (one.trajectories for one in cut_groups([group], rounds, Judging()))
    assert cut == play(Judging(), rounds, actions)
    assert env_figures(cut)["env/f1"] == 0.0


def test_a_cut_episode_ends_truncated_and_without_success() -> None:
    cut = cut_episode(play(Countdown(), 8, ACTIONS), 2)
    assert (cut.status, cut.success, len(cut.turns)) == ("truncated", False, 3)
    assert cut.reward == pytest.approx(-0.04)


def test_an_error_beyond_the_limit_never_came_to_pass() -> None:
    broken = replace(play(Countdown(), 8, WORDS), status="error", error="boom")
    assert cut_episode(broken, 3) == broken
    assert cut_episode(broken, 2) == play(Countdown(), 2, WORDS)


def test_groups_are_cut_one_by_one() -> None:
    group = Group(task=TASK, trajectories=(play(Countdown(), 8, ACTIONS),))
    assert cut_groups([group], 8, Countdown()) == (group,)
    assert cut_groups([group], 2, Countdown())[0].trajectories == (play(Countdown(), 2, ACTIONS),)
