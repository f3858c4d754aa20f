"""Turns that stand alone: each is an answer to one message with the task, a history in short forms and the last result.

    user        what may be done now / the task
                earlier turns:  <search>Mira Anna</search> / its result / <read>Mira Anna was born in Arden</read> ...
                the last result, in full
    assistant   the turn

Later messages show a result that a turn has read in at most `result_characters`. So a context grows with the notes and
not with the pages, and every turn is a training sample of its own. The form is that of ASearcher's reasoning agent
(arXiv:2508.07976), with which CARL (arXiv:2512.04949) trains reasoning models; the words are this project's. It keeps
the actions of earlier turns, and none of the thoughts around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlx.base.limits import MANY, at_least, refuse
from rlx.protocol.blocks import ANSWER, join_texts, neutralise
from rlx.protocol.history import text_of
from rlx.protocol.instruction import has_places
from rlx.protocol.tags import Tags
from rlx.types import Action, Part, Piece, Task, Turn, Verb

AGREED: Mapping[str, Any] = {
    "window": None,
    "agent_turns": True,
    "summarise_at": None,
    "prompt_template": None,
    "sanitise": False,
    "correction": None,
}
"""Settings of a history that a turn alone does not have."""


@dataclass(frozen=True, kw_only=True)
class Standalone(Tags):
    """A message for each turn."""

    history_characters: int = 25_000
    """Characters of earlier turns and results that a message shows; the latest stay."""
    result_characters: Mapping[str, int] = field(default_factory=lambda: {"access": 100})
    """Characters of a tool's earlier results that a message shows, by the tool's name; of other tools all."""

    @property
    def stands_alone(self) -> bool:
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, history_characters=self.history_characters)
        for name, agreed in AGREED.items():
            if getattr(self, name) != agreed:
                refuse(name, getattr(self, name), f"{agreed} with protocol=standalone, whose messages have no turns")
        for name, limit in self.result_characters.items():
            if not isinstance(limit, int) or not 0 <= limit <= MANY:
                refuse("result_characters", {name: limit}, f"an integer from 0 to {MANY} for each tool")

    def context(
        self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn], legal: Sequence[str] | None = None
    ) -> Iterator[Piece]:
        first, *_ = self.beginning(task)
        if first.role == "system":
            yield first
        yield Piece("user", self.message(task, opening, past, legal))

    def begin(self, task: Task, opening: tuple[Part, ...]) -> str:
        return text_of(self.context(task, opening, ()))

    def message(self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn], legal: Sequence[str] | None) -> str:
        """Return all that a turn is told."""
        parts = [*self.order(legal), *self.task_texts(task)]
        parts += [neutralise(join_texts(opening))] if opening else []
        history = self.history(past[:-1])
        last = [line for turn in past[-1:] for line in (self.action_text(turn.action), *self.result(turn, None))]
        parts += ["Earlier turns:", history] if history else []
        parts += ["The last turn:", *last] if last else []
        return "\n".join([*parts, ""])

    def order(self, legal: Sequence[str] | None) -> list[str]:
        """Return the line that says what may be done now; none where a system message says it."""
        if self.instruction is not None:
            return [] if has_places(self.instruction) else [self.instruction]
        may = [verb for verb in self.declared if legal is None or verb.name in legal]
        must = legal is not None and ANSWER not in legal and bool(may)
        return [instruct_one([*([] if must else self.tool_verbs), *may], answers=not self.declared)]

    def history(self, past: Sequence[Turn]) -> str:
        """Return the latest part of earlier turns and their results, in short forms."""
        lines = [line for turn in past for line in self.short(turn)]
        return "\n".join(lines)[-self.history_characters :] if self.history_characters else ""

    def short(self, turn: Turn) -> Iterator[str]:
        """Yield an earlier turn and what is kept of its result."""
        yield self.action_text(turn.action)
        yield from self.result(turn, self.result_characters.get(turn.action.name))

    def action_text(self, action: Action) -> str:
        """Write an action as a tag on a single line."""
        name = ANSWER if action.kind == "answer" else action.name
        body = neutralise(" ".join(action.text.split()))
        return f"<{name}>{body}</{name}>" if name and action.kind != "invalid" else f"(no valid turn: {body})"

    def result(self, turn: Turn, limit: int | None) -> Iterator[str]:
        """Yield the result of a turn, up to `limit` characters; None: all."""
        if turn.observation:
            text = neutralise(join_texts(turn.observation))
            yield f"Result: {text if limit is None or len(text) <= limit else f'{text[:limit]}...'}"


def instruct_one(verbs: Sequence[Verb], answers: bool) -> str:
    """Say which of these a turn may be, and in which tags."""
    ways = [f"{verb.description} in <{verb.name}>" for verb in verbs]
    ways += ["answer in <answer>"] if answers else []
    if len(ways) == 1:
        return f"Think, then {ways[0]}, and end with its closing tag."
    return f"Think, then do one of these and end with its closing tag: {', or '.join(ways)}."
