"""Rules of the bifurcation task as a decision process: what each action can lead to, and with what probability.

    door 1 -> door 2 -> ... -> door n -> end        a move passes a door
      right move of a critical door: mark 1, else 0; `slip` turns the mark round
      the move of a loop: back to the door before, whose mark is lost
      stop: the episode ends with `stop_reward`      no move at all: `invalid_penalty`, and the turn is lost
    reward at the end: mean of the marks, or 1 if all are 1; for each mark 1 also `mark_reward` at once

The episode draws one of these outcomes, and `rlx.env.bifurcation.exact_values` sums over all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rlx.env.bifurcation.exact_values import Outcome

SEEN = re.compile(r"^door (?P<door>\d+), [A-Z][^\n]*?(?:, (?P<hint>\w+)\?)?$", re.MULTILINE)
"""Text of a state within a context."""
STOP = "stop"
INVALID = ""
"""Name of an invalid turn, which contains no action."""
End = Literal["mean", "all"]
"""Reward of the last door: the mean of the marks, or 1 where all are 1."""


@dataclass(frozen=True, slots=True)
class State:
    """State of a walk: everything that the future depends on."""

    turn: int = 0
    """Turns that have passed."""
    door: int = 0
    """Number of the door ahead, from 0."""
    marks: tuple[int, ...] = ()
    """0 or 1 for each critical door behind."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules of one task."""

    moves: tuple[str, ...]
    critical: tuple[int, ...]
    """Critical doors, from 0."""
    right: tuple[int, ...]
    """Number of the right move of each door."""
    loops: tuple[int, ...]
    """Number of the move that leads back, at each door; -1: none."""
    hints: tuple[int, ...]
    """Number of the move that the text of each door hints at; -1: none."""
    letters: str
    """Letter of each door, which tells its right move."""
    slip: float
    end: End
    mark_reward: float
    stop_reward: float | None
    invalid_penalty: float
    max_turns: int
    aliased: bool

    @property
    def start(self) -> State:
        return State()

    def legal(self, state: State) -> tuple[str, ...]:
        """Return the actions that are possible: stop only behind the first door."""
        return (*self.moves, STOP) if self.stop_reward is not None and state.door else self.moves

    def is_critical(self, state: State) -> bool:
        return state.door in self.critical

    def outcomes(self, state: State, action: str) -> Sequence[Outcome[State]]:
        """Return the possible results of an action; what is not legal counts as invalid."""
        if action not in self.legal(state):
            return [self.at(state, 1.0, -self.invalid_penalty, state.door, state.marks)]
        if action == STOP:
            return [Outcome(1.0, self.stop_reward or 0.0, None, False)]
        move = self.moves.index(action)
        if state.door not in self.critical:
            return [self.back(state) if move == self.loops[state.door] else self.pass_door(state, 1.0, ())]
        is_right = move == self.right[state.door]
        chances = ((1, 1 - self.slip if is_right else self.slip), (0, self.slip if is_right else 1 - self.slip))
        return [self.pass_door(state, chance, (mark,)) for mark, chance in chances if chance]

    def pass_door(self, state: State, chance: float, mark: tuple[int, ...]) -> Outcome[State]:
        marks, reward = (*state.marks, *mark), self.mark_reward * sum(mark)
        if state.door + 1 < len(self.right):
            return self.at(state, chance, reward, state.door + 1, marks)
        return Outcome(chance, reward + self.final(marks), None, all(marks))

    def back(self, state: State) -> Outcome[State]:
        """Go back one door; the mark of a critical door, and its reward, are lost."""
        if state.door - 1 not in self.critical:
            return self.at(state, 1.0, 0.0, state.door - 1, state.marks)
        return self.at(state, 1.0, -self.mark_reward * state.marks[-1], state.door - 1, state.marks[:-1])

    def at(self, state: State, chance: float, reward: float, door: int, marks: tuple[int, ...]) -> Outcome[State]:
        """Return the outcome of a turn that ends at a door, or of the last turn there may be."""
        turn = state.turn + 1
        return Outcome(chance, reward, None if turn == self.max_turns else State(turn, door, marks))

    def final(self, marks: tuple[int, ...]) -> float:
        return float(all(marks)) if self.end == "all" else sum(marks) / len(marks)

    def text(self, state: State) -> str:
        """Return what the agent sees of a state: with `aliased` neither the marks nor the turn."""
        hint = self.hints[state.door]
        parts = [f"door {state.door + 1}", self.letters[state.door]]
        if not self.aliased:
            marks = " ".join(map(str, state.marks)) or "-"
            parts += [f"turn {state.turn + 1}", f"marks {marks}"]
        return ", ".join(parts) + (f", {self.moves[hint]}?" if hint >= 0 else "")

    def habit(self, state: State, sureness: float, stops: float) -> Mapping[str, float]:
        """Return the policy that follows hints, in a state."""
        return habit(self.moves, self.hints[state.door], sureness, stops if STOP in self.legal(state) else 0.0)


def habit(moves: Sequence[str], hint: int, sureness: float, stops: float) -> dict[str, float]:
    """Return the policy that stops with probability `stops`, and else makes the hinted move with probability `sureness`
    and any move otherwise. Without a hint (-1) it makes any move."""
    even = (1 - stops) * (1 - sureness if hint >= 0 else 1) / len(moves)
    chances = {name: even + (1 - stops) * sureness * (number == hint) for number, name in enumerate(moves)}
    return chances | ({STOP: stops} if stops else {})


def read_text(text: str, moves: Sequence[str]) -> tuple[int, int]:
    """Return the door, from 0, and the hint (-1: none) of the last state that a context shows."""
    *_, last = SEEN.finditer(text)
    hint = last["hint"]
    return int(last["door"]) - 1, moves.index(hint) if hint else -1
