"""Measures of a step's rollouts: the means that go to metrics.jsonl."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping, Sequence
from statistics import pstdev

from rlx.base.limits import MistakeError
from rlx.environment import Environment
from rlx.environment.world import environment_turns, is_finite, is_for_environment, parts_of
from rlx.types import CUT, Action, Group, Metrics, Task, Trajectory


def mean(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def share(flags: Iterable[bool]) -> float:
    return mean(float(flag) for flag in flags)


def ratio(part: float, total: float) -> float:
    return part / total if total else 0.0


FLAGS = ("tool/mismatch_rate", "episode/truncated", "episode/errors")
"""Measures of an episode that are 1 or 0: their means are shares."""


def describe(episode: Trajectory) -> dict[str, float]:
    """Return the measures of one episode, by the names that metrics and figures have for their means."""
    tool = episode.tool
    return {
        "reward": episode.reward,
        "tool/calls": tool.num_calls,
        "tool/mismatch_rate": tool.num_mismatches > 0,
        "tool/tokens": tool.num_tokens,
        "episode/turns": len(environment_turns(episode.turns)),
        "episode/tokens": episode.num_tokens,
        "episode/truncated": episode.status in ("truncated", "context"),
        "episode/errors": episode.status == "error",
    }


EMPTY = describe(Trajectory(task=Task(id="", prompt=(), data={}), sample=0, turns=(), status="done"))
"""Measures of an episode in which nothing happened: every name."""


def env_figures(episode: Trajectory) -> dict[str, float]:
    """Return the environment's own measures of an episode, each summed over its turns."""
    totals: dict[str, float] = {}
    for turn in episode.turns:
        for name, value in turn.metrics.items():
            totals[f"env/{name}"] = totals.get(f"env/{name}", 0.0) + value
    return totals


def reply_figures(episode: Trajectory) -> dict[str, list[float]]:
    """Return the protocol's measures of an episode's turns, by the names of their metrics."""
    values: dict[str, list[float]] = {}
    for turn in episode.turns:
        for name, value in turn.reply.items():
            values.setdefault(name, []).append(value)
    return values


def measure(groups: Sequence[Group], env: Environment | None = None) -> Metrics:
    """Rewards, tool use and lengths of a batch of groups; of a mixture also each part's, its name before theirs. Where
    `env` lends no tools, there is nothing to say of them."""
    metrics = measure_some(groups, lends=env is None or any(part.tools for part in parts_of(env).values()))
    for name in sorted({group.task.env for group in groups} - {""}):
        lends = env is None or bool(parts_of(env)[name].tools)
        part_metrics = measure_some([group for group in groups if group.task.env == name], lends=lends)
        metrics |= {f"{name}/{stat}": value for stat, value in part_metrics.items()}
    return metrics


def with_credit_figures(figures: Metrics, added: Mapping[str, float]) -> Metrics:
    """Add an algorithm's own figures; MistakeError where one is no number or has the name of another figure."""
    for name, value in added.items():
        if name in figures:
            raise MistakeError(f"credit: its metric {name!r:.60} has the name of another figure: choose another name")
        if not is_finite(value):
            raise MistakeError(f"credit: its metric {name!r:.60} is {value!r:.60}: expected a finite number")
    return {**figures, **added}


def measure_some(groups: Sequence[Group], *, lends: bool) -> Metrics:
    """Means over a batch, or over one part's groups.

    They are over the episodes that were begun afresh, which are the policy's own: where others leave these is an
    algorithm's choice, often for how they ended, and would move every mean. What forks did is under `fork/`. Credit
    compares all of a group, so `group/informative` is of forks too.
    """
    everything = [trajectory for group in groups for trajectory in group.trajectories]
    episodes = [trajectory for trajectory in everything if trajectory.fork is None]
    fresh = [[trajectory for trajectory in group.trajectories if trajectory.fork is None] for group in groups]
    tables = [describe(episode) for episode in episodes]

    def means(kind: str) -> Metrics:
        return {name: mean(row[name] for row in tables) for name in EMPTY if name.startswith(kind)}

    return {
        **measure_replies(episodes),
        "reward/mean": mean(episode.reward for episode in episodes),
        "reward/std": pstdev(episode.reward for episode in episodes) if episodes else 0.0,
        "success/mean": share(episode.success for episode in episodes),
        "success/any": share(any(t.success for t in trajectories) for trajectories in fresh),
        "group/informative": share(informative(group.trajectories) for group in groups),
        "group/distinct": mean(distinct(acts) for acts in map(actions, fresh) if acts),
        "action/repeated": ratio(sum(map(num_repeated, episodes)), len(actions(episodes))),
        **({**means("tool/"), "tool/failed_rate": failed_rate(episodes)} if lends else {}),
        **measure_stopped(everything),
        **measure_turns(episodes),
        **measure_entropy(episodes),
        **means("episode/"),
        "episode/errors": share(episode.status == "error" for episode in everything),
        **measure_summaries(episodes),
        **measure_env(episodes),
        **measure_forks([t for t in everything if t.fork is not None], len(groups)),
    }


