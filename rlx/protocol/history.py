"""Which pieces of an episode a context is made of: all of it, the last turns, or the last observation alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rlx.limits import at_least
from rlx.types import Dialect, Part, Piece, Task, Turn


@dataclass(frozen=True, kw_only=True)
class History:
    """The task, what was seen before the first turn that is remembered, and every turn from there with what came of it.

    window   context of turn 3
    null     task opening  turn 0 seen 0  turn 1 seen 1  turn 2 seen 2
    1        task                                 seen 1  turn 2 seen 2
    0        task                                                seen 2
    """

    window: int | None = None
    """Turns that are remembered; null: all of them."""

    def __post_init__(self) -> None:
        at_least(0, window=self.window or 0)

    @abstractmethod
    def open(self, task: Task) -> str: ...

    @abstractmethod
    def render(self, observation: tuple[Part, ...]) -> str: ...

    def context(self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn]) -> Iterator[Piece]:
        first = 0 if self.window is None else max(0, len(past) - self.window)
        yield Piece(role="user", text=self.open(task))
        yield Piece(role="user", text=self.say(past[first - 1].observation if first else opening))
        for index in range(first, len(past)):
            yield Piece(role="assistant", turn=index)
            yield Piece(role="user", text=self.say(past[index].observation))

    def say(self, observation: tuple[Part, ...]) -> str:
        return self.render(observation) if observation else ""


def first_prompt(dialect: Dialect, task: Task, opening: tuple[Part, ...] = ()) -> str:
    """The text that an episode begins with."""
    return text_of(dialect.context(task, opening, ()))


def text_of(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)
