"""An episode under a smaller budget of rounds, without playing it again.

The policy does not know its budget and its random stream does not depend on it, so under a smaller one it would have
acted the same until the environment ended the episode. Replaying the recorded actions finds where that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.types import Environment, Group, Status, Step, Trajectory, Turn


def cut_turn(env: Environment, turn: Turn, step: Step) -> Turn:
    """The turn with what the environment says now. Its observation's tokens were counted when it was played."""
    num_tokens = turn.tool.num_tokens if step.observation == turn.observation else 0
    tool = replace(step.tool, num_tokens=num_tokens)
    return replace(turn, observation=step.observation, reward=step.reward - env.cost(tool), tool=tool)


def cut_episode(env: Environment, trajectory: Trajectory) -> Trajectory | None:
    """The trajectory in `env`; None where `env` shows the agent something else before the end."""
    episode = env.start(trajectory.task)
    for index, turn in enumerate(trajectory.turns):
        step = episode.step(turn.action)
        if step.done:
            turns = (*trajectory.turns[:index], cut_turn(env, turn, step))
            status: Status = "truncated" if step.truncated else "done"
            return replace(trajectory, turns=turns, status=status, success=bool(step.success))
        if step.observation != turn.observation:
            return None
    return trajectory


def cut_groups(env: Environment, groups: Sequence[Group]) -> tuple[Group, ...] | None:
    """All groups under the budget of `env`, or None where one of them would have gone another way."""
    cut = [[cut_episode(env, trajectory) for trajectory in group.trajectories] for group in groups]
    if any(trajectory is None for row in cut for trajectory in row):
        return None
    return tuple(
        Group(task=group.task, trajectories=tuple(t for t in row if t is not None))
        for group, row in zip(groups, cut, strict=True)
    )
