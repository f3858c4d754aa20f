"""Spaces of text, whatever it is, and of conversations; who gives something else, or a word not known, is told."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from string import printable
from typing import Any

from gymnasium.spaces import Space

from rlx.base.limits import MistakeError

LONGEST = 20
"""Characters of a sample."""
LETTERS = [letter for letter in printable if letter.isprintable()]


def require(kind: Any, expected: str, **values: Any) -> None:
    """A MistakeError for a value that is not of that kind, or of those; true and false are no integers."""
    for name, value in values.items():
        if not isinstance(value, kind) or (kind is Integral and isinstance(value, bool)):
            raise MistakeError(f"{name}={value!r:.60}: expected {expected}")


def require_seed(seed: Any) -> None:
    """MistakeError for a seed that Gymnasium's generators would refuse at the first reset."""
    require(Integral, "an integer", seed=seed)
    if seed < 0:
        raise MistakeError(f"seed={seed}: expected an integer, at least 0")


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise a MistakeError unless the value is among the choices."""
    if not any(value == choice for choice in choices):
        raise MistakeError(f"{name}={value!r:.60}: expected {', '.join(map(str, choices))}")


def check_text(action: Any) -> None:
    """Raise a MistakeError unless the action is a text."""
    if not isinstance(action, str):
        raise MistakeError(f"an action of type {type(action).__name__}: expected the text of a turn")


class AnyText(Space[str]):
    """Any text, of any length and letters (Gymnasium's own `Text` has a limit and an alphabet)."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        picks = self.np_random.integers(len(LETTERS), size=self.np_random.integers(LONGEST + 1))
        return "".join(LETTERS[pick] for pick in picks)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Messages(Space[list[dict[str, str]]]):
    """A conversation: messages of a `role` with their `content`, as chat templates take them."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(seed=seed)
        self.text = AnyText(seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.text.sample()}]

    def contains(self, x: Any) -> bool:
        return isinstance(x, list) and all(isinstance(message, dict) and is_message(message) for message in x)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def is_message(message: dict[str, Any]) -> bool:
    return message.keys() == {"role", "content"} and all(isinstance(text, str) for text in message.values())
