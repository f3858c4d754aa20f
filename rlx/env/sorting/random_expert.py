"""An expert of sorting that does anything for a while, and says what it has in mind: how to act and what an order is,
and nothing of how to sort.

    B ? A ? C compare C A   C < A      an order that could be, with ? between neighbours that were not compared
    B ? C < A swap B A      swapped    changes with what is seen where it cannot be any more, and with what is swapped
    A ? C < B                          and is the end, sorted or not
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Literal, get_args

from rlx.env.sorting.episode import do, end_of, letters, most_turns
from rlx.env.sorting.sorters import Op, settle
from rlx.types import Move, Task

Pair = tuple[int, int]
"""Two places."""
Habit = Literal["any", "near", "guessed", "known"]
"""Policy for choosing two places: any two, two neighbours in the assumed order, or neighbours whose order is a guess or
known. Some of these help and some do not."""
VERBS: tuple[Literal["compare", "swap"], ...] = ("compare", "swap")
HABITS: tuple[Habit, ...] = get_args(Habit)


@dataclass(frozen=True, slots=True)
class Mind:
    """Contents of the places, their assumed order, and the compared pairs, the smaller place first."""

    contents: tuple[int, ...]
    order: tuple[int, ...]
    comparisons: tuple[Pair, ...] = ()

    @property
    def text(self) -> str:
        """The assumed order, with ? between neighbours that were not compared."""
        signs = ["<" if pair in self.comparisons else "?" for pair in pairwise(self.order)]
        return " ".join(
            [letters(self.order[:1]), *(f"{sign} {letters([place])}" for sign, place in zip(signs, self.order[1:]))]
        )

    def after(self, op: Op) -> Mind:
        """Return the mind after an observation, which changes the order only where the order has become impossible."""
        a, b = op.first, op.second
        if op.verb == "compare":
            comparisons = (*self.comparisons, (a, b) if self.contents[a] < self.contents[b] else (b, a))
            return replace(self, order=settle(self.order, comparisons), comparisons=comparisons)
        moved = {place: place for place in self.order} | {a: b, b: a}
        return Mind(
            contents=tuple(self.contents[moved[place]] for place in range(len(self.contents))),
            order=tuple(moved[place] for place in self.order),
            comparisons=tuple((moved[low], moved[high]) for low, high in self.comparisons),
        )


def wander(task: Task, rng: Random, *, orders: float, by_habit: bool) -> Iterator[Move]:
    """Any two places, compared or swapped, any number of times. `orders` of the acts, and of the ends, say all that is
    in mind; other ends say the order alone."""
    numbers, kind = task.data["numbers"], task.data["kind"]
    mind = Mind(tuple(numbers), tuple(rng.sample(range(len(numbers)), len(numbers))))
    turns = task.data["max_turns"] or most_turns(kind, len(numbers))
    says = [rng.random() < orders for _ in range(rng.randrange(turns) + 1)]
    habits = {verb: rng.choice(HABITS) if by_habit else HABITS[0] for verb in VERBS}
    for is_said in says[:-1]:
        verb = rng.choice(VERBS) if kind == "sort" else VERBS[0]
        op = Op(verb, *two_places(habits[verb], mind, rng))
        yield Move(thought=mind.text if is_said else "", action=do(op))
        mind = mind.after(op)
    end = end_of(task, mind.order)
    yield Move(thought="", action=replace(end, text=mind.text) if says[-1] and kind != "compare" else end)


def two_places(habit: Habit, mind: Mind, rng: Random) -> Pair:
    """Draw a pair that suits the habit; any pair if none does."""
    pairs = suiting(habit, mind)
    a, b = rng.sample(rng.choice(pairs) if pairs else mind.order, 2)
    return a, b


def suiting(habit: Habit, mind: Mind) -> Sequence[Pair]:
    """List the pairs that suit a habit; nothing if all do."""
    near = list(pairwise(mind.order))
    if habit in ("guessed", "known"):
        return [pair for pair in near if (pair in mind.comparisons) is (habit == "known")]
    return near if habit == "near" else ()
