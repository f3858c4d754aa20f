"""A tool lent to the agent of any environment: calls of it are answered here, all else is the environment's.

agent        call python "24 * 2"        act guess "48"
answered by  the tool: 48                the environment: lower
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from rlx.base.limits import MANY, refuse, within
from rlx.environment import Environment, Episode, Pace, WrappedEnvironment, WrappedEpisode
from rlx.environment.world import cost_of, data_version_of, reward_range_of, start_episode
from rlx.tool.tool import Tool, use_of
from rlx.types import Action, Step, Task, Text, ToolUse, Verb


@dataclass(frozen=True, kw_only=True)
class Lend(WrappedEnvironment):
    """The environment `env`, whose agent may also call `tool`; what comes of it can be lent another."""

    env: Environment
    """Environment that the tool is lent to."""
    tool: Tool
    """Tool, and the limits of one call."""
    max_calls: int | None = None
    """Limit of calls in an episode; a further call gets an error message; null: no limit."""
    reward_call: float = 0.0
    """Reward of a call; GEM's `tool_reward` (Liu et al. 2025, arXiv:2510.01051)."""
    reward_success: float = 0.0
    """Reward of a call that does not fail, beside that of the call; GEM's `tool_success_reward`."""
    lambda_call: float = 0.0
    """Cost of a call."""
    lambda_token: float = 0.0
    """Cost of a token of tool output."""
    lambda_error: float = 0.0
    """Cost of a call that fails, beside that of the call."""

    def __post_init__(self) -> None:
        within(0, MANY, max_calls=self.max_calls)
        within(0.0, 1e6, reward_call=self.reward_call, reward_success=self.reward_success)
        within(0.0, 1e6, lambda_call=self.lambda_call, lambda_token=self.lambda_token, lambda_error=self.lambda_error)
        if self.env.components:
            refuse("env", "a mixture", "an environment: lend the tool to the mixture's parts")
        if self.env.max_rounds == 0:
            refuse("env.max_rounds", 0, f"1 or more, or the first call of {self.tool.verb.name} ends an episode")
        if self.tool.verb.name in {verb.name for verb in self.env.tools}:
            refuse("tool", self.tool.verb.name, "a tool that the environment does not lend already")

    @property
    def tools(self) -> tuple[Verb, ...]:
        return (*self.env.tools, self.tool.verb)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The environment's own, without an end where calls are paid or cost something."""
        low, high = reward_range_of(self.env)
        is_paid, has_cost = (
            self.reward_call + self.reward_success,
            self.lambda_call + self.lambda_token + self.lambda_error,
        )
        return -inf if has_cost else low, inf if is_paid else high

    @property
    def pace(self) -> Pace:
        """A call takes its time, however quick the environment's own steps are."""
        env_pace = self.env.pace
        return "ticks" if env_pace == "inline" else env_pace

    @property
    def is_remote(self) -> bool:
        return self.tool.is_remote or self.env.is_remote

    def data_version(self) -> str:
        """Return a name for what both read."""
        return " ".join(filter(None, (data_version_of(self.env), self.tool.data_version())))

    def check_inputs(self) -> None:
        """Refuse what neither the tool nor the environment can do here."""
        self.tool.check_inputs()
        self.env.check_inputs()

    def check_servers(self) -> None:
        """Refuse a server that neither the tool nor the environment can use from here."""
        self.tool.check_servers()
        self.env.check_servers()

    @property
    def has_tool_cost(self) -> bool:
        return True

    def start(self, task: Task) -> Episode:
        return LendEpisode(self, start_episode(self.env, task))

    def tool_cost(self, tool: ToolUse) -> float:
        """Its own price of its own calls; the environment's of all others."""
        if tool.name != self.tool.verb.name:
            return cost_of(self.env, tool)
        calls = self.lambda_call * tool.num_calls + self.lambda_error * tool.num_failed
        return calls + self.lambda_token * tool.num_tokens


class LendEpisode(WrappedEpisode):
    """An episode with a tool beside it. What was legal before a call is legal after it, for the agent that called."""

    def __init__(self, lend: Lend, episode: Episode) -> None:
        self.lend, self.episode = lend, episode
        self.num_calls = 0
        self.before = Step()
        """The environment's last step: what was legal, and who was to act, is so after a call too."""

    def opening(self) -> Step:
        return self.pass_on(self.episode.opening())

    def pass_on(self, step: Step) -> Step:
        self.before = step
        return step

    def step(self, action: Action) -> Step:
        name = self.lend.tool.verb.name
        if action.kind != "call" or action.name != name:
            return self.pass_on(self.episode.step(action))
        if self.num_calls == self.lend.max_calls:
            return self.say(f"Error: no call of {name} is left", ToolUse(num_calls=1, num_failed=1, name=name))
        self.num_calls += 1
        result = self.lend.tool.run(action.text)
        reward = self.lend.reward_call + self.lend.reward_success * (not result.failed)
        return self.say(result.output, replace(use_of(result), name=name), reward)

    def say(self, text: str, tool: ToolUse, reward: float = 0.0) -> Step:
        before = self.before
        return Step(
            observation=(Text(text),), reward=reward, tool=tool, legal=before.legal, next_agent=before.next_agent
        )
