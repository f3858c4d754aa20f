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
    """Numbered over the batch, not within the group."""
    turn: tuple[int, ...]
    """Number of the turn in its episode, from 0; a fork's first row is the turn it left."""
    parent: tuple[int, ...]
    """The row before it in its episode, or -1 at the start; of a fork's first row, one of another `trajectory`."""
    reward: tuple[float, ...]
    """The turn's own, less the cost of its tool use."""
    num_tokens: tuple[int, ...]
    """Sampled tokens of the turn; of a fork's first row those that it was not given, and forced ones to be learned."""
    success: tuple[bool, ...]
    """Success of the row's whole episode."""
    fork: tuple[int, ...] = field(default=())
    """The row that it left, of whoever sampled that turn, for a fork's first row; -1 for others."""
    fork_token: tuple[int, ...] = field(default=())
    """Tokens of the row it left that come before a fork's first row; 0 for others."""
    status: tuple[Status, ...] = field(default=())
    """End of the row's whole episode: done, truncated or context; those that ended in an error have no rows."""
    env: tuple[str, ...] = field(default=())
    """`Task.env` of the row's episode."""
    state: tuple[int, ...] = field(default=())
    """Number of the row's state: equal for rows of one group whose tokens before the decision are equal."""
    logp: tuple[tuple[float, ...], ...] = field(default=())
    """Log-prob of each sampled token, as the engine said; with an `importance_cap`, as the learner measured it."""
    reference_logp: tuple[tuple[float, ...], ...] = field(default=())
    """The same under the start policy, where the algorithm needs `reference`."""
    value: tuple[tuple[float, ...], ...] = field(default=())
    """Per row, the critic's value before each sampled token, where the algorithm has a critic."""
    value_after: tuple[float, ...] = field(default=())
    """The critic's value after each row's last token; not a number where its turn sampled none."""
    observation: tuple[int, ...] = field(default=())
    """Number of the observation before the decision: equal for rows of one group that answer the same text, whatever
    came before it. The first turn answers the episode's opening."""
    invalid: tuple[bool, ...] = field(default=())
    """Flag of turns that the protocol could not read or the environment rejected."""
    spare: tuple[bool, ...] = field(default=())
    """Flag of rows whose episode its sampler left out (`Trajectory.spare`). Empty where there is none."""
    replayed: tuple[float, ...] = field(default=())
    """Reward of the turns that the row's episode replays, part of its return. Empty where nothing forks."""
