"""Policies that a run does not train: they play other agents of an environment, or are evaluated.

rlx train env=DUEL +policy@policies.opponent=frozen
rlx eval env=countdown +policy@policies.agent=served policies.agent.address=host:port model=…
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.base.limits import Address, MistakeError, above, refuse
from rlx.environment import Environment
from rlx.environment.world import parts_of

if TYPE_CHECKING:
    from rlx.model.load import Model

ALONE = "agent"
"""Name, in a configuration, of the agent of an environment that has one alone."""


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """Weights that never change, in an engine of their own beside the run's."""

    model: Model | None = None
    """Its model (+model@policies.AGENT.model=NAME); null: the weights that the run starts from."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """Weights behind `rlx serve`, which this run neither loads nor changes. A request that the server cannot answer
    ends its episode, and no other."""

    address: Address | None = None
    """Address of the server, host:port; RLX_SERVER_TOKEN holds its secret."""
    model: Model | None = None
    """Model of the server, for the tokenizer (+model@policies.AGENT.model=NAME); null: the run's model."""
    patience: float = 600.0
    """Seconds after which a server that does not answer counts as gone."""

    def __post_init__(self) -> None:
        if not self.address:
            refuse("address", self.address, "host:port of `rlx serve`")
        above(0, 1e6, patience=self.patience)


Other = Frozen | Served
"""A policy that a run does not train."""


def name_of(agent: str) -> str:
    """Return the agent's name in a configuration."""
    return agent or ALONE


def agent_of(name: str) -> str:
    """Return the agent that has this name in a configuration."""
    return "" if name == ALONE else name


def distinct_policies(policies: Mapping[str, Other]) -> list[Other]:
    """Return each policy once, in the order of the names."""
    distinct: list[Other] = []
    for _, policy in sorted(policies.items()):
        if policy not in distinct:
            distinct.append(policy)
    return distinct


def trained_agents(env: Environment, policies: Mapping[str, Other]) -> dict[str, tuple[str, ...]]:
    """Return the agents that the run's own policy plays, by `Task.env`."""
    return {
        part: tuple(agent for agent in inner.agents if name_of(agent) not in policies)
        for part, inner in parts_of(env).items()
    }


def measured_agents(env: Environment, policies: Mapping[str, Other]) -> dict[str, tuple[str, ...]]:
    """Return the agent whose episodes an evaluation measures, by `Task.env`: the first that the run's own policy plays,
    or the first of all."""
    trained = trained_agents(env, policies)
    return {part: (trained[part] or inner.agents)[:1] for part, inner in parts_of(env).items()}


def keep_chosen(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the key `policies` of a configuration that has it, for names of what depends on it."""
    return {"policies": config["policies"]} if config.get("policies") else {}


def check_policies(env: Environment, policies: Mapping[str, Other], steps: int) -> None:
    """Refuse policies of agents that are in no environment, and a training in which nobody is trained."""
    agents = {name_of(agent) for inner in parts_of(env).values() for agent in inner.agents}
    for name in policies:
        if name not in agents:
            raise MistakeError(
                f"policies.{name}: the environment has no such agent; it has {', '.join(sorted(agents))}"
            )
    if steps and not all(trained_agents(env, policies).values()):
        raise MistakeError("policies: other policies play every agent, and nobody is trained: leave one out")
