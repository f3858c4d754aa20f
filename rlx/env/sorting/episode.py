"""An episode of sorting: parsing of actions, observations and rewards."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import factorial, inf
from string import ascii_uppercase
from typing import Literal

from rlx.env.sorting.sorters import Op, fewest_swaps
from rlx.environment import Episode
from rlx.types import Action, Step, Task, Text

Kind = Literal["sort", "order", "compare"]
"""Bring all in order; say the order of all; say that of two of them."""

PAIR = re.compile(r"([a-z])\s*,?\s*([a-z])", re.IGNORECASE | re.ASCII)
ROW = re.compile(r"[a-z](?:\s*[<>,]?\s*[a-z])*", re.IGNORECASE | re.ASCII)
CHAIN = re.compile(r"\b[A-Z](?:\s*[<>]\s*[A-Z])+\b", re.ASCII)
LONGEST = 2000
"""Characters of what is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules of the reward."""

    efficient: bool = True
    """Half of the reward is for efficiency; else all of it is for what is right."""
    chain: bool = False
    """The fewest comparisons count as n - 1, and not as ceil(log2 n!)."""
    say_order: bool = False
    """Numbers are sorted when they are said to be, too; else whatever is said."""


class SortingEpisode(Episode):
    """Letters are places. The end is an answer: it is asked for, even where the numbers are in order already."""

    def __init__(
        self, rules: Rules, kind: Kind, numbers: Sequence[int], pair: Sequence[int], max_turns: int | None
    ) -> None:
        self.rules, self.kind, self.numbers, self.pair = rules, kind, list(numbers), pair
        self.max_turns = inf if max_turns is None else max_turns
        self.needed = len(list(fewest_swaps(order_of(numbers)))) if kind == "sort" else 0
        self.num_turns = self.num_swaps = self.num_comparisons = 0
        self.done = False

    def opening(self) -> Step:
        return Step(legal=self.legal)

    def picture(self) -> str:
        """Draw each place with its number and a bar of the rank's length."""
        ranks = {place: rank for rank, place in enumerate(order_of(self.numbers), start=1)}
        width = max(len(str(number)) for number in self.numbers)
        return "\n".join(
            f"{letters((place,))} {number:>{width}} {'#' * ranks[place]}" for place, number in enumerate(self.numbers)
        )

    @property
    def legal(self) -> tuple[str, ...] | None:
        return None if self.kind == "sort" else ("compare", "answer")

    def step(self, action: Action) -> Step:
        if self.done:
            raise RuntimeError("the episode is over: start another one")
        self.num_turns += 1
        is_last = self.num_turns >= self.max_turns
        self.done = is_last or action.kind == "answer"
        if action.kind == "answer":
            return self.judged(action.text)
        before = self.num_comparisons, self.num_swaps
        observation = (Text(self.act(action)),)
        metrics = {**self.counts(*before), self.stratum: 0.0, "efficiency": 0.0}
        if is_last:
            return Step(observation=observation, done=True, truncated=True, success=False, metrics=metrics)
        return Step(observation=observation, legal=self.legal, metrics=metrics)

    def act(self, action: Action) -> str:
        """Do the action, and say in words what came of it. An unknown action is refused and does nothing."""
        if action.kind != "act":
            return f"Error: {action.text:.200}" if action.kind == "invalid" else "Error: there are no tools"
        if action.name not in ("compare", "swap"):
            return f"Error: there is no action {action.name!r:.40}; compare or swap two letters, or answer"
        places = places_in(action.text, len(self.numbers))
        if places is None or (action.name == "swap" and self.kind != "sort"):
            return f"Error: give two of {letters(range(len(self.numbers)))}" if places is None else "Error: no swaps"
        return self.compare(*places) if action.name == "compare" else self.swap(*places)

    def compare(self, a: int, b: int) -> str:
        self.num_comparisons += 1
        return letters((a, b), " < " if self.numbers[a] < self.numbers[b] else " > ")

    def swap(self, a: int, b: int) -> str:
        self.num_swaps += 1
        self.numbers[a], self.numbers[b] = self.numbers[b], self.numbers[a]
        return f"swapped {letters((a, b))}"

    def judged(self, text: str) -> Step:
        is_right = self.is_right(text)
        efficiency = self.efficiency() if is_right else 0.0
        reward = (is_right + efficiency) / 2 if self.rules.efficient else float(is_right)
        metrics = {**self.counts(self.num_comparisons, self.num_swaps), self.stratum: float(is_right)}
        return Step(reward=reward, done=True, success=is_right, metrics={**metrics, "efficiency": efficiency})

    def is_right(self, text: str) -> bool:
        """Judge the places of the numbers, or the order said; of a sorting's end the words count if `say_order`."""
        order = order_of(self.numbers)
        is_sorted = order == sorted(order)
        if self.kind == "sort" and not (is_sorted and self.rules.say_order):
            return is_sorted
        return read_order(text) == asked_of(order, self.pair)

    def efficiency(self) -> float:
        least, most = comparisons_of(self.kind, len(self.numbers), self.rules.chain)
        compared = share_saved(self.num_comparisons, least, most)
        if self.kind != "sort":
            return compared
        return (compared + share_saved(self.num_swaps, self.needed, num_pairs(len(self.numbers)))) / 2

    @property
    def stratum(self) -> str:
        """Name of the metric that is 1 for a right episode of this kind."""
        needs = f"_needs_{self.needed}" if self.kind == "sort" else ""
        return f"{self.kind}_{len(self.numbers)}{needs}"

    def counts(self, comparisons: int, swaps: int) -> Mapping[str, float]:
        """Return what this turn adds to an episode's sums, given the counts before it."""
        metrics = {"comparisons": float(self.num_comparisons - comparisons), "swaps": float(self.num_swaps - swaps)}
        return {**metrics, "swaps_needed": float(self.needed)} if self.num_turns == 1 else metrics


