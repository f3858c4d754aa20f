"""What a step's rollouts were like, in numbers: the means that go to metrics.jsonl."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Sequence

from rlx.types import Group, Metrics, Trajectory


def mean(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def share(flags: Iterable[bool]) -> float:
    return mean(float(flag) for flag in flags)


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def measure(groups: Sequence[Group]) -> Metrics:
    """Rewards, tool use and lengths of a batch of groups.

    Means are over the episodes that were begun afresh, which are the policy's own: where others leave these is an
    algorithm's choice, often for how they ended, and would move every mean. What forks did is under `fork/`.
    """
    everything = [trajectory for group in groups for trajectory in group.trajectories]
    episodes = [trajectory for trajectory in everything if trajectory.fork is None]
    fresh = [[trajectory for trajectory in group.trajectories if trajectory.fork is None] for group in groups]
    calls = sum(episode.tool.num_calls for episode in episodes)
    return {
        "reward/mean": mean(episode.reward for episode in episodes),
        "success/mean": share(episode.success for episode in episodes),
        "success/any": share(any(t.success for t in trajectories) for trajectories in fresh),
        "group/informative": share(informative(group.trajectories) for group in groups),
        "tool/calls": mean(episode.tool.num_calls for episode in episodes),
        "tool/failed_rate": ratio(sum(episode.tool.num_failed for episode in episodes), calls),
        "tool/mismatch_rate": share(episode.tool.num_mismatches > 0 for episode in episodes),
        "tool/tokens": mean(episode.tool.num_tokens for episode in episodes),
        "episode/turns": mean(len(episode.turns) for episode in episodes),
        "episode/tokens": mean(episode.num_tokens for episode in episodes),
        "episode/truncated": share(episode.status == "truncated" for episode in episodes),
        "episode/errors": share(episode.status == "error" for episode in everything),
        **measure_forks([t for t in everything if t.fork is not None], len(groups)),
    }


def measure_forks(forks: Sequence[Trajectory], num_groups: int) -> Metrics:
    """How many there are in a group, how often they succeed, and how many turns and tokens of each are its own."""
    if not forks:
        return {}
    return {
        "fork/episodes": len(forks) / num_groups,
        "fork/success": share(fork.success for fork in forks),
        "fork/turns": mean(len(fork.own) for fork in forks),
        "fork/tokens": mean(fork.num_sampled for fork in forks),
    }


def lag_of(groups: Sequence[Group], num_updates: int) -> float:
    """How many updates the policy that sampled a turn lies behind one with `num_updates`, in the mean."""
    turns = [turn for group in groups for trajectory in group.trajectories for turn in trajectory.own]
    return mean(num_updates - turn.completion.version for turn in turns)


def informative(trajectories: Sequence[Trajectory]) -> bool:
    """Whether the rewards of a group differ, so that a group-relative advantage is not zero."""
    return len({round(trajectory.reward, 9) for trajectory in trajectories}) > 1


def peak_memory() -> float:
    """The most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
