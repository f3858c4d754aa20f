r"""Free text, and in its last \boxed{} what is meant: the form of GEM and of mathematics.

    environment:  It is a number from 1 to 50.\n
    agent:        I halve what is left: \boxed{25}
    environment:  \nlower\n

In the box stands what `rlx.protocol.direct` takes for a turn: an argument where the environment declares one action and
that takes one, else an action's name and its argument; the answer where it declares none. A tool is called in a tag of
its own, which ends the turn: `<python>print(6 * 7)</python>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rlx.protocol.blocks import end_at_stop, invalid, joined, printable, require_heard, uncut
from rlx.protocol.direct import is_bare, meant, said_as, spell
from rlx.protocol.history import History
from rlx.protocol.tags import refuse_names
from rlx.types import Action, Move, Part, Stop, Task, Verb

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


@dataclass(frozen=True, kw_only=True)
class Boxed(History):
    r"""A thought, then \boxed{}; a call of a tool in its tag."""

    instruction: str | None = None
    """The line before the task's own text; null: what is to stand in the box, and which tools there are."""
    stops_at: tuple[str, ...] = ()
    """What ends a turn, beside a tool's closing tag and the model's own end of sequence."""
    lent: tuple[Verb, ...] = ()
    declared: tuple[Verb, ...] = ()
    """What the environment lends and declares: known once the protocol is bound to it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "stops_at", tuple(self.stops_at))

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(verb.name for verb in self.lent)

    @property
    def stops(self) -> tuple[str, ...]:
        return (*(f"</{name}>" for name in self.tools), *self.stops_at)

    def bound(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Boxed:
        refuse_names([verb.name for verb in tools])
        return replace(self, lent=tools, declared=actions)

    def open(self, task: Task) -> str:
        return "\n".join([self.told, *[part.text for part in task.prompt], ""])

    @cached_property
    def told(self) -> str:
        """The line before a task's own text."""
        return instruct(self.lent, self.declared) if self.instruction is None else self.instruction

    def parse(self, text: str, stop: Stop) -> Action:
        return uncut(self.read(text), stop)

    def read(self, text: str) -> Action:
        """What a whole turn says."""
        turn = end_at_stop(text, self.stops) if self.lent or self.stops_at else text
        for name in self.tools if self.lent else ():
            if turn.endswith(f"</{name}>"):
                return self.call(name, turn)
        box = last_box(turn)
        return invalid(r"put it in \boxed{}") if box is None else meant(box.strip(), self.declared)

    def call(self, name: str, turn: str) -> Action:
        _, opened, body = turn.removesuffix(f"</{name}>").rpartition(f"<{name}>")
        return Action(kind="call", name=name, text=body.strip()) if opened else invalid(f"<{name}> is not opened")

    def write(self, move: Move) -> str:
        """The text whose action is the move's; a ValueError if no box can say it."""
        action, name = move.action, move.action.name
        box = f"\\boxed{{{said_as(action, self.declared)}}}"
        said = f"<{name}>{action.text.strip()}</{name}>" if action.kind == "call" else box
        text = f"{move.thought} {said}" if move.thought else said
        require_heard(self.read(text), action)
        return text

    def render(self, observation: tuple[Part, ...]) -> str:
        return f"\n{printable(joined(observation))}\n" if observation else ""


def last_box(text: str) -> str | None:
    r"""What the last \boxed{} holds, braces within it in pairs; None where there is none, or none that is closed."""
    at = text.rfind("\\")
    while at >= 0 and BOX.match(text, at) is None:
        at = text.rfind("\\", 0, at)
    if at < 0:
        return None
    start = text.index("{", at) + 1
    end = text.find("}", start)
    if end < 0:
        return None
    if text.find("{", start, end) < 0:
        return text[start:end]
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : start + brace.start()]
    return None


def instruct(lent: Sequence[Verb], declared: Sequence[Verb]) -> str:
    """What can be said, and where."""
    calls = "".join(f"You may {verb.description} in <{verb.name}>. " for verb in lent)
    if not declared:
        return calls + r"Put your answer in \boxed{}."
    if is_bare(declared):
        return calls + rf"Put your {declared[0].argument} in \boxed{{}}."
    return calls + rf"Put one of these in \boxed{{}}: {', '.join(map(spell, declared))}."
