"""An episode under a smaller limit of turns, without playing it again.

The player holds the limit; neither the policy nor the environment knows of it, and random streams do not depend on it.
So under a smaller one all would have gone the same way until the player ended the episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlx.environment import Environment
from rlx.environment.world import NO_METRICS, environment_turns, part_of
from rlx.types import Group, ToolUse, Trajectory


def cut_episode(episode: Trajectory, max_rounds: int, unanswered: Mapping[str, float] = NO_METRICS) -> Trajectory:
    """The trajectory as `rlx.environment.world.step_within` would have let it go, whose first turn has the metrics
    `unanswered`."""
    counted = environment_turns(episode.turns)
    if len(counted) <= max_rounds:
        return episode
    end = counted[max_rounds] + 1
    *before, last = episode.turns[:end]
    if last.action.kind in ("call", "invalid"):  # it would not have been made
        last = replace(last, observation=(), reward=0.0, tool=ToolUse(), metrics={} if max_rounds else unanswered)
    elif len(episode.turns) == end and episode.status in ("done", "truncated"):
        return episode
    return replace(episode, turns=(*before, last), status="truncated", success=False, error="")


def cut_groups(groups: Sequence[Group], max_rounds: int, env: Environment) -> tuple[Group, ...]:
    """All groups of an environment under a limit that is smaller than theirs."""
    return tuple(cut_group(group, max_rounds, part_of(env, group.task).unanswered(group.task)) for group in groups)


def cut_group(group: Group, max_rounds: int, unanswered: Mapping[str, float]) -> Group:
    cut = tuple(cut_episode(episode, max_rounds, unanswered) for episode in group.trajectories)
    return Group(task=group.task, trajectories=cut)
