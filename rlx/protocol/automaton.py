"""Added actions beyond the vocabulary, and the automaton that limits every choice of an engine's requests.

    text, any id but buttons --route--> only buttons --a button that ends it--> the completion ends

Ids are a model's: from 0 to the rows of its head, then one for each added action. Each protocol draws its own
automaton. `union` joins several, and shifts the states of each by an offset. A description of several tokens is one
choice, then states without a choice: `spell_out` adds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Actions beyond the vocabulary: number i has id `first + i` and a separate output row. A context holds the ids of
    its description instead."""

    first: int
    """Number of rows of the model's head."""
    names: tuple[str, ...]
    descriptions: tuple[tuple[int, ...], ...]
    """Ids of the vocabulary, one or more per action."""

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"actions: two have one name, of {', '.join(sorted(self.names))}")
        if len(self.names) != len(self.descriptions) or not self.names:
            raise ValueError(f"actions: {len(self.names)} names, {len(self.descriptions)} descriptions; give as many")
        for name, ids in zip(self.names, self.descriptions):
            if not ids or min(ids) < 0 or max(ids) >= self.first:
                raise ValueError(f"actions: {name!r} needs a description of ids from 0 to {self.first - 1}")

    def read(self, chosen: int) -> int:
        """Return the context's id for a chosen id: the first of an action's description, or the id itself."""
        return chosen if chosen < self.first else self.descriptions[chosen - self.first][0]

    def longer(self) -> Iterable[tuple[int, tuple[int, ...]]]:
        """Yield the ids of actions with descriptions of several tokens, and the tokens after the first."""
        return ((self.first + i, ids[1:]) for i, ids in enumerate(self.descriptions) if len(ids) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State of an automaton: the ids that it allows, and the next states."""

    allowed: frozenset[int] | None = None
    """Allowed ids; None allows every id, of the vocabulary or added, that is not forbidden."""
    forbidden: frozenset[int] = frozenset()
    moves: Mapping[int, int] = field(default_factory=dict)
    """Next state after an id; after other ids the state stays the same."""
    ends: frozenset[int] = frozenset()
    """Ids that end the completion."""

    def __post_init__(self) -> None:
        if self.allowed is not None and (self.forbidden or not self.allowed):
            raise ValueError("automaton: a state allows some ids, or forbids some and allows all others")

    def allows(self, chosen: int) -> bool:
        return chosen not in self.forbidden if self.allowed is None else chosen in self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Automaton:
    """Mask over ids that changes with every choice (an expanded action space, a grammar).

    All requests of an engine share one automaton, and each names its first state. A request without a state forbids
    added actions only. A token's mask id is the state in which it was chosen.
    """

    states: tuple[State, ...]
    actions: Actions | None = None

    def __post_init__(self) -> None:
        targets = {target for state in self.states for target in state.moves.values()}
        if not self.states or not all(0 <= target < len(self.states) for target in targets):
            raise ValueError(f"automaton: moves name its {len(self.states)} states, 0 to {len(self.states) - 1}")

    @property
    def num_added(self) -> int:
        return 0 if self.actions is None else len(self.actions.names)


def union(automata: Sequence[Automaton]) -> tuple[Automaton, tuple[int, ...]]:
    """Join automata over the same actions; return the union and the state offset of each."""
    if len({automaton.actions for automaton in automata}) > 1:
        raise ValueError("automaton: automata of different actions cannot be joined; give all of them all actions")
    offsets = tuple(sum(len(each.states) for each in automata[:index]) for index in range(len(automata)))
    states = tuple(move(state, by) for each, by in zip(automata, offsets) for state in each.states)
    return Automaton(states=states, actions=automata[0].actions), offsets


def move(state: State, by: int) -> State:
    return replace(state, moves={chosen: target + by for chosen, target in state.moves.items()})


def spell_out(automaton: Automaton) -> Automaton:
    """Add states without a choice, in which the rest of a longer description follows its action.

    The new states follow the existing states, whose numbers stay the same.
    """
    states = list(automaton.states)
    longer = {} if automaton.actions is None else dict(automaton.actions.longer())
    for number, state in enumerate(automaton.states):
        moves, ends = dict(state.moves), set(state.ends)
        for action, rest in longer.items():
            if state.allows(action):
                moves[action] = len(states)
                states += chain(rest, state.moves.get(action, number), len(states), action in ends)
                ends.discard(action)
        states[number] = replace(state, moves=moves, ends=frozenset(ends))
    return replace(automaton, states=tuple(states))


def chain(ids: Sequence[int], target: int, first: int, ends: bool) -> Iterable[State]:
    """Yield states, numbered from `first`, that force these ids. The last leads to `target` or ends the completion."""
    for place, token in enumerate(ids):
        is_last = place == len(ids) - 1
        yield State(
            allowed=frozenset({token}),
            moves={token: target if is_last else first + place + 1},
            ends=frozenset({token} if is_last and ends else ()),
        )
