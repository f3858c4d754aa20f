"""Blocks of text between `<name>` and `</name>`, shared by the protocols that speak in them.

A turn is one block that acts. What a completion says is read the way an engine generates it: the first closing tag of a
block that acts ends the turn, and whatever follows does not exist.

A `reasoning` model may think before that block and within the block: tags in <think> are not tags. In
text that no engine ended the last answer counts. Without `reasoning` a turn has the strict form of "Cost-Aware
Tool-Integrated Reasoning for Countdown Arithmetic": at most one <think>, which stands first and holds no tag.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rlx.base.fences import PYTHON, blocks_in, unfence
from rlx.environment.dialect import Dialect
from rlx.protocol.history import History
from rlx.protocol.thought import outside, up_to_stop
from rlx.types import CUT, Action, Move, Part, Stop, Verb

THINK, OBSERVATION, ANSWER = "think", "observation", "answer"
TAG_LIKE = re.compile(r"<(?=[^\s\d<=>])")


@dataclass(frozen=True, kw_only=True)
class Blocks(History):
    """A protocol of blocks: `<think>`, one block per tool and action, `<observation>`, `<answer>`."""

    @property
    def tools(self) -> tuple[str, ...]:
        return ()

    @property
    def acts(self) -> tuple[str, ...]:
        """Names of the declared actions except `answer`."""
        return ()

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks that end a turn."""
        return (*self.tools, *self.acts, ANSWER)

    @property
    def stops(self) -> tuple[str, ...]:
        return tuple(f"</{name}>" for name in self.blocks)

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Dialect:
        return replace(self, declared=actions)

    @property
    def introduction(self) -> str | None:
        return self.instruction or ""

    def parse(self, text: str, stop: Stop) -> Action:
        """Read the action of a turn from its text. An invalid action names the tool of a call that is malformed or was
        cut."""
        action = self.read(text)
        return replace(uncut(action, stop), name=action.name) if action.kind == "call" else uncut(action, stop)

    def read(self, text: str) -> Action:
        """Return the action of a whole turn."""
        name, body = find_acting_block(text, self.blocks) if self.reasoning else find_block(text, self.blocks)
        if name not in self.blocks:
            action = self.otherwise(text, body)
            return replace(action, name=self.malformed_call(text)) if action.kind == "invalid" else action
        return self.action(name, unfence(body) if name in self.tools else body)

    def otherwise(self, text: str, why: str) -> Action:
        """Return what a turn says in which no block acts."""
        return invalid(why)

    def malformed_call(self, text: str) -> str:
        """Return the tool of the first tag of a tool, open or closing, in an invalid turn; empty if it has none.

        Thoughts of a reasoning model do not count. In the strict form a call within <think> is malformed.
        """
        turn = outside(text) if self.reasoning else end_at_stop(text, self.stops)
        tag = re.search(rf"</?({'|'.join(self.tools)})>", turn) if self.tools else None
        return tag[1] if tag else ""

    def action(self, name: str, body: str) -> Action:
        """Return the action of a block."""
        if name == ANSWER:
            return Action(kind="answer", text=body)
        return Action(kind="call" if name in self.tools else "act", name=name, text=body)

    def write(self, move: Move) -> str:
        """Return the text whose action is the move's; a ValueError if these blocks cannot say it."""
        action, thought = move.action, move.thought
        name = ANSWER if action.kind == "answer" else action.name
        body = action.text.strip()
        block = f"<{name}>\n{body}\n</{name}>" if action.kind == "call" else f"<{name}>{body}</{name}>"
        text = f"<think>\n{neutralise(thought)}\n</think>\n{block}" if thought else block
        require_same_action(self.read(text), action)
        return text

    def render(self, observation: tuple[Part, ...]) -> str:
        return write_observation(observation)


def find_acting_block(text: str, blocks: Sequence[str]) -> tuple[str, str]:
    """Return the block that acts in a turn with thoughts, and what it holds; or no name, and why not. Total."""
    outside_text = outside(text)
    if f"<{OBSERVATION}>" in outside_text or f"</{OBSERVATION}>" in outside_text:
        return "", "only the environment writes <observation>"
    ends = {name: outside_text.find(f"</{name}>") for name in blocks}
    ended = [name for name in blocks if ends[name] >= 0]
    if not ended:
        opened = next((name for name in blocks if f"<{name}>" in outside_text), None)
        return "", f"<{opened}> is not closed" if opened else f"end the turn with {describe_expected(blocks)}"
    name = min(ended, key=ends.__getitem__)
    end = outside_text.rfind(f"</{name}>") if name == ANSWER else ends[name]
    start = outside_text.rfind(f"<{name}>", 0, end)
    return (name, outside_text[start + len(name) + 2 : end].strip()) if start >= 0 else ("", f"<{name}> is not opened")


