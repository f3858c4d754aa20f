"""Exact values of a policy by enumeration: dynamic programming over the states of a small decision process.

    Q(s, a) = sum over outcomes (p, r, s') of p (r + V(s')),   V of an end is 0
    V(s)    = sum over a of pi(a | s) Q(s, a)
    A(s, a) = Q(s, a) - V(s)                                  so sum over a of pi(a | s) A(s, a) = 0

A state never comes again, so it counts its turns where a process has cycles; `Histories` makes any process one whose
states are histories, for a policy pi(a | history).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)
H = tuple[Hashable, ...]
"""State, action, state, ..., state."""
Policy = Callable[[S], Mapping[str, float]]
"""Probability of each action in a state, pi(a | s)."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[S]):
    """One possible result of an action."""

    probability: float
    reward: float
    state: S | None
    """Next state; None: the episode ends."""
    success: bool | None = None
    """Success of an episode that ends here; None where it goes on, or is cut off."""


class Process(Protocol[S]):
    """A decision process with a finite horizon."""

    @property
    def start(self) -> S: ...

    def outcomes(self, state: S, action: str) -> Sequence[Outcome[S]]:
        """Return the possible results; their probabilities sum to 1."""
        ...


@dataclass(frozen=True, slots=True)
class Values(Generic[S]):
    """V, Q and the probability that an episode reaches a state, of every state that the policy can reach."""

    v: Mapping[S, float]
    q: Mapping[tuple[S, str], float]
    reach: Mapping[S, float]

    def advantage(self, state: S, action: str) -> float:
        """A(s, a) = Q(s, a) - V(s)."""
        return self.q[state, action] - self.v[state]


def exact_values(process: Process[S], policy: Policy[S]) -> Values[S]:
    """Return the values of every state that the policy can reach from the start."""
    v: dict[S, float] = {}
    q: dict[tuple[S, str], float] = {}

    def value(state: S) -> float:
        if state not in v:
            chances = policy(state)
            for action in chances:
                results = process.outcomes(state, action)
                q[state, action] = sum(
                    outcome.probability * (outcome.reward + value_after(outcome)) for outcome in results
                )
            v[state] = sum(chance * q[state, action] for action, chance in chances.items())
        return v[state]

    def value_after(outcome: Outcome[S]) -> float:
        return 0.0 if outcome.state is None else value(outcome.state)

    value(process.start)
    return Values(v=v, q=q, reach=compute_reach(process, policy, list(v)))


def compute_reach(process: Process[S], policy: Policy[S], states: Sequence[S]) -> dict[S, float]:
    """Return the probability of reaching each state; `states` lists successors before their predecessors."""
    reach = dict.fromkeys(states, 0.0)
    reach[process.start] = 1.0
    for state in reversed(states):
        for action, chance in policy(state).items():
            for outcome in process.outcomes(state, action):
                if outcome.state is not None:
                    reach[outcome.state] += reach[state] * chance * outcome.probability
    return reach


@dataclass(frozen=True, slots=True)
class Histories(Generic[S]):
    """The same process with histories for states."""

    process: Process[S]

    @property
    def start(self) -> H:
        return (self.process.start,)

    def outcomes(self, state: H, action: str) -> Sequence[Outcome[H]]:
        results = self.process.outcomes(state[-1], action)  # type: ignore[arg-type]
        return [
            Outcome(
                outcome.probability,
                outcome.reward,
                None if outcome.state is None else (*state, action, outcome.state),
                outcome.success,
            )
            for outcome in results
        ]
