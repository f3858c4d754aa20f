"""Rows: what credit sees of a batch, a decision (turn) each."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlx.types import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One row per decision (turn), over the whole batch; every column has a value per row.

    Credit assignment sees all of it at once. Columns with a default may be empty.
    """

    group: tuple[int, ...]
    """Number of the group in its step, from 0."""
    trajectory: tuple[int, ...]
    """Number of the trajectory in its batch, from 0; not within its group."""
    turn: tuple[int, ...]
    """Number of the turn in its episode, from 0; of the turns of all agents where the rows hold those of `other` ones.
    A fork's first row has the number of the turn that it left."""
    parent: tuple[int, ...]
    """Row of the turn before in the same episode, -1 for a first turn. The turn before a fork's first row is replayed,
    so its row belongs to another `trajectory`."""
    reward: tuple[float, ...]
    """Reward of the turn, less the cost of its tool use."""
    num_tokens: tuple[int, ...]
    """Number of tokens that the episode sampled in the turn. A fork's first row counts no tokens of its parent, and
    forced ones only if they are `learned`."""
    success: tuple[bool, ...]
    """Success of the row's whole episode."""
    fork: tuple[int, ...] = field(default=())
    """For a fork's first row: the row of the turn that it branches from; -1 for others."""
    fork_token: tuple[int, ...] = field(default=())
    """For a fork's first row: number of tokens of that turn before the branch; 0 for others."""
    status: tuple[Status, ...] = field(default=())
    """End of the row's whole episode: done, truncated or context; those that ended in an error have no rows."""
    env: tuple[str, ...] = field(default=())
    """`Task.env` of the row's episode."""
    state: tuple[int, ...] = field(default=())
    """Number of the row's state by its text (rlx.algo.states): equal for rows of one group with equal texts. A turn of
    another agent also counts what this agent has seen and said by then."""
    logp: tuple[tuple[float, ...], ...] = field(default=())
    """Log-prob of each sampled token, by the engine; with an `importance_cap`, by the learner."""
    reference_logp: tuple[tuple[float, ...], ...] = field(default=())
    """Log-probs of the same tokens under the start policy; empty unless the algorithm `needs` the `reference`."""
    value: tuple[tuple[float, ...], ...] = field(default=())
    """Critic's value before each sampled token; empty without a critic (`rlx.algo.gae.critic_values`)."""
    value_after: tuple[float, ...] = field(default=())
    """Critic's value after the row's last token; not a number where the turn sampled none."""
    observation: tuple[int, ...] = field(default=())
    """Number of the observation before the decision: equal for rows of one group that answer the same text, whatever
    came before it. The first turn answers the episode's opening."""
    invalid: tuple[bool, ...] = field(default=())
    """Flag of turns that the protocol could not read or the environment rejected."""
    spare: tuple[bool, ...] = field(default=())
    """Flag of rows whose episode its sampler left out (`Trajectory.spare`). Empty where there is none."""
    replayed: tuple[float, ...] = field(default=())
    """Reward of the turns that the row's episode replays, part of its return. Empty where nothing forks."""
    other: tuple[bool, ...] = field(default=())
    """Flag of turns of another agent, which stand between the agent's own where episodes of several agents fork, so
    that the rows are the tree of the game. They have no tokens, `reward` is what the agent earned in them, and nothing
    that credit says of them is read. Empty where there are none."""

    def is_sampled(self, row: int) -> bool:
        """Tell whether the agent itself sampled a row."""
        return not (self.other and self.other[row])

    def sampled_before(self, row: int) -> int:
        """Return the agent's own row before a row in its episode; -1 where there is none."""
        before = self.parent[row]
        while before >= 0 and not self.is_sampled(before):
            before = self.parent[before]
        return before
