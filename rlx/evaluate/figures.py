"""From trajectories to figures: what an evaluation says of a policy, problem by problem and over all of them.

The figures, with `eval` as the noun: `eval/pass@1`, `eval/pass@4` ... (unbiased), `eval/reward`, and under the names
that training has for them `tool/calls`, `tool/failed_rate` (failed calls of all calls), `tool/mismatch_rate` (episodes
that answered against their last observation), `tool/tokens`, `episode/turns`, `episode/tokens`, `episode/truncated`,
`episode/errors`. All but `tool/failed_rate` are means over problems of the mean over a problem's samples. An
episode that ended in an error counts as a failed attempt, or a crash would flatter the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from rlx.evaluate.intervals import Estimate, Floats, Ratio, mean_of, share_of
from rlx.evaluate.passk import compare, estimates, pass_at_k, require_same_tasks
from rlx.types import Group, Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One problem's row of the per-task table: sums over its samples."""

    task: str
    num_samples: int
    num_correct: int
    reward: float = 0.0
    num_calls: int = 0
    num_failed: int = 0
    num_mismatched: int = 0
    """Episodes with at least one mismatch."""
    num_tool_tokens: int = 0
    num_turns: int = 0
    num_tokens: int = 0
    num_truncated: int = 0
    num_errors: int = 0


def score(group: Group) -> Score:
    """The row of one group."""
    episodes = group.trajectories
    if not episodes:
        raise ValueError(f"task {group.task.id!r} has no samples to score")
    tools = [episode.tool for episode in episodes]
    return Score(
        task=group.task.key,
        num_samples=len(episodes),
        num_correct=sum(episode.success and episode.status != "error" for episode in episodes),
        reward=sum(episode.reward for episode in episodes),
        num_calls=sum(tool.num_calls for tool in tools),
        num_failed=sum(tool.num_failed for tool in tools),
        num_mismatched=sum(tool.num_mismatches > 0 for tool in tools),
        num_tool_tokens=sum(tool.num_tokens for tool in tools),
        num_turns=sum(len(episode.turns) for episode in episodes),
        num_tokens=sum(episode.num_tokens for episode in episodes),
        num_truncated=sum(episode.status == "truncated" for episode in episodes),
        num_errors=sum(episode.status == "error" for episode in episodes),
    )


def pass_ratios(scores: Sequence[Score], ks: Iterable[int]) -> dict[str, Ratio]:
    """`pass@k` for each k that every problem has samples enough for."""
    fewest = min((row.num_samples for row in scores), default=0)
    return {
        f"pass@{k}": share_of([pass_at_k(row.num_samples, row.num_correct, k) for row in scores])
        for k in ks
        if k <= fewest
    }


def ratios(scores: Sequence[Score], ks: Iterable[int]) -> dict[str, Ratio]:
    """Every figure as a ratio of sums over problems, by the part of its name after the slash."""

    def of(column: str) -> Floats:
        return np.array([getattr(row, column) for row in scores], dtype=np.float64)

    num_P = of("num_samples")
    return pass_ratios(scores, ks) | {
        "reward": mean_of(of("reward") / num_P),
        "tool/calls": mean_of(of("num_calls") / num_P),
        "tool/failed_rate": Ratio(top=of("num_failed")[None], bottom=of("num_calls")[None], is_share=True),
        "tool/mismatch_rate": share_of(of("num_mismatched") / num_P),
        "tool/tokens": mean_of(of("num_tool_tokens") / num_P),
        "episode/turns": mean_of(of("num_turns") / num_P),
        "episode/tokens": mean_of(of("num_tokens") / num_P),
        "episode/truncated": share_of(of("num_truncated") / num_P),
        "episode/errors": share_of(of("num_errors") / num_P),
    }


def mean_ratios(tables: Sequence[Sequence[Score]], ks: Sequence[int]) -> dict[str, Ratio]:
    """The figures of several runs, a table of scores each, as their mean. Not those of all samples in one heap: several
    policies differ more than one does from itself, so k tries drawn from all of them pass more often."""
    for table in tables[1:]:
        require_same_tasks([row.task for row in tables[0]], [row.task for row in table])
    each = [ratios(in_order(table, tables[0]), ks) for table in tables]
    return {
        name: Ratio(
            top=np.concatenate([found[name].top for found in each]),
            bottom=np.concatenate([found[name].bottom for found in each]),
            is_share=each[0][name].is_share,
        )
        for name in each[0]
    }


def in_order(scores: Sequence[Score], like: Sequence[Score]) -> list[Score]:
    """The same scores, in the order of another table of these tasks."""
    by_task = {row.task: row for row in scores}
    return [by_task[row.task] for row in like]


def figures(
    scores: Sequence[Score], *, ks: Iterable[int], noun: str = "eval", num_resamples: int = 10_000, seed: int = 0
) -> dict[str, Estimate]:
    """`noun/stat` to its estimate, for every figure."""
    return name_figures(noun, estimates(ratios(scores, ks), num_resamples, seed))


def gains(
    ours: Sequence[Score],
    theirs: Sequence[Score],
    *,
    ks: Iterable[int],
    noun: str = "gain",
    num_resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Ours less theirs for every figure, paired by task; both must have the same tasks."""
    return mean_gains([ours], [theirs], ks=ks, noun=noun, num_resamples=num_resamples, seed=seed)


def mean_gains(
    ours: Sequence[Sequence[Score]],
    theirs: Sequence[Sequence[Score]],
    *,
    ks: Iterable[int],
    noun: str = "gain",
    num_resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """The mean over our runs less that over theirs, paired by task."""
    ks = list(ks)
    require_same_tasks([row.task for row in ours[0]], [row.task for row in theirs[0]])
    paired = [in_order(theirs[0], ours[0]), *theirs[1:]]
    return name_figures(noun, compare(mean_ratios(ours, ks), mean_ratios(paired, ks), num_resamples, seed))


def values(estimated: Mapping[str, Estimate]) -> Metrics:
    """Only the values, for a line of metrics.jsonl."""
    return {name: figure.value for name, figure in estimated.items()}


def per_task(scores: Sequence[Score]) -> list[dict[str, str | int | float]]:
    """The per-task table as JSON rows, the hardest problem first."""
    ordered = sorted(scores, key=lambda row: (row.num_correct / row.num_samples, row.task))
    return [asdict(row) for row in ordered]


def name_figures(noun: str, estimated: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Stats as `noun/stat`."""
    return {f"{noun}/{stat}": figure for stat, figure in estimated.items()}
