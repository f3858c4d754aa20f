"""An episode under a smaller limit of turns, without playing it again.

The player holds the limit; neither the policy nor the environment knows of it, and random streams do not depend on it.
So under a smaller one all would have gone the same way until the player ended the episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.types import Group, ToolUse, Trajectory
from rlx.world import environment_turns


def cut_episode(whole: Trajectory, max_rounds: int) -> Trajectory:
    """The trajectory as `rlx.world.step_within` would have let it go."""
    counted = environment_turns(whole.turns)
    if len(counted) <= max_rounds:
        return whole
    end = counted[max_rounds] + 1
    *before, last = whole.turns[:end]
    if last.action.kind in ("call", "invalid"):  # it would not have been made
        last = replace(last, observation=(), reward=0.0, tool=ToolUse(), metrics={})
    elif len(whole.turns) == end and whole.status in ("done", "truncated"):
        return whole
    return replace(whole, turns=(*before, last), status="truncated", success=False, error="")


def cut_groups(groups: Sequence[Group], max_rounds: int) -> tuple[Group, ...]:
    """All groups under a limit that is smaller than theirs."""
    return tuple(
        Group(task=group.task, trajectories=tuple(cut_episode(one, max_rounds) for one in group.trajectories))
        for group in groups
    )
