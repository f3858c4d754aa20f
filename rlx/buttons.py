"""Arguments that are pressed together, button by button."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Buttons:
    """What an argument is pressed together from, where it cannot be any text: an automaton over the names of buttons.

    Two of A, B, C: ({"A": 1, "B": 2, "C": 3}, {"B": None, "C": None}, {"A": None, "C": None}, {"A": None, "B": None})
    """

    states: tuple[Mapping[str, int | None], ...]
    """What may be pressed in each, and the state it leads to; None: the argument is whole. It begins in the first."""
    between: str = ""
    """What the argument has between two buttons."""

    def __post_init__(self) -> None:
        finishing = self.finishing
        for number, state in enumerate(self.states):
            for name, target in state.items():
                if target is not None and not 0 <= target < len(self.states):
                    raise ValueError(f"buttons: {name!r:.60} leads to state {target}, and there are {len(self.states)}")
            if number not in finishing:
                raise ValueError(f"buttons: from state {number} no button leads to the end; give one that does")
        if not self.states:
            raise ValueError("buttons: there is no state; expected at least the first")

    @property
    def finishing(self) -> set[int]:
        """States from which an argument can become whole."""
        found: set[int] = set()
        while more := {
            number
            for number, state in enumerate(self.states)
            if number not in found and any(target is None or target in found for target in state.values())
        }:
            found |= more
        return found
