"""Free text, then `final answer:` and an action: the reasoning form of BabyAI-Text agents.

    environment:  You see a red ball 1 step right and 2 steps forward\\n
    agent:        The ball is ahead.\\nfinal answer: go forward\\n
    environment:  You see a red ball 1 step right and 1 step forward\\n

The text before the last `final answer:` is the reasoning, which no environment hears. The text after it, without the
white space around it, is exactly the words of a declared action, capitals included; `Final answer:` will do as well. It
is the answer where the environment declares no actions. Any other turn is invalid.

A turn ends with the line of an action, `final answer: go forward` and a line end, so a model that never ends its
turns itself ends them there, and the reasoning may have several lines. An instruct model ends its turns with its own
end of sequence: `stops_at: []` has no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlx.base.limits import not_empty
from rlx.protocol.blocks import end_outside_thoughts, invalid, join_texts, printable, require_same_action, uncut
from rlx.protocol.direct import is_bare, meant_exactly, spell_action
from rlx.protocol.history import History
from rlx.protocol.instruction import spell
from rlx.protocol.thought import MARK, up_to_stop
from rlx.types import Action, Move, Part, Stop, Verb

LABEL = "final answer:"
LABELS = re.compile(LABEL, re.IGNORECASE | re.ASCII)
WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class FinalAnswer(History):
    """Reasoning in free text, then the action after `final answer:`."""

    stops_at: tuple[str, ...] | None = None
    """Stop strings of a turn, beside the model's end of sequence; null: the line of each action, as in "final
    answer: go forward" and a line end; []: none, for models that end their turns themselves."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stops_at is not None:
            object.__setattr__(self, "stops_at", tuple(self.stops_at))
            not_empty(stops_at=self.stops_at)

    @property
    def tools(self) -> tuple[str, ...]:
        return ()

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stops_at is not None:
            return self.stops_at
        return () if is_bare(self.declared) else tuple(last_line(v.words) for v in self.declared if not v.argument)

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> FinalAnswer:
        return replace(self, declared=actions)

    @property
    def introduction(self) -> str | None:
        if self.instruction is not None:
            return self.instruction or None
        return f"Think, then end with '{LABEL} X', where X is {self.possible}."

    @property
    def possible(self) -> str:
        """Meaning of X, for the agent."""
        if is_bare(self.declared):
            return f"the {self.declared[0].argument}" if self.declared else "the answer"
        return f"one of: {', '.join(map(spell, self.declared))}"

    def parse(self, text: str, stop: Stop) -> Action:
        return uncut(self.read(text), stop)

    def read(self, text: str) -> Action:
        """Return the action of a whole turn."""
        turn = end_outside_thoughts(text, self.stops, self.reasoning)
        labels = list(LABELS.finditer(turn))
        action = meant_exactly(turn[labels[-1].end() :].strip(), self.declared) if labels else invalid("")
        return action if action.kind != "invalid" else invalid(f"end with '{LABEL} X', where X is {self.possible}")

    def write(self, move: Move) -> str:
        """Return the text whose action is the move's; a ValueError if an action or a thought cannot be written so."""
        action_text = spell_action(move.action, self.declared)
        text = f"{move.thought}\n{LABEL} {action_text}" if move.thought else f"{LABEL} {action_text}"
        text += "\n" * (last_line(action_text) in self.stops)
        require_same_action(self.read(text), move.action)
        return text

    def render(self, observation: tuple[Part, ...]) -> str:
        return f"{printable(join_texts(observation))}\n" if observation else ""

    @property
    def replacement(self) -> str:
        return self.sanitised + "\n" * bool(self.stops)

    def measure(self, text: str, action: Action) -> Mapping[str, float]:
        """Return the words of a turn's reasoning, and 1 if it only states the action ("reasoning collapse"): without
        punctuation and capitals it is empty or the action's own words. A turn without an action has neither."""
        if action.kind not in ("act", "answer"):
            return {}
        reasoning = reasoning_in(up_to_stop(text, self.stops))
        is_action = plain(reasoning) in ("", plain(spell_action(action, self.declared)))
        return {"reply/reasoning_words": float(len(reasoning.split())), "reply/only_action": float(is_action)}


def last_line(words: str) -> str:
    """Return the line that ends a turn with this action."""
    return f"{LABEL} {words}\n"


def reasoning_in(turn: str) -> str:
    """Return the text before the last label, of thoughts in <think> too, without the tags."""
    labels = list(LABELS.finditer(turn))
    return MARK.sub(" ", turn[: labels[-1].start()]).strip() if labels else ""


def plain(text: str) -> str:
    """Return the words of a text without punctuation and capitals."""
    return " ".join(WORD.findall(text.casefold()))
