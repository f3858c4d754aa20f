"""Choices beyond text, from the protocol that says so to all that need it.

    each part's protocol   added ─────> descriptions' ids ──expand──> rows of the model, as it is loaded
                           draw ──────> automaton, joined with the others' ──> Engine.use, the learner
                           begins ────> where in it a turn starts, by what is legal then: each request names it
                           understand <─ what was chosen ── the completion
                           choose ──────> an expert's moves, as if they had been sampled

A protocol that has these needs no line anywhere else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rlx.base.declared import declared
from rlx.base.limits import MistakeError
from rlx.environment.dialect import Dialect
from rlx.protocol.automaton import Actions, Automaton, spell_out, union
from rlx.types import Action, Completion, Move, Stop

Encode = Callable[[str], Sequence[int]]
Decode = Callable[[Sequence[int]], str]
Initial = Literal["description", "word", "first"]
"""Initial output row of an action: fitted to its description, the mean of its words' rows, or its first word's row."""
ChoiceText = tuple[str, str]
"""Name of an added action, empty for text, and the text that the context holds for it."""


class Choosing(Dialect):
    """A protocol under which not everything may be said everywhere."""

    @declared
    def rows(self) -> Initial:
        """Initial output row of each added action."""
        return "description"

    @property
    @abstractmethod
    def added(self) -> Mapping[str, str]:
        """Actions beyond the vocabulary: by name, the description that stands for one in a context."""

    @abstractmethod
    def draw(self, actions: Actions | None, encode: Encode) -> Automaton:
        """Draw what may be chosen where, of the vocabulary and of `actions`, all that the model has."""

    @abstractmethod
    def begins(self, legal: Sequence[str] | None) -> int:
        """Return the state of what it draws in which a turn begins, where these of the declared actions are legal;
        None: all of them."""

    @abstractmethod
    def understand(self, choices: Sequence[ChoiceText], stop: Stop) -> Action:
        """Read an action from what was chosen: text that spells an action's description is not that action."""

    def choose(self, move: Move) -> Sequence[ChoiceText]:
        """Return a demonstration as it is chosen: the inverse of `understand`. ValueError where there are none."""
        raise ValueError(f"protocol: {type(self).__name__} has no demonstrations")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The automata of a run, joined into one automaton, with the first state of each part."""

    automaton: Automaton | None = None
    states: Mapping[str, int] = field(default_factory=dict)
    """First states by `Task.env`; none for a part whose protocol draws nothing."""

    @property
    def actions(self) -> Actions | None:
        return None if self.automaton is None else self.automaton.actions


def added_by(dialects: Mapping[str, Dialect]) -> dict[str, str]:
    """The actions that the protocols of a run's parts add, and their descriptions; parts share those of one name."""
    descriptions: dict[str, str] = {}
    for part, dialect in dialects.items():
        for name, description in dialect.added.items() if isinstance(dialect, Choosing) else ():
            if descriptions.setdefault(name, description) != description:
                problem = f"part {part!r:.60} describes action {name!r:.60}"
                raise MistakeError(f"protocol: {problem} unlike another; rename it")
    return descriptions


def initial_by(dialects: Mapping[str, Dialect]) -> dict[str, Initial]:
    """Return the initial row of each action that the protocols of a run's parts add."""
    parts = [dialect for dialect in dialects.values() if isinstance(dialect, Choosing)]
    return {name: dialect.rows for dialect in reversed(parts) for name in dialect.added}


def drawn_by(dialects: Mapping[str, Dialect], actions: Actions | None, encode: Encode) -> Drawn:
    """Join what the protocols of a run's parts draw over the model's actions."""
    automata = {
        part: spell_out(dialect.draw(actions, encode))
        for part, dialect in dialects.items()
        if isinstance(dialect, Choosing)
    }
    if not automata:
        return Drawn()
    automaton, states = union(list(automata.values()))
    return Drawn(automaton=automaton, states=dict(zip(automata, states)))


def without_gap(description: tuple[int, ...], blanks: Collection[int]) -> tuple[int, ...]:
    """Return a description without the blanks that part it from what is chosen next."""
    while len(description) > 1 and description[-1] in blanks:
        description = description[:-1]
    return description


def split_choices(completion: Completion, actions: Actions | None, decode: Decode) -> Iterator[ChoiceText]:
    """A completion as it was chosen; an end-of-sequence token is no part of what was said."""
    end = len(completion.token_ids) - (completion.stop == "eos")
    chosen = completion.chosen_ids or completion.token_ids
    position = since = 0
    while position < end:
        number = -1 if actions is None else chosen[position] - actions.first
        if actions is None or number < 0:
            position += 1
            continue
        if since < position:
            yield "", decode(completion.token_ids[since:position])
        since = min(position + len(actions.descriptions[number]), end)
        yield actions.names[number], decode(completion.token_ids[position:since])
        position = since
    if since < end:
        yield "", decode(completion.token_ids[since:end])


def end_completion(completion: Completion, end: int) -> Completion:
    """Return the completion with an end of sequence after it."""
    chosen_ids = (*completion.chosen_ids, end) if completion.chosen_ids else ()
    return replace(
        completion,
        token_ids=(*completion.token_ids, end),
        chosen_ids=chosen_ids,
        logprobs=(*completion.logprobs, 0.0),
        stop="eos",
    )


def chosen_as(
    choices: Sequence[ChoiceText], automaton: Automaton, state: int, encode: Encode, end: int | None = None
) -> Completion:
    """Return the inverse of `split_choices`: what is said, as if it had been sampled from `state` on, and the id `end`
    where the automaton does not end it; ValueError for what cannot be."""
    actions = automaton.actions
    token_ids: list[int] = []
    chosen_ids: list[int] = []
    for name, text in choices:
        number = None if actions is None or not name else actions.names.index(name)
        ids = tuple(encode(text)) if actions is None or number is None else actions.descriptions[number]
        token_ids += ids
        chosen_ids += ids if actions is None or number is None else (actions.first + number, *ids[1:])
    mask_ids: list[int] = []
    is_over = False
    for chosen in chosen_ids:
        if not automaton.states[state].allows(chosen):
            raise ValueError(f"protocol: id {chosen} of {[text for _, text in choices]!r:.80} cannot be chosen there")
        mask_ids.append(state)
        is_over = chosen in automaton.states[state].ends
        state = automaton.states[state].moves.get(chosen, state)
    spoken = Completion(
        token_ids=tuple(token_ids),
        chosen_ids=tuple(chosen_ids),
        mask_ids=tuple(mask_ids),
        logprobs=(0.0,) * len(token_ids),
        stop="stop",
    )
    if end is None or is_over:
        return spoken
    return replace(end_completion(spoken, end), mask_ids=(*mask_ids, state))