def share_saved(num: int, least: int, most: int) -> float:
    """1 for the least or fewer, 0 for the most or more, evenly between them."""
    return float(num <= least) if least == most else min(1.0, max(0.0, (most - num) / (most - least)))


def comparisons_of(kind: Kind, num: int, chain: bool = False) -> tuple[int, int]:
    """Return the least and the most comparisons that count.

    The least is 1 for two of the numbers, and ceil(log2 n!) or n - 1 for all of them. The most is n ceil(log2 n).
    """
    least = 1 if kind == "compare" else num - 1 if chain else (factorial(num) - 1).bit_length()
    return least, num * (num - 1).bit_length()


def num_pairs(num: int) -> int:
    return num * (num - 1) // 2


def most_turns(kind: Kind, num: int) -> int:
    """Return the limit of turns: the most comparisons that count, or all pairs; a swap of each pair; the end."""
    comparisons = max(comparisons_of(kind, num)[1], num_pairs(num))
    return comparisons + (num_pairs(num) if kind == "sort" else 0) + 1


def order_of(numbers: Sequence[int]) -> list[int]:
    """The places, from the smallest number up."""
    return sorted(range(len(numbers)), key=numbers.__getitem__)


def asked_of(order: Sequence[int], pair: Sequence[int]) -> list[int]:
    """The order of a pair where one is asked for, else of all."""
    return [place for place in order if place in (pair or order)]


def letters(places: Sequence[int], between: str = " ") -> str:
    return between.join(ascii_uppercase[place] for place in places)


def do(op: Op) -> Action:
    return Action(kind="act", name=op.verb, text=letters(op[1:]))


def end_of(task: Task, order: Sequence[int]) -> Action:
    """Say the order, of what is asked for."""
    return Action(kind="answer", text=letters(asked_of(order, task.data["pair"]), " < "))


def place_of(letter: str) -> int:
    return ord(letter.upper()) - ord("A")


@lru_cache(maxsize=4096)
def places_in(text: str, num: int) -> tuple[int, int] | None:
    """Two different places; None for anything else."""
    match = PAIR.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match is None:
        return None
    a, b = place_of(match[1]), place_of(match[2])
    return (a, b) if a != b and max(a, b) < num else None


def read_order(text: str) -> list[int] | None:
    """Return the places of the last `B < A < C` or `C > A > B` in a text, from the smallest up.

    A text of letters alone, `B A C` or `b, a, c`, is an order too. Return None for anything else.
    """
    order_text = text.strip() if len(text) <= LONGEST else ""
    chains = CHAIN.findall(order_text)
    row = chains[-1] if chains else order_text
    if ROW.fullmatch(row) is None or ("<" in row and ">" in row):
        return None
    places = [place_of(letter) for letter in row if letter.isalpha()]
    return places[::-1] if ">" in row else places
