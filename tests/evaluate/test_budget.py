"""Cutting an episode at a smaller budget is playing it under that budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlx.env.countdown import Countdown, describe
from rlx.evaluate.budget import cut_episode, cut_groups
from rlx.types import Action, Completion, Environment, Group, Step, Text, Trajectory, Turn

TASK = describe((44, 19, 35), 98)
CALLS = ["((44 - 35) * 19)", "((44 * 35) * 19)", "((19 + 35) + 44)"]


def play(env: Environment, actions: list[Action]) -> Trajectory:
    """A player that does what it is told, until the episode ends."""
    episode, turns = env.start(TASK), []
    step = Step()
    for action in actions:
        step = episode.step(action)
        tool = replace(step.tool, num_tokens=3 if step.tool.num_calls else 0)
        done = Completion(token_ids=(1,), logprobs=(0.0,), stop="stop")
        turns.append(
            Turn(
                prompt_ids=(1,),
                completion=done,
                action=action,
                observation=step.observation,
                reward=step.reward - env.cost(tool),
                tool=tool,
            )
        )
        if step.done:
            break
    status = "truncated" if step.truncated else "done"
    return Trajectory(task=TASK, sample=0, turns=tuple(turns), status=status, success=bool(step.success))


ACTIONS = [Action(kind="call", name="python", text=text) for text in CALLS] + [Action(kind="answer", text=CALLS[-1])]


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 5, 8])
def test_a_cut_episode_is_the_episode_played_under_the_smaller_budget(rounds: int) -> None:
    env = Countdown(lambda_token=0.01)
    small = replace(env, max_rounds=rounds)
    assert cut_episode(small, play(env, ACTIONS)) == play(small, ACTIONS)


def test_a_cut_episode_ends_truncated_and_without_success() -> None:
    cut = cut_episode(Countdown(max_rounds=2), play(Countdown(), ACTIONS))
    assert cut is not None
    assert (cut.status, cut.success, len(cut.turns)) == ("truncated", False, 3)
    assert cut.reward == pytest.approx(-0.04)


class Counting:
    """Tells how many rounds are left, so a smaller budget is noticed."""

    def __init__(self, rounds: int) -> None:
        self.max_rounds = rounds

    def start(self, task: Any) -> Counting:
        return Counting(self.max_rounds)

    def cost(self, tool: Any) -> float:
        return 0.0

    def step(self, action: Action) -> Step:
        self.max_rounds -= 1
        return Step(observation=(Text(f"{self.max_rounds} left"),), done=self.max_rounds == 0)


def test_where_the_agent_would_have_seen_something_else_nothing_is_cut() -> None:
    whole = play(Counting(4), ACTIONS)  # type: ignore[arg-type]
    group = Group(task=TASK, trajectories=(whole,))
    assert cut_groups(Counting(3), [group]) is None  # type: ignore[arg-type]
    assert cut_groups(Counting(4), [group]) == (group,)  # type: ignore[arg-type]
