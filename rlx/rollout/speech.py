"""Text and tokens: a tokenizer under a protocol. Sampled ids are never encoded again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rlx.algo.entry import Entry
from rlx.environment.dialect import Dialect
from rlx.model.chat import Marks, end_of_turn, find_marks
from rlx.model.load import encode_text
from rlx.protocol.drawn import (
    ChoiceText,
    Choosing,
    Decode,
    Drawn,
    Encode,
    chosen_as,
    end_completion,
    split_choices,
    without_gap,
)
from rlx.protocol.history import summed_up
from rlx.protocol.thought import CLOSES, OPENS, within_thought
from rlx.rollout.stops import decoder
from rlx.types import Action, Completion, Move, Part, Piece, Request, Task, Turn


@dataclass(frozen=True, kw_only=True)
class Speech:
    """A protocol in ids. A context is joined from its pieces every turn: each text is encoded by itself, completions
    are the ids that were sampled, and what the model's chat template writes between messages is known once."""

    dialect: Dialect
    encode: Encode
    """Text to ids, adding nothing."""
    decode: Decode
    marks: Marks = field(default_factory=dict)
    """Marks of the model's chat template; empty without a template."""
    drawn: Drawn = field(default_factory=Drawn)
    """Automaton of the choices, in all parts of a run."""
    state: int | None = None
    """First state of this protocol in the engine's automaton."""
    thinks: bool = False
    """True if the chat template opens <think> at the start of the model's turn."""
    end: int | None = None
    """Id with which the model ends a turn that no stop string ends; None: it has none."""

    def context(
        self,
        task: Task,
        opening: tuple[Part, ...],
        past: Sequence[Turn],
        encode: Encode | None = None,
        legal: Sequence[str] | None = None,
    ) -> tuple[int, ...]:
        """Return the ids of the context of the next turn; `encode` may remember what it has encoded."""
        pieces = self.dialect.context(task, opening, past, legal)
        if self.dialect.inline and self.dialect.prompt_template is None:
            pieces = inline_observations(pieces, past, self.end)
        return tuple(join(pieces, past, encode or self.encode, self.marks, self.end))

    def hear(self, completion: Completion, past: Sequence[Turn] = ()) -> Action:
        """Read the action that a completion means; `past` holds the turns before it."""
        pieces = list(split_choices(completion, self.drawn.actions, self.decode))
        if self.dialect.is_summary_next(past):
            return summed_up("".join(text for _, text in pieces), self.dialect.summary_end)
        if self.state is not None and isinstance(self.dialect, Choosing):
            return self.dialect.understand(pieces, completion.stop)
        return self.dialect.parse(self.opened + "".join(text for _, text in pieces), completion.stop)

    def measure(self, completion: Completion, action: Action) -> Mapping[str, float]:
        """Return the measures of a turn's text, of a protocol that has some (`measure`)."""
        if action.kind == "summary":
            return {}
        pieces = split_choices(completion, self.drawn.actions, self.decode)
        return self.dialect.measure(self.opened + "".join(text for _, text in pieces), action)

    @property
    def opened(self) -> str:
        """Text of the model's turn that the chat template wrote."""
        return OPENS if self.thinks else ""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Entries of the verbs, under a protocol in which verbs are entered."""
        return tuple(self.entry(name, choice_text) for name, choice_text in self.dialect.entries.items())

    def entry(self, name: str, choice_text: ChoiceText) -> Entry:
        """Return the entry by a route beyond the vocabulary, or by text, with the first tokens that say its name.

        Blanks say nothing of a name, and nor does the first token of a tag of several (`<`): it begins any tag. The
        blank that a context has between a route and its first button is no part of the route's description.
        """
        route, text = choice_text
        spelled, actions = tuple(self.encode(text)), self.drawn.actions
        is_text = not route or actions is None
        names = [f" {name}", name] if is_text and len(spelled) > 1 else [text, f" {name}", name]
        words = dict.fromkeys(next(self.telling(spelling)) for spelling in names)
        if not route or actions is None:
            possible = partial(self.possible, name) if self.dialect.limits_entries else None
            return Entry(name=name, chosen=spelled, words=tuple(words), description=spelled, possible=possible)
        number = actions.names.index(route)
        ids = actions.descriptions[number]
        description = without_gap(ids, [token_id for token_id in ids if self.is_blank(token_id)])
        return Entry(name=name, chosen=(actions.first + number,), words=tuple(words), description=description)

    def possible(self, name: str, token_ids: Sequence[int]) -> Sequence[bool]:
        """Tell for each token of a turn whether the protocol reads an entry before it."""
        pieces = [self.decode([token_id]) for token_id in token_ids]
        return self.dialect.may_enter(name, pieces, OPENS if self.thinks else "")

    def begins(self, legal: Sequence[str] | None) -> int | None:
        """The state of the engine's automaton in which a turn starts where these actions are legal; None: all are."""
        if self.state is None or not isinstance(self.dialect, Choosing):
            return None
        return self.state + self.dialect.begins(legal)

    def telling(self, text: str) -> Iterator[int]:
        """The ids of a text that are no blanks, which say nothing of it."""
        return (token_id for token_id in self.encode(text) if not self.is_blank(token_id))

    def is_blank(self, token: int) -> bool:
        return self.decode([token]).isspace()

    def put(self, request: Request, past: Sequence[Turn]) -> Request:
        """Return the request for the turn after `past`: for an action, or for a summary with its own length limit."""
        if not self.dialect.is_summary_next(past):
            return request
        longest = replace(request.sampling, max_new_tokens=self.dialect.summary_tokens)
        return replace(request, sampling=longest, stops=(self.dialect.summary_end,), state=None)

    def write_summary(self, past: Sequence[Turn]) -> Completion | None:
        """Return the expert's summary after these turns, or None where the next turn is no summary. A summary that is
        too long keeps its last tokens."""
        if not self.dialect.is_summary_next(past):
            return None
        end = self.dialect.summary_end
        last = list(self.encode(end))
        room = max(0, self.dialect.summary_tokens - len(last))
        summary_ids = list(self.encode(self.dialect.write_summary(past)))
        return self.spell_ids(([*summary_ids[max(0, len(summary_ids) - room) :], *last])[: self.dialect.summary_tokens])

    def say(self, move: Move, legal: Sequence[str] | None = None) -> Completion:
        """Return an expert's move as a completion, as if sampled where the actions `legal` are legal."""
        state = self.begins(legal)
        if state is None or self.drawn.automaton is None or not isinstance(self.dialect, Choosing):
            return self.spell(self.dialect.write(move))
        choices = self.dialect.choose(move)
        end = None if self.stopped("".join(text for _, text in choices)) else self.end
        return chosen_as(choices, self.drawn.automaton, state, self.encode, end)

    def spell(self, text: str) -> Completion:
        """Encode written text as if it had been sampled: where no stop string ends it, the model's own end does, so
        that whoever imitates the turn learns to end it."""
        spoken = self.spell_ids(self.encode(within_thought(text) if self.thinks else text))
        return spoken if self.stopped(text) or self.end is None else end_completion(spoken, self.end)

    @property
    def thinking(self) -> bool | None:
        """True if a turn begins in a thought, where no stop string counts; None if stop strings count everywhere."""
        return self.thinks if self.dialect.reasoning else None

    def spell_ids(self, ids: Sequence[int]) -> Completion:
        return Completion(token_ids=tuple(ids), logprobs=(0.0,) * len(ids), stop="stop")

    def stopped(self, text: str) -> bool:
        """Tell whether the text ends with one of the protocol's stop strings."""
        return text.endswith(tuple(self.dialect.stops))


