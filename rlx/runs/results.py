"""Reward and success of each agent of an episode, and the agent by which a run's episodes are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rlx.runs.folder import SUMMARY, FolderError, read_config
from rlx.runs.single_files import read_json
from rlx.types import Turn


class AgentResult(NamedTuple):
    """Reward and success of one agent in an episode, as rlx.environment.agents.episode_of_agent has them."""

    agent: str
    reward: float
    success: bool

    @property
    def outcome(self) -> str:
        return "solved" if self.success else "not solved"


class Earned(NamedTuple):
    """The part of a turn that results are made of."""

    agent: str
    reward: float
    rewards: Mapping[str, float]
    outcomes: Mapping[str, bool]


def read_earned(turn: Turn) -> Earned:
    return Earned(turn.agent, turn.reward, turn.rewards, turn.outcomes)


def stored_earned(turn: Mapping[str, Any]) -> Earned:
    """Read agent, reward, rewards and outcomes from a stored turn."""
    return Earned(
        str(turn.get("agent", "")), float(turn["reward"]), dict(turn.get("rewards", {})), turn.get("outcomes", {})
    )


def results_of_agents(turns: Sequence[Earned], success: bool) -> list[AgentResult]:
    """Return the result of each agent that acts, in the order of first turns. An agent's reward is the sum over its own
    turns, plus its rewards from other agents' turns."""
    outcomes = turns[-1].outcomes if turns else {}
    return [
        AgentResult(agent, reward_of_agent(agent, turns), bool(outcomes.get(agent, success)))
        for agent in dict.fromkeys(turn.agent for turn in turns)
    ]


def reward_of_agent(agent: str, turns: Sequence[Earned]) -> float:
    return sum(float(turn.reward if turn.agent == agent else turn.rewards.get(agent, 0.0)) for turn in turns)


def is_one(results: Sequence[AgentResult]) -> bool:
    """Tell whether the environment has one agent, which has no name."""
    return not any(result.agent for result in results)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The agent whose reward and success choose among stored episodes: the first that the run trains."""

    agents: Mapping[str, str] = field(default_factory=dict)
    """Agent by `Task.env`, as the summary of a run that has ended names it."""
    policies: frozenset[str] = frozenset()
    """Agents that the run does not train."""

    def of(self, part: str, results: Sequence[AgentResult]) -> str:
        """Return the agent of an episode; before the run has ended, the first to act of those that it trains."""
        acting = [result.agent for result in results]
        return self.agents.get(part) or next(
            (agent for agent in acting if agent not in self.policies), *acting[:1] or [""]
        )


UNKNOWN = Measured()


def measured_in(folder: Path) -> Measured:
    """Read which agent a run's figures are of; nothing where the folder is no run's."""
    agents = read_json(folder / SUMMARY).get("agents")
    try:
        policies = read_config(folder).get("policies")
    except FolderError:
        policies = None
    return Measured(agents=dict(agents) if isinstance(agents, dict) else {}, policies=frozenset(policies or ()))
