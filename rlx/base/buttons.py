"""Arguments entered button by button."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Buttons:
    """Automaton over button names, for an argument that cannot be free text.

    Two of A, B, C: ({"A": 1, "B": 2, "C": 3}, {"B": None, "C": None}, {"A": None, "C": None}, {"A": None, "B": None})
    """

    states: tuple[Mapping[str, int | None], ...]
    """Buttons allowed in each state, with the next state of each. None means that the argument is complete. The first
    state is the start."""
    between: str = ""
    """Separator between two buttons in the argument."""

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
        """States from which an argument can be completed."""
        completing_states: set[int] = set()
        while more := {
            number
            for number, state in enumerate(self.states)
            if number not in completing_states
            and any(target is None or target in completing_states for target in state.values())
        }:
            completing_states |= more
        return completing_states
