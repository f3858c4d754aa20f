"""Tower of Hanoi: bring all disks to tower C, one at a time, never a larger one onto a smaller one.

A: 3 2 1, B:, C:  ->  A C  ->  moved disk 1, A: 3 2, B:, C: 1  ->  ...  ->  solved
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from rlx.base.limits import within
from rlx.env.game.turns import Game, Turns, go_on, win
from rlx.types import Action, Move, Step, Task, Text, Verb

TOWERS = "ABC"
GOAL = "C"
SIZES = ((3, 10), (4, 20), (5, 35))
"""Disks and moves of random games."""
MOVE = re.compile(r"([abc])\s*,?\s*([abc])", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, kw_only=True)
class TowerOfHanoi(Game):
    """The reward is 1 for all disks on tower C, and after the last move the share of them that is there."""

    actions: ClassVar = (Verb(name="move", description="move the last disk of a tower", argument="towers"),)
    stream: ClassVar = "tower_of_hanoi"

    num_disks: int = 4
    """Number of disks."""
    max_turns: int = 20
    """Moves of a game."""
    scattered: bool = True
    """Disks start on any towers; false: all on tower A, a single task for each number of disks, the same in both
    splits."""
    random: bool = False
    """Each task has a number of disks and of moves of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, 9, num_disks=self.num_disks)

    @property
    def apart(self) -> bool:
        return self.scattered

    def draw(self, rng: Random) -> Task:
        num_disks, max_turns = rng.choice(SIZES) if self.random else (self.num_disks, self.max_turns)
        return describe(draw_places(rng, num_disks) if self.scattered else "A" * num_disks, max_turns)

    def start(self, task: Task) -> HanoiEpisode:
        return HanoiEpisode(**task.data)

    def random_argument(self, task: Task, name: str, seed: int) -> str:
        """Return two different towers."""
        return " ".join(Random(f"tower_of_hanoi/random/{seed}/{task.id}").sample(TOWERS, 2))

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """The one shortest way."""
        for disk, source, target in shortest(task.data["places"], GOAL):
            yield Move(thought=f"Disk {disk} goes to {target}.", action=move(source, target))


def draw_places(rng: Random, num_disks: int) -> str:
    """Any but the solved position."""
    goal = GOAL * num_disks
    while (places := "".join(rng.choices(TOWERS, k=num_disks))) == goal:
        pass
    return places


def describe(places: str, max_turns: int) -> Task:
    """`places` has the tower of every disk, the largest first."""
    return Task(
        id=places,
        prompt=(
            Text(
                f"Bring all {len(places)} disks to tower {GOAL}. A move puts the last disk of a tower last "
                "on another, never after a smaller one: A C moves one from A to C. "
                f"You have {max_turns} moves."
            ),
        ),
        data={"places": places, "max_turns": max_turns},
    )


def shortest(places: str, goal: str) -> Iterator[tuple[int, str, str]]:
    """Disk, from and to, of each move that brings all disks to `goal`. The largest that is elsewhere moves once, when
    all smaller ones are on the third tower."""
    if not places:
        return
    largest, smaller = places[0], places[1:]
    if largest == goal:
        yield from shortest(smaller, goal)
        return
    third = next(tower for tower in TOWERS if tower not in (largest, goal))
    yield from shortest(smaller, third)
    yield len(places), largest, goal
    yield from shortest(third * len(smaller), goal)


class HanoiEpisode(Turns):
    def __init__(self, places: str, max_turns: int) -> None:
        super().__init__(max_turns)
        self.num_disks = len(places)
        self.towers = dict.fromkeys(TOWERS, "")
        """Text of each tower: a blank and a digit for each disk."""
        for size, tower in zip(range(len(places), 0, -1), places, strict=True):
            self.towers[tower] += f" {size}"

    def opening(self) -> Step:
        return go_on(self.board())

    def picture(self) -> str:
        return self.board()

    def play(self, action: Action) -> Step | None:
        match = MOVE.fullmatch(action.text.strip()) if action.kind == "act" else None
        if match is None:
            return None
        message = self.move(match[1].upper(), match[2].upper())
        return win("solved") if self.num_there() == self.num_disks else go_on(f"{message}\n{self.board()}")

    def move(self, source: str, target: str) -> str:
        """Return the answer to a move, in words."""
        disk, onto = self.towers[source][-1:], self.towers[target][-1:]
        if not disk:
            return f"tower {source} is empty"
        if onto and disk > onto:
            return f"disk {disk} is larger than disk {onto}"
        self.towers[source] = self.towers[source][:-2]
        self.towers[target] += f" {disk}"
        return f"moved disk {disk} from {source} to {target}"

    def num_there(self) -> int:
        return len(self.towers[GOAL]) // 2

    def at_limit(self, step: Step) -> float:
        return self.num_there() / self.num_disks

    def board(self) -> str:
        a, b, c = self.towers.values()
        return f"A:{a}\nB:{b}\nC:{c}"


def move(source: str, target: str) -> Action:
    return Action(kind="act", name="move", text=f"{source} {target}")
