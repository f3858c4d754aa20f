"""Words for the reward and success of each agent of an episode, for `rlx show` and `rlx play`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rlx.base.console import one_line
from rlx.runs.results import AgentResult, is_one, read_earned, results_of_agents
from rlx.types import Turn


def describe_results(results: Sequence[AgentResult]) -> str:
    """Return `anna reward 9.000, solved; bert reward -9.000, not solved`."""
    return "; ".join(f"{one_line(result.agent, 30)} reward {result.reward:.3f}, {result.outcome}" for result in results)


def describe_rewards(turn: Turn) -> str:
    """Return the reward of the agent that acted, then those of other agents; `+ 0.0` shows -0.0 as 0.000."""
    others = (f", reward of {one_line(agent, 30)} {reward + 0.0:.3f}" for agent, reward in turn.rewards.items())
    return f"reward {turn.reward:.3f}" + "".join(others)


def describe_end(turns: Sequence[Turn], success: bool, how: str, counts: str) -> str:
    """Return the outcome and reward of an episode, those of each agent where there are several; then its counts."""
    results = results_of_agents([read_earned(turn) for turn in turns], success)
    if is_one(results):
        reward = sum(turn.reward for turn in turns)
        return f"{'solved' if success else 'not solved'}{how}, reward {reward:.3f}, {counts}"
    return textwrap.fill(f"{describe_results(results)}{how}; {counts}", 80)


def name_of(label: str, agent: str) -> str:
    """Return `turn 3 of anna`, or `turn 3` where there is one agent, which has no name."""
    return label + (f" of {one_line(agent, 30)}" if agent else "")
