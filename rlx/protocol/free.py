"""Free text with one place in it that counts, shared by the protocols `boxed` and `fenced`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from rlx.base.fences import unfence
from rlx.base.limits import not_empty
from rlx.protocol.blocks import end_outside_thoughts, invalid, join_texts, printable, require_same_action, uncut
from rlx.protocol.direct import is_bare, meant, spell_action
from rlx.protocol.history import History
from rlx.protocol.instruction import spell
from rlx.protocol.tags import refuse_names
from rlx.types import Action, Move, Part, Stop, Verb


@dataclass(frozen=True, kw_only=True)
class Free(History):
    """A thought in free text, then the place; a call of a tool in its tag."""

    instruction: str | None = None
    """Line before the task's own text, or a system message with {goal} and {actions}; null: the place of the answer,
    and the tools; empty: no line."""
    stops_at: tuple[str, ...] = ()
    """Stop strings of a turn, beside a tool's closing tag and the model's end of sequence."""
    tool_verbs: tuple[Verb, ...] = ()
    """Tools of the environment, set by `bind`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "stops_at", tuple(self.stops_at))
        not_empty(stops_at=self.stops_at)

    @property
    @abstractmethod
    def place(self) -> str:
        """Name of the place, for the instruction."""

    @abstractmethod
    def extract(self, text: str) -> str | None:
        """Return the content of the place; None if the text has none."""

    @abstractmethod
    def wrap(self, text: str) -> str:
        """Return the place with this text in it."""

    @cached_property
    def tools(self) -> tuple[str, ...]:
        return tuple(verb.name for verb in self.tool_verbs)

    @cached_property
    def stops(self) -> tuple[str, ...]:
        return (*(f"</{name}>" for name in self.tools), *self.stops_at)

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Self:
        refuse_names([verb.name for verb in tools])
        return replace(self, tool_verbs=tools, declared=actions)

    @cached_property
    def introduction(self) -> str | None:
        text = instruct(self.tool_verbs, self.declared, self.place) if self.instruction is None else self.instruction
        return text or None

    def parse(self, text: str, stop: Stop) -> Action:
        return uncut(self.read(text), stop)

    def read(self, text: str) -> Action:
        """Return what a whole turn says."""
        turn = end_outside_thoughts(text, self.stops, self.reasoning)
        call = self.call_in(turn) if self.tool_verbs else None
        if call is not None:
            return call
        content = self.extract(turn)
        return invalid(f"put it in {self.place}") if content is None else meant(content.strip(), self.declared)

    def call_in(self, turn: str) -> Action | None:
        """Return the call of a tool: that of the tag that ends the turn."""
        name = next((name for name in self.tools if turn.endswith(f"</{name}>")), "")
        return read_call(name, turn) if name else None

    def write(self, move: Move) -> str:
        """Return the text whose action is the move's; a ValueError if the place cannot say it."""
        action, name = move.action, move.action.name
        if action.kind == "call":
            action_text = f"<{name}>{action.text.strip()}</{name}>"
        else:
            action_text = self.wrap(spell_action(action, self.declared))
        text = f"{move.thought}{self.gap(action)}{action_text}" if move.thought else action_text
        require_same_action(self.read(text), action)
        return text

    def gap(self, action: Action) -> str:
        """Return the text between a thought and the place."""
        return " "

    def render(self, observation: tuple[Part, ...]) -> str:
        return f"\n{printable(join_texts(observation))}\n" if observation else ""


def read_call(name: str, turn: str) -> Action:
    """Return the call in the tag that ends the turn; a block of code around all of it is only its dress."""
    _, opened, body = turn.removesuffix(f"</{name}>").rpartition(f"<{name}>")
    return Action(kind="call", name=name, text=unfence(body).strip()) if opened else invalid(f"<{name}> is not opened")


def instruct(tool_verbs: Sequence[Verb], declared: Sequence[Verb], place: str) -> str:
    """Say what can be said, and where."""
    calls = "".join(f"You may {verb.description} in <{verb.name}>. " for verb in tool_verbs)
    if not declared:
        return f"{calls}Put your answer in {place}."
    if is_bare(declared):
        return f"{calls}Put your {declared[0].argument} in {place}."
    return f"{calls}Put one of these in {place}: {', '.join(map(spell, declared))}."
