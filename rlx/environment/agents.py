"""Several agents in one episode: what each of them has seen, and the episode of each.

An episode is one ordered list of turns, whoever acts, so a fork is a replay of recorded actions. A step's observation
is read by the agent that acts next:

    turns       A: raise     B: fold     A: show          (Turn.agent)
    observation "A raised"   "B folded"  "you win"        read by B, A, nobody
    A has seen  opening, raise, "B folded", show

So an agent's own episode is its turns, each with the observation before its next turn. Its reward is the sum of the
environment's rewards for the agent in all turns. A reward from another agent's turn counts for the agent's last turn
before, or for its first turn if the agent has not acted yet. An agent that never acts has no turn, and earns nothing.

The own episode keeps the game that it was taken from (`Trajectory.game`): where episodes fork, what an agent's turn was
worth depends on the turns of others after it, so credit sees these too (rlx.learner.rows.game_decisions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlx.environment import Environment
from rlx.types import Fork, Group, Part, Task, Trajectory, Turn

Seen = tuple[Part, ...]


def is_alone(env: Environment) -> bool:
    """Tell whether one agent acts in the environment's episodes."""
    return len(env.agents) == 1


def brief(env: Environment, task: Task, agent: str) -> Task:
    """Return the task as an agent is told it."""
    return task if is_alone(env) else replace(task, prompt=env.briefing(task, agent))


def spans(agent: str, turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """Return the place of each turn of an agent, and that of its next one; after the last, the number of turns."""
    places = [place for place, turn in enumerate(turns) if turn.agent == agent]
    return list(zip(places, [*places[1:], len(turns)]))


def seen_by(agent: str, opening: Seen, turns: Sequence[Turn]) -> tuple[Seen, list[Turn]]:
    """Return what an agent saw before its first turn, and its turns, each with the observation that it read next."""
    agent_spans = spans(agent, turns)
    read = [opening, *(turn.observation for turn in turns)]
    first = read[agent_spans[0][0] if agent_spans else len(turns)]
    return first, [replace(turns[place], observation=read[end]) for place, end in agent_spans]


def seen_in(env: Environment, agent: str, opening: Seen, turns: Sequence[Turn]) -> tuple[Seen, Sequence[Turn]]:
    """Return the same in an environment; an agent that acts alone saw all, and nothing is copied."""
    return (opening, turns) if is_alone(env) else seen_by(agent, opening, turns)


def turns_of_agent(agent: str, opening: Seen, turns: Sequence[Turn]) -> tuple[Seen, list[Turn]]:
    """Return what `seen_by` returns, with all that the agent earned in each turn's reward."""
    first, agent_turns = seen_by(agent, opening, turns)
    agent_spans = spans(agent, turns)
    earned = [
        sum((turn.rewards.get(agent, 0.0) for turn in turns[place + 1 : end]), turns[place].reward)
        for place, end in agent_spans
    ]
    if agent_spans:
        earned[0] += sum(turn.rewards.get(agent, 0.0) for turn in turns[: agent_spans[0][0]])
    return first, [replace(turn, reward=reward, rewards={}, outcomes={}) for turn, reward in zip(agent_turns, earned)]


def episode_of_agent(agent: str, episode: Trajectory) -> Trajectory:
    """Return the episode of one agent. A fork in another agent's turn leaves its parent before the agent's own."""
    opening, turns = turns_of_agent(agent, episode.opening, episode.turns)
    outcomes = episode.turns[-1].outcomes if episode.turns else {}
    success = outcomes.get(agent, episode.success)
    fork = fork_of_agent(agent, episode)
    return replace(episode, opening=opening, turns=tuple(turns), success=success, fork=fork, game=episode)


def fork_of_agent(agent: str, episode: Trajectory) -> Fork | None:
    """Return an episode's fork, with its turn counted in the agent's own turns."""
    fork = episode.fork
    if fork is None:
        return None
    turn_index = sum(turn.agent == agent for turn in episode.turns[: fork.turn])
    is_own = fork.turn < len(episode.turns) and episode.turns[fork.turn].agent == agent
    return replace(fork, turn=turn_index) if is_own else Fork(parent=fork.parent, turn=turn_index)


def groups_of_agents(groups: Sequence[Group], agents: Mapping[str, Sequence[str]]) -> list[Group]:
    """Split each group into a group of every agent's own episodes; `agents` by `Task.env`.

    The group of an agent that acts alone stays as it is.
    """
    return [agent_group for group in groups for agent_group in split_group(group, agents[group.task.env])]


def split_group(group: Group, agents: Sequence[str]) -> list[Group]:
    if tuple(agents) == ("",):
        return [group]
    return [
        replace(group, trajectories=tuple(episode_of_agent(agent, episode) for episode in group.trajectories))
        for agent in agents
    ]
