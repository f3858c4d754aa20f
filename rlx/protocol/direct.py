"""The bare completion is the act: no thought, no tags, nothing around it.

    environment:  It is a number from 1 to 50.\\n
    agent:        25\\n
    environment:  lower\\n

If an environment declares a single action, and the action takes an argument, a turn is the argument. With any other
actions, a turn is the action's name or phrase (`turn left`), then the argument, if any. Without actions, a turn is the
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from rlx.base.limits import not_empty
from rlx.protocol.blocks import ANSWER, end_outside_thoughts, invalid, join_texts, printable, require_same_action, uncut
from rlx.protocol.history import History
from rlx.protocol.instruction import spell
from rlx.protocol.thought import CLOSES
from rlx.types import Action, Move, Part, Stop, Verb

BRIEF = 40
"""Characters of a turn that is remembered."""


@dataclass(frozen=True, kw_only=True)
class Lines(History):
    """A protocol whose observations are lines with nothing around them; a summary is a line too."""

    stops: tuple[str, ...] = ("\n",)
    """Stop strings of a turn, beside the model's end of sequence."""

    ask: ClassVar[str] = "Sum up in one line what you need to go on: all else will be forgotten.\n"
    label: ClassVar[str] = "So far: "
    summary_end: ClassVar[str] = "\n"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "stops", tuple(self.stops))
        not_empty(stops=self.stops)

    @property
    def replacement(self) -> str:
        return self.sanitised + (self.stops[0] if self.stops else "")

    def render(self, observation: tuple[Part, ...]) -> str:
        return f"{printable(join_texts(observation))}\n" if observation else ""


@dataclass(frozen=True, kw_only=True)
class Direct(Lines):
    """Turns of one line, or of several lines if `stops` allows."""

    exact: bool = False
    """Read an action only if the turn is its words exactly; false: capitals, and white space around words, do not
    count."""

    @property
    def tools(self) -> tuple[str, ...]:
        return ()

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Direct:
        return replace(self, declared=actions)

    @property
    def introduction(self) -> str | None:
        return self.instruction or None

    def parse(self, text: str, stop: Stop) -> Action:
        return uncut(self.read(text), stop)

    def read(self, text: str) -> Action:
        """Return the action of a whole turn."""
        turn_text = without_end(text, self.stops, self.reasoning)
        if self.exact:  # a model's line ends after its thought are no part of what it says
            return meant_exactly(turn_text.lstrip() if self.reasoning and CLOSES in text else turn_text, self.declared)
        return meant(turn_text.strip(), self.declared)

    def write(self, move: Move) -> str:
        """The text whose action is the move's; a thought cannot be said."""
        action = move.action
        turn_text = spell_action(action, self.declared)
        is_whole = turn_text == without_end(turn_text, self.stops)
        cut = invalid("protocol.stops would cut it: choose protocol=fenced, boxed or tags")
        require_same_action(self.read(turn_text) if is_whole else cut, action)
        return turn_text + (self.stops[0] if self.stops else "")


def without_end(text: str, stops: Sequence[str], reasoning: bool = False) -> str:
    """Return the text up to its first stop string."""
    turn = end_outside_thoughts(text, stops, reasoning)
    return next((turn[: -len(stop)] for stop in stops if turn.endswith(stop)), turn)


def is_bare(declared: Sequence[Verb]) -> bool:
    """Tell whether a turn is an argument or an answer alone, and names no action."""
    return not declared or (len(declared) == 1 and bool(declared[0].argument))


def meant(text: str, declared: Sequence[Verb]) -> Action:
    """The action that stands there bare, or why there is none."""
    if is_bare(declared):
        return act(declared[0].name if declared else ANSWER, text) if text else invalid("say something")
    for verb in declared:
        words, argument = begin(text, verb.words.count(" ") + 1)
        if verb.words in (words, words.lower()) and bool(argument) == bool(verb.argument):
            return act(verb.name, argument)
    return invalid(f"say one of: {', '.join(map(spell, declared))}")


def meant_exactly(text: str, declared: Sequence[Verb]) -> Action:
    """Return the action whose words stand there exactly, with an argument after a blank; or why there is none."""
    if is_bare(declared):
        return meant(text if text.strip() else "", declared)
    for verb in declared:
        if text == verb.words and not verb.argument:
            return act(verb.name, "")
        argument = text.removeprefix(f"{verb.words} ").strip() if verb.argument else ""
        if argument and text.startswith(f"{verb.words} "):
            return act(verb.name, argument)
    return invalid(f"say one of: {', '.join(map(spell, declared))}")


def spell_action(action: Action, declared: Sequence[Verb]) -> str:
    """The inverse of `meant`."""
    name = ANSWER if action.kind == "answer" else action.name
    words = next((verb.words for verb in declared if verb.name == name), name)
    return action.text.strip() if is_bare(declared) else f"{words} {action.text}".strip()


def begin(text: str, num_words: int) -> tuple[str, str]:
    """Return the first words of a turn, one blank between them, and the text after them."""
    parts = text.split(maxsplit=num_words)
    return " ".join(parts[:num_words]), "".join(parts[num_words:]).strip()


def act(name: str, text: str) -> Action:
    return cached_action(name, text) if len(text) <= BRIEF else make_action(name, text)


def make_action(name: str, text: str) -> Action:
    return Action(kind="answer", text=text) if name == ANSWER else Action(kind="act", name=name, text=text)


cached_action = lru_cache(maxsize=4096)(make_action)
"""A game has few moves, which come again and again."""
