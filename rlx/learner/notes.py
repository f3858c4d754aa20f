"""Results of training for each token of a step's trajectories, to be stored beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch
from torch import Tensor

from rlx.learner.batch import Batch
from rlx.learner.rows import decisions
from rlx.runs.codec import Notes
from rlx.types import Group, Trajectory


def notes_of(
    groups: Sequence[Group],
    batch: Batch,
    taught: Batch,
    entropy_M: Tensor,
    decode: Callable[[Sequence[int]], str],
) -> list[list[list[Notes]]]:
    """Return the notes of each turn, by group and trajectory. `batch` holds every sampled token, `entropy_M` the
    entropy of each; `taught` holds the tokens that credit keeps, with their advantages."""
    in_taught_M = torch.isin(batch.position_M, taught.position_M)
    columns = {
        "advantages": spread(taught.advantage_M, in_taught_M),
        "entropies": entropy_M,
        "values": batch.old_M.get("value"),
        "trained": in_taught_M.float(),
    }
    ends = batch.row_M.bincount(minlength=len(batch.trajectory_R)).tolist()
    rows_by_column = {name: column.split(ends) for name, column in columns.items() if column is not None}
    row_of = {(id(d.episode), d.turn): row for row, d in enumerate(decisions(groups))}

    @cache
    def piece(token: int) -> str:
        return decode([token])

    def turns(episode: Trajectory) -> list[Notes]:
        episode_notes: list[Notes] = []
        for index, turn in enumerate(episode.turns):
            ids, row = turn.completion.token_ids, row_of.get((id(episode), index))
            columns_of_turn = (
                {} if row is None else {name: pad(rows[row], len(ids)) for name, rows in rows_by_column.items()}
            )
            episode_notes.append({"pieces": [piece(token) for token in ids], **columns_of_turn})
        return episode_notes

    return [[turns(trajectory) for trajectory in group.trajectories] for group in groups]


def join_notes(
    groups: Sequence[Group], agents: Mapping[str, Sequence[str]], notes_of_agents: Sequence[list[list[Notes]]]
) -> list[list[list[Notes]]]:
    """Return the notes of whole episodes, from those of each agent's own (rlx.environment.agents.groups_of_agents).
    Notes of agents that are not trained are empty."""
    rest = iter(notes_of_agents)
    joined: list[list[list[Notes]]] = []
    for group in groups:
        by_agent = {agent: next(rest) for agent in agents[group.task.env]}
        columns = [dict(zip(by_agent, agent_notes)) for agent_notes in zip(*by_agent.values())]
        joined.append([in_order(episode, notes) for episode, notes in zip(group.trajectories, columns)])
    return joined


def in_order(episode: Trajectory, notes: Mapping[str, Sequence[Notes]]) -> list[Notes]:
    """Return the notes of an episode's turns, from those of its agents in the order of their own turns."""
    rest = {agent: iter(agent_notes) for agent, agent_notes in notes.items()}
    return [next(rest[turn.agent]) if turn.agent in rest else {} for turn in episode.turns]


def spread(column: Tensor | None, chosen_M: Tensor) -> Tensor | None:
    """A column of the chosen tokens over all of them."""
    if column is None:
        return None
    wide_M = torch.full(chosen_M.shape, math.nan)
    wide_M[chosen_M] = column.float()
    return wide_M


def pad(values: Tensor, num: int) -> list[float | None]:
    """A row's numbers, with null for the leading tokens that it did not sample and for what is not finite."""
    numbers = [value if math.isfinite(value) else None for value in values.tolist()]
    return [*([None] * (num - len(numbers))), *numbers]