def speech_of(
    dialect: Dialect,
    tokenizer: Any,
    *,
    chat: bool = False,
    drawn: Drawn | None = None,
    eos_ids: Collection[int] = (),
) -> Speech:
    """Build the protocol spoken through this tokenizer; with `chat` in messages, by its own template. `eos_ids`: of the
    model's generation settings."""
    marks, decode = find_marks(tokenizer) if chat else {}, decoder(tokenizer)
    begun = decode(marks.get(("user", "assistant"), ()))
    return Speech(
        dialect=dialect,
        encode=partial(encode_text, tokenizer),
        decode=decode,
        thinks=begun.rfind(OPENS) > begun.rfind(CLOSES),
        marks=marks,
        drawn=drawn or Drawn(),
        end=end_of_turn(tokenizer, marks, eos_ids),
    )


def inline_observations(pieces: Iterable[Piece], past: Sequence[Turn], end: int | None) -> Iterator[Piece]:
    """Let observations continue the model's own message: one history, h + desc(a) + o of EARL's Algorithm 1.

    The template is then for the prompt only. After a turn that the model itself ended (`end`), as an answer that was
    invalid is, an observation is a message of its own.
    """
    continues = False
    for piece in pieces:
        if piece.turn is not None:
            continues = end is None or past[piece.turn].completion.token_ids[-1:] != (end,)
        yield piece._replace(role="assistant") if continues else piece


