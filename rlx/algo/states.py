"""States of a task's episodes: the one name by which sampler, credit and measures know where a turn was decided.

    by path   the episode that reached the state first, and the turn: the root of a task is one state, and every sampled
              turn leads to a state of its own. Rows have it as `parent` (rlx.algo.tree.states_of)
    by text   the number of the turn, the agent that acts, and all tokens that it has seen before it decides. Rows have
              it as `state`

Paths are the default: a paper's tree has a state for each turn. Short turns repeat, and `algo.merge` makes equal texts
one state. The sampler then counts the edges of that state, and credit compares them. The turn is part of the name: a
window may forget all that passed, while the limit of turns comes nearer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from rlx.types import Trajectory, Turn

Naming = Callable[[Mapping[int, Trajectory], Trajectory, int], Hashable]
"""Function from the episodes so far by sample, one of them and a turn to the name of the state before the turn."""


class Text(NamedTuple):
    """Name of a state by what the acting agent has seen."""

    turn: int
    agent: str
    prompt_ids: tuple[int, ...]
    prefix_ids: tuple[int, ...]
    """Tokens of the turn that were chosen before the decision, where a fork leaves its parent in mid-turn."""


def text_before(number: int, turn: Turn, num_prefix: int = 0) -> Text:
    """Name the state in which a turn of this number in its episode was decided, by its text."""
    return Text(number, turn.agent, turn.prompt_ids, turn.completion.token_ids[:num_prefix])


def by_text(played: Mapping[int, Trajectory], episode: Trajectory, number: int) -> Text:
    """Name the state before a turn by its text."""
    return text_before(number, episode.turns[number])


def by_path(played: Mapping[int, Trajectory], episode: Trajectory, number: int) -> tuple[int, int]:
    """Name the state before a turn by the sample that reached it first, and the turn; the root by (-1, 0)."""
    while episode.fork is not None and number <= episode.fork.turn:
        episode = played[episode.fork.parent]
    return (episode.sample, number) if number else (-1, 0)