def measure_turns(episodes: Sequence[Trajectory]) -> Metrics:
    """Return the shares of turns that were invalid, for the protocol or the environment, and that their length cut off;
    summaries are no turns."""
    turns = [turn for episode in episodes for turn in episode.turns if is_for_environment(turn.action)]
    return {
        "turn/invalid": share(turn.is_invalid for turn in turns),
        "turn/truncated": share(turn.completion.stop in CUT for turn in turns),
    }


def measure_entropy(episodes: Sequence[Trajectory]) -> Metrics:
    """Return the mean of -log p of a sampled token, which estimates the policy's entropy without bias.

    The log-probs are the engine's, under the temperature and the masks of sampling. An expert has none: its are zero.
    """
    done = [turn.completion for episode in episodes for turn in episode.turns]
    total = -sum(sum(completion.logprobs) for completion in done)
    return {"policy/entropy": total / sum(len(completion.token_ids) for completion in done)} if total else {}


def failed_rate(episodes: Sequence[Trajectory]) -> float:
    """Return the share of calls that failed."""
    tools = [episode.tool for episode in episodes]
    return ratio(sum(tool.num_failed for tool in tools), sum(tool.num_calls for tool in tools))


def measure_stopped(episodes: Sequence[Trajectory]) -> Metrics:
    """Return the calls and judgements that the clock ended, in an episode; nothing if there were none."""
    num = sum(turn.tool.num_stopped for episode in episodes for turn in episode.new_turns)
    return {"tool/stopped": num / len(episodes)} if num else {}


def measure_env(episodes: Sequence[Trajectory]) -> Metrics:
    """Return the mean of each of the environment's measures, over the episodes that have it."""
    rows = [env_figures(episode) for episode in episodes]
    names = sorted({name for row in rows for name in row})
    return {name: mean(row[name] for row in rows if name in row) for name in names}


def measure_replies(episodes: Sequence[Trajectory]) -> Metrics:
    """Return the mean of each of the protocol's measures, over the turns that have it."""
    rows = [reply_figures(episode) for episode in episodes]
    names = sorted({name for row in rows for name in row})
    return {name: mean(value for row in rows for value in row.get(name, ())) for name in names}


def measure_summaries(episodes: Sequence[Trajectory]) -> Metrics:
    """Return the number of summaries an episode, their length and the share that was cut off; nothing without any."""
    summaries = [turn.completion for episode in episodes for turn in episode.turns if turn.action.kind == "summary"]
    if not summaries:
        return {}
    return {
        "summary/turns": len(summaries) / len(episodes),
        "summary/tokens": mean(len(summary.token_ids) for summary in summaries),
        "summary/cut": share(summary.stop in CUT for summary in summaries),
    }


def measure_forks(forks: Sequence[Trajectory], num_groups: int) -> Metrics:
    """Return the number of forks a group, their reward (replayed turns included), success, own turns and own tokens."""
    if not forks:
        return {}
    return {
        "fork/episodes": len(forks) / num_groups,
        "fork/reward": mean(fork.reward for fork in forks),
        "fork/success": share(fork.success for fork in forks),
        "fork/turns": mean(len(fork.new_turns) for fork in forks),
        "fork/tokens": mean(fork.num_sampled for fork in forks),
    }


def lag_of(groups: Sequence[Group], num_updates: int) -> float:
    """Return the mean number of updates by which the policy that sampled a turn lies behind one with `num_updates`."""
    turns = [turn for group in groups for trajectory in group.trajectories for turn in trajectory.new_turns]
    return mean(num_updates - turn.completion.version for turn in turns)


def informative(trajectories: Sequence[Trajectory]) -> bool:
    """Tell whether the rewards of a group differ, so that a group-relative advantage is not zero."""
    return len({round(trajectory.reward, 9) for trajectory in trajectories}) > 1


def actions(episodes: Iterable[Trajectory]) -> list[Action]:
    """Return all actions that a protocol could read and that reached the environment."""
    turns = [turn for episode in episodes for turn in episode.turns]
    return [turn.action for turn in turns if turn.action.kind not in ("invalid", "summary")]


def num_repeated(episode: Trajectory) -> int:
    """Actions of an episode that it had taken before: of the same kind, name and text."""
    acts = actions([episode])
    return len(acts) - len(set(acts))


def distinct(acts: Sequence[Action]) -> float:
    """Return the share of actions that is left when each is counted once."""
    return ratio(len(set(acts)), len(acts))


def peak_memory() -> float:
    """The most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


GPU_PEAKS = {"rollout": "memory/gpu_rollout", "update": "memory/gpu_update"}
"""Names of the metrics; a test compares names in the code with docs/metrics.md."""


def gpu_peak(phase: str, device: str) -> Metrics:
    """Return the most memory that torch has held on this process's GPU since the last call, in MB; nothing on a CPU."""
    if device != "cuda":
        return {}
    import torch

    peak = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.reset_peak_memory_stats()
    return {GPU_PEAKS[phase]: peak}