def join(
    pieces: Iterable[Piece], past: Sequence[Turn], encode: Encode, marks: Marks, end: int | None = None
) -> list[int]:
    """Return the ids of a context, up to where the agent speaks. Pieces of one role in a row are one message.

    A text that is last and of the assistant continues its message. A turn that a user's message shows stands there
    without its end.
    """
    ids: list[int] = []
    speaker, is_text = "", False
    for piece in pieces:
        role = role_of(piece, marks)
        if role != speaker:
            ids += between(marks, speaker, role, ids, end)
        if piece.turn is not None and piece.text:
            ids += [*encode(piece.text), *end_in(past[piece.turn], end if role == "assistant" else None)]
        elif piece.turn is not None:
            ids += past[piece.turn].completion.token_ids if role == "assistant" else without_end(past[piece.turn])
        elif piece.text:
            ids += encode(piece.text)
        speaker, is_text = role, piece.turn is None
    if speaker == "assistant" and is_text:
        return ids
    if speaker == "assistant":
        ids += between(marks, "assistant", "user", ids, end)
    return [*ids, *between(marks, "tool" if speaker == "tool" else "user", "assistant", ids)]


def role_of(piece: Piece, marks: Marks) -> str:
    """Return the role of a piece's message. What the template has no messages for is the user's."""
    is_unknown = (piece.role == "tool" and ("assistant", "tool") not in marks) or (
        piece.role == "system" and ("", "system") not in marks
    )
    return "user" if is_unknown else piece.role


def end_in(turn: Turn, end: int | None) -> Sequence[int]:
    """Return the id `end` if a turn ends with it, for the text that stands in the turn's place."""
    return (end,) if end is not None and turn.completion.token_ids[-1:] == (end,) else ()


def without_end(turn: Turn) -> Sequence[int]:
    """Return the ids of a turn without the end of sequence, which would end the message around it."""
    completion = turn.completion
    return completion.token_ids[:-1] if completion.stop == "eos" else completion.token_ids


def between(marks: Marks, before: str, after: str, ids: Sequence[int], end: int | None = None) -> Sequence[int]:
    """Return what the template writes there; not the end of a message that the completion before has as its own last
    id."""
    if not marks:
        return ()
    if (before, after) not in marks:
        raise ValueError(f"model.chat: the template has nothing from {before or 'the start'} to {after}")
    mark = marks[before, after]
    if before != "assistant" or not ids or ids[-1] not in (end, *mark[:1]) or ids[-1] not in mark:
        return mark
    return mark[mark.index(ids[-1]) + 1 :]
