"""Spaces of text: whatever the text is, and conversations."""

from __future__ import annotations

from string import printable
from typing import Any

from gymnasium.spaces import Space

LONGEST = 20
"""Characters of a sample."""
LETTERS = [letter for letter in printable if letter.isprintable()]


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
        return isinstance(x, list) and all(isinstance(one, dict) and is_message(one) for one in x)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def is_message(one: dict[str, Any]) -> bool:
    return one.keys() == {"role", "content"} and all(isinstance(text, str) for text in one.values())
