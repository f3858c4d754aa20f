"""What may be chosen where: actions beyond the vocabulary, and the automaton that all requests of an engine share.

    text, any id but buttons --route--> only buttons --a button that ends it--> the completion ends

Ids are a model's: from 0 to the rows of its head, then one for each added action. How a protocol draws its automaton is
the protocol's; several are joined by `union`, each with its states moved by an offset. A description of several tokens
is one choice, and then states that leave no choice: `spell_out` adds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Actions beyond the vocabulary: number i has id `first + i` and an output row of its own. A context never holds
    such an id, but its description's."""

    first: int
    """The rows of the model's own head."""
    names: tuple[str, ...]
    descriptions: tuple[tuple[int, ...], ...]
    """Ids of the vocabulary, one or more."""

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"actions: two have one name, of {', '.join(sorted(self.names))}")
        if len(self.names) != len(self.descriptions) or not self.names:
            raise ValueError(f"actions: {len(self.names)} names, {len(self.descriptions)} descriptions; give as many")
        for name, ids in zip(self.names, self.descriptions):
            if not ids or min(ids) < 0 or max(ids) >= self.first:
                raise ValueError(f"actions: {name!r} needs a description of ids from 0 to {self.first - 1}")

    def read(self, chosen: int) -> int:
        """What a context holds for an id that was chosen: the first of an action's description, or the id itself."""
        return chosen if chosen < self.first else self.descriptions[chosen - self.first][0]

    def longer(self) -> Iterable[tuple[int, tuple[int, ...]]]:
        """Ids of actions with descriptions of several tokens, and what follows the first."""
        return ((self.first + i, ids[1:]) for i, ids in enumerate(self.descriptions) if len(ids) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where an automaton may be: what may be chosen there, and where that leads."""

    allowed: frozenset[int] | None = None
    """None: every id, of the vocabulary or added, that is not forbidden."""
    forbidden: frozenset[int] = frozenset()
    moves: Mapping[int, int] = field(default_factory=dict)
    """The state that follows an id; after others it stays the same."""
    ends: frozenset[int] = frozenset()
    """Ids that end the completion."""

    def __post_init__(self) -> None:
        if self.allowed is not None and (self.forbidden or not self.allowed):
            raise ValueError("automaton: a state allows some ids, or forbids some and allows all others")

    def allows(self, chosen: int) -> bool:
        return chosen not in self.forbidden if self.allowed is None else chosen in self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Automaton:
    """A mask over ids that moves as they are chosen (an expanded action space, a grammar): one for all requests of an
    engine, each of which names the state it starts in. Without one, added actions are forbidden and nothing else.

    The id of a token's mask is the state it was chosen in.
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
    """Automata over the same actions as one, and by how much the states of each are moved in it."""
    if len({automaton.actions for automaton in automata}) > 1:
        raise ValueError("automaton: automata of different actions cannot be joined; give all of them all actions")
    offsets = tuple(sum(len(each.states) for each in automata[:index]) for index in range(len(automata)))
    states = tuple(moved(state, by) for each, by in zip(automata, offsets) for state in each.states)
    return Automaton(states=states, actions=automata[0].actions), offsets


def moved(state: State, by: int) -> State:
    return replace(state, moves={chosen: target + by for chosen, target in state.moves.items()})


def spell_out(automaton: Automaton) -> Automaton:
    """The automaton with states that leave no choice, in which the rest of a longer description follows its action.

    They come after those there are, which keep their numbers.
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
    """States from number `first` on that say these ids and lead to `target`, or end the completion."""
    for place, said in enumerate(ids):
        is_last = place == len(ids) - 1
        yield State(
            allowed=frozenset({said}),
            moves={said: target if is_last else first + place + 1},
            ends=frozenset({said} if is_last and ends else ()),
        )
