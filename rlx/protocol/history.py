"""Which pieces of an episode a context is made of: all of it, the last turns, the last observation alone, only what was
seen, or what the agent itself summed up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeGuard

from rlx.limits import at_least, refuse
from rlx.types import Action, Dialect, Part, Piece, Stop, Task, Turn


@dataclass(frozen=True, kw_only=True)
class History:
    """The task, what was seen before the first turn that is remembered, and every turn from there with what came of it.

    window   context of turn 3
    null     task opening  turn 0 seen 0  turn 1 seen 1  turn 2 seen 2
    1        task                                 seen 1  turn 2 seen 2
    0        task                                                seen 2

    Without `said` turns are left out, what was seen stays. With `summarise_at` a context that has come to so many
    tokens ends with a line that asks for a summary; that is a turn of its own, of at most `summary_tokens`, whatever it
    says. The next begins with it, and with what was seen last:

    task opening  turn 0 seen 0  turn 1 seen 1 ask  ->  task summary seen 1  turn 3 seen 3 ...
    """

    window: int | None = None
    """Turns that are remembered; null: all of them."""
    said: bool = True
    """Whether turns are remembered with what the agent said, or only with what it saw."""
    summarise_at: int | None = None
    """Tokens of a context at which the agent sums it up; null: never."""
    summary_tokens: int = 64
    """The longest summary."""
    reasoning: bool = True
    """Ignore text in <think>, where no stop string ends a turn either. False: <think> is text like any other, or part
    of a protocol's own strict form."""

    ask: ClassVar[str] = (
        "Sum up what you need to go on, and end with </summary>: all else will be forgotten.\n<summary>\n"
    )
    """What asks for a summary."""
    label: ClassVar[str] = "<summary>\n"
    """What stands before a summary."""
    summary_end: ClassVar[str] = "</summary>"
    """What ends it."""

    def __post_init__(self) -> None:
        at_least(0, window=self.window or 0)
        at_least(1, summarise_at=self.summarise_at, summary_tokens=self.summary_tokens)
        if self.window is not None and self.summarise_at is not None:
            refuse("window", self.window, "null with summarise_at, as a summary takes the place of what is forgotten")

    @abstractmethod
    def open(self, task: Task) -> str: ...

    @abstractmethod
    def render(self, observation: tuple[Part, ...]) -> str: ...

    def begin(self, task: Task, opening: tuple[Part, ...]) -> str:
        """The text of a first turn's context."""
        return self.open(task) + self.render(opening) if opening else self.open(task)

    def context(self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn]) -> Iterator[Piece]:
        last = -1 if self.summarise_at is None else last_summary(past)
        first = max(0, len(past) - (len(past) if self.window is None else self.window), last + 1)
        yield Piece("user", self.open(task))
        if last >= 0:
            yield Piece("user", self.label)
            yield Piece("assistant", turn=last)
            yield Piece("user", self.closing(past[last].completion.stop))
        yield Piece("user", self.say(seen_before(past, first, opening)))
        for index in range(first, len(past)):
            if self.said:
                yield Piece("assistant", turn=index)
            is_call = self.said and past[index].action.kind == "call"
            yield Piece("tool" if is_call else "user", self.say(past[index].observation))
        if self.sums_up(past):
            yield Piece("user", self.ask if past[-1].observation else f"\n{self.ask}")

    def say(self, observation: tuple[Part, ...]) -> str:
        return self.render(observation) if observation else ""

    def closing(self, stop: Stop) -> str:
        """The end of a summary that has not said it."""
        return "" if stop == "stop" else self.summary_end

    def sums_up(self, past: Sequence[Turn]) -> bool:
        """Whether the next turn is a summary: the last, which was none, has come to that length."""
        if self.summarise_at is None or not past or past[-1].action.kind == "summary":
            return False
        return len(past[-1].prompt_ids) + len(past[-1].completion.token_ids) >= self.summarise_at

    def retell(self, past: Sequence[Turn]) -> str:
        """What an expert would sum up, on one line: what was done since the last summary, and what came of it."""
        last = last_summary(past)
        before = [past[last].action.text] if last >= 0 else []
        since = [f"{turn.action.text} {' '.join(part.text for part in turn.observation)}" for turn in past[last + 1 :]]
        return " ".join("; ".join([*before, *since]).replace("</", "< /").split())


class Summing(Dialect, Protocol):
    """A protocol that may ask for summaries."""

    summary_tokens: int
    summary_end: ClassVar[str]

    def sums_up(self, past: Sequence[Turn]) -> bool: ...

    def retell(self, past: Sequence[Turn]) -> str: ...


def sums_up(dialect: Dialect, past: Sequence[Turn]) -> TypeGuard[Summing]:
    """Whether the next turn is a summary."""
    return hasattr(dialect, "sums_up") and bool(dialect.sums_up(past))


def summed_up(text: str, end: str) -> Action:
    """A summary is whatever was said in its place, nothing too."""
    return Action(kind="summary", text=text.removesuffix(end).strip())


def last_summary(past: Sequence[Turn]) -> int:
    """The turn that it is; -1 where there is none."""
    for index in range(len(past) - 1, -1, -1):
        if past[index].action.kind == "summary":
            return index
    return -1


def seen_before(past: Sequence[Turn], first: int, opening: tuple[Part, ...]) -> tuple[Part, ...]:
    """What was seen when turn `first` was made."""
    while first > 0 and past[first - 1].action.kind == "summary":
        first -= 1
    return past[first - 1].observation if first > 0 else opening


def first_prompt(dialect: Dialect, task: Task, opening: tuple[Part, ...] = ()) -> str:
    """The text that an episode begins with."""
    return text_of(dialect.context(task, opening, ()))


def text_of(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)
