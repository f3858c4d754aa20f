"""Blocks of text between `<name>` and `</name>`, shared by the protocols that speak in them.

A turn is one block that acts, with at most one thought before it. What a completion says is read the way an engine
generates it: the first closing tag of a block that acts ends the turn, and whatever follows does not exist.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rlx.types import Action, Move, Part, Task

THINK, OBSERVATION, ANSWER = "think", "observation", "answer"
TAG_LIKE = re.compile(r"<(?=[^\s\d<=>])")


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """A protocol of blocks: `<think>`, one block per tool, `<observation>`, `<answer>`."""

    instruction: str
    """The line before the task's own text."""

    @property
    def tools(self) -> tuple[str, ...]:
        return ()

    @property
    def stops(self) -> tuple[str, ...]:
        return tuple(f"</{name}>" for name in (*self.tools, ANSWER))

    def open(self, task: Task) -> str:
        return "\n".join([self.instruction, *(part.text for part in task.prompt), ""])

    def parse(self, text: str) -> Action:
        return read(text, self.tools)

    def write(self, move: Move) -> str:
        return write_turn(move.thought, move.action, self.tools)

    def render(self, observation: tuple[Part, ...]) -> str:
        return write_observation(observation)


def read(text: str, tools: Sequence[str]) -> Action:
    """The action of a completion: a call of one of `tools`, an answer, or why it is neither. Total.

    Outside its blocks text is free and ignored. Tags that are nested, unpaired or of an observation, which is the
    environment's to write, make the turn invalid; so does a turn with no block that acts, or whose block is unclosed.
    """
    acting = [*tools, ANSWER]
    turn = end_at_stop(text, [f"</{name}>" for name in acting])
    tags = list(re.finditer(rf"<(/?)({'|'.join([THINK, OBSERVATION, *acting])})>", turn))
    names = [tag[1] + tag[2] for tag in tags]
    if OBSERVATION in names or f"/{OBSERVATION}" in names:
        return invalid("only the environment writes <observation>")
    if names[:1] == [THINK]:
        if names[1:2] != [f"/{THINK}"]:
            return invalid("<think> is not closed, or holds another tag")
        names, tags = names[2:], tags[2:]
    expected = " or ".join(f"<{name}>" for name in acting)
    if not names:
        return invalid(f"end the turn with {expected}")
    if names[0] not in acting:
        return invalid(f"after at most one <think> comes {expected}")
    if names[1:] != [f"/{names[0]}"]:
        return invalid(f"<{names[0]}> is not closed")
    body = turn[tags[0].end() : tags[1].start()].strip()
    return Action(kind="answer", text=body) if names[0] == ANSWER else Action(kind="call", name=names[0], text=body)


def end_at_stop(text: str, stops: Sequence[str]) -> str:
    ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
    return text[: min(ends)] if ends else text


def invalid(reason: str) -> Action:
    return Action(kind="invalid", text=reason)


def write_turn(thought: str, action: Action, tools: Sequence[str]) -> str:
    """The text whose action is `action`; a ValueError if these blocks cannot say it."""
    name = ANSWER if action.kind == "answer" else action.name
    body = action.text.strip()
    said = f"<answer>{body}</answer>" if name == ANSWER else f"<{name}>\n{body}\n</{name}>"
    text = f"<think>\n{neutralise(thought)}\n</think>\n{said}" if thought else said
    heard = read(text, tools)
    if (heard.kind, heard.name, heard.text) != (action.kind, action.name, body):
        raise ValueError(f"protocol: no turn says this {action.kind} ({heard.text[:80]})")
    return text


def write_observation(observation: Sequence[Part]) -> str:
    """Observed text in its block; no part of it can pass for a tag or for a model's special token."""
    if not observation:
        return ""
    text = "\n".join(neutralise(part.text) for part in observation)
    return f"\n<observation>\n{text}\n</observation>\n"


def neutralise(text: str) -> str:
    """`text` with a space put into all that looks like a tag (`< answer>`), and without control characters."""
    plain = "".join(letter for letter in text if letter in "\n\t" or not unicodedata.category(letter).startswith("C"))
    return TAG_LIKE.sub("< ", plain)