def describe_expected(blocks: Sequence[str]) -> str:
    return " or ".join(f"<{name}>" for name in blocks)


def find_block(text: str, blocks: Sequence[str]) -> tuple[str, str]:
    """Return the block that acts in a turn of the strict form, and what it holds; or no name, and why there is none.
    Total.

    Outside its blocks text is free and ignored. Tags that are nested, unpaired or of an observation, which is the
    environment's to write, make the turn invalid; so does a turn with no block that acts, or whose block is unclosed.
    """
    turn = end_at_stop(text, [f"</{name}>" for name in blocks])
    tags = list(re.finditer(rf"<(/?)({'|'.join([THINK, OBSERVATION, *blocks])})>", turn))
    names = [tag[1] + tag[2] for tag in tags]
    if OBSERVATION in names or f"/{OBSERVATION}" in names:
        return "", "only the environment writes <observation>"
    if names[:1] == [THINK]:
        if names[1:2] != [f"/{THINK}"]:
            return "", "<think> is not closed, or holds another tag"
        names, tags = names[2:], tags[2:]
    if not names:
        return "", f"end the turn with {describe_expected(blocks)}"
    if names[0] not in blocks:
        return "", f"after at most one <think> comes {describe_expected(blocks)}"
    if names[1:] != [f"/{names[0]}"]:
        return "", f"<{names[0]}> is not closed"
    return names[0], turn[tags[0].end() : tags[1].start()].strip()


def calls_in(text: str, tools: Sequence[str]) -> Iterator[Action]:
    """Yield the calls that stand in blocks of code, by the labels of these."""
    for block in blocks_in(text) if "```" in text else ():
        for name in tools:
            if block.label == name or {block.label, name} <= {*PYTHON}:
                yield Action(kind="call", name=name, text=block.code)


def end_outside_thoughts(text: str, stops: Sequence[str], reasoning: bool) -> str:
    """Return a turn up to its first stop string; of a `reasoning` model, without its thoughts."""
    return outside(up_to_stop(text, stops)) if reasoning else end_at_stop(text, stops)


def end_at_stop(text: str, stops: Sequence[str]) -> str:
    if not stops:
        return text
    ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
    return text[: min(ends)] if ends else text


def invalid(reason: str) -> Action:
    return Action(kind="invalid", text=reason)


def require_same_action(parsed: Action, intended: Action) -> None:
    """Raise a ValueError unless a turn is read as the intended action."""
    if parsed != replace(intended, text=intended.text.strip()):
        why = "an answer is of kind='answer'" if (intended.kind, intended.name) == ("act", ANSWER) else parsed.text[:80]
        raise ValueError(f"protocol: no turn says this {intended.kind}: {why}")


def uncut(action: Action, stop: Stop) -> Action:
    """Return the action, or an invalid one if its turn was cut: nobody knows what would have followed."""
    return invalid("the turn was cut off: say less") if stop in CUT and action.kind != "invalid" else action


@lru_cache(maxsize=4096)
def write_observation(observation: tuple[Part, ...]) -> str:
    """Return observed text in its block; no part of it can pass for a tag or for a model's special token."""
    return f"\n<observation>\n{neutralise(join_texts(observation))}\n</observation>\n" if observation else ""


def neutralise(text: str) -> str:
    """Return `text` with a space in all that looks like a tag (`< answer>`), and without control characters."""
    return TAG_LIKE.sub("< ", printable(text))


def join_texts(observation: tuple[Part, ...]) -> str:
    """Return the parts' texts, each from a line of its own."""
    return observation[0].text if len(observation) == 1 else "\n".join([part.text for part in observation])


def printable(text: str) -> str:
    """Return `text` without control characters."""
    if text.isprintable() or text.replace("\n", "").isprintable():
        return text
    return "".join(letter for letter in text if letter in "\n\t" or not unicodedata.category(letter).startswith("C"))
