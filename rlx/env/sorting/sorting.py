"""Sorting hidden numbers by comparisons and swaps, and naming their order: both task families of EARL (Yue et al. 2025,
section 3 and appendix E).

    Hidden numbers stand in A B C. ... -> compare A B -> A > B -> swap A B -> swapped A B -> ... -> A < B < C

The paper calls `order` and `compare` simpler relational tasks that come before sorting, and says no more. Here their
numbers are hidden too, and are found by the same comparisons. So they teach the first part of sorting, which a task
with visible numbers would not. They have no swaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import islice, permutations
from random import Random
from string import ascii_uppercase
from typing import ClassVar, Literal

from rlx.base.buttons import Buttons
from rlx.base.limits import MANY, refuse, within
from rlx.env.sorting.episode import Kind, Rules, SortingEpisode, do, end_of, letters, most_turns, order_of
from rlx.env.sorting.random_expert import wander
from rlx.env.sorting.sorters import (
    MAX_PLACES_OF_ORDERS,
    Finder,
    Op,
    Sorter,
    halving,
    insertion,
    optimum,
    pivot,
    run,
    then_swap,
    without_swaps,
)
from rlx.env.split import is_held_out, split_tasks
from rlx.environment import Environment
from rlx.types import Action, Move, Task, Text, Verb

MOST = 12
"""Numbers of a task, at most."""
FINDERS: dict[str, Finder] = {"insertion": halving, "pivot": pivot, "optimum": optimum}
"""Method by which each expert finds an order."""


@dataclass(frozen=True, kw_only=True)
class Sorting(Environment):
    """The reward is (right + efficiency) / 2, and 0 for a wrong result. Efficiency is the mean of a term for
    comparisons and a term for swaps; an order has the first term alone. A term falls linearly from 1 for the fewest to
    0 for the most: ceil(log2 n!) to n ceil(log2 n) comparisons, n less the cycles to n (n - 1) / 2 swaps."""

    pace: ClassVar = "inline"
    reward_only_keys: ClassVar = ("reward", "least", "say_order", "test", "test_sizes", "test_shares", "num_test")

    family: Literal["sort", "order"] = "sort"
    """Task: sort (bring the numbers in order) or order (state their order, without swaps)."""
    sizes: tuple[int, ...] = (2, 3, 4, 5)
    """Numbers per task: one of these, each from 2 to 12."""
    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)
    """Relative weight of each number of items."""
    compare_share: float = 0.0
    """Share of training tasks that ask for the order of two items only (family=order)."""
    high: int = 99
    """Largest hidden number; the smallest is 1."""
    sorted_starts: bool = True
    """Allow numbers that are in order already, as one start in n! is. Answering at once is then right that often."""
    reward: Literal["efficient", "right"] = "efficient"
    """Reward: efficient, which is (right + efficiency) / 2, or right, which is 1 for a right result at any cost."""
    least: Literal["information", "chain"] = "information"
    """Number of comparisons with full efficiency: information is ceil(log2 n!), chain is n - 1."""
    say_order: bool = False
    """Require the final text to state the order (A < B < C); false: accept any final text, as in the paper."""
    spare_turns: int | None = 0
    """Turns beyond the largest number that a task needs (a comparison or a swap of each pair, and the end); null: no
    limit but tokens, as in the paper."""
    explain: bool = True
    """List the actions, and the number of turns if there is one, in the task's text."""
    expert: Literal["insertion", "pivot", "optimum", "any"] = "insertion"
    """Expert of demonstrations, for up to 6 numbers: insertion, pivot (EARL*), optimum (the fewest comparisons on
    average), or any: random acts and a random consistent order at the end, which show how to act and not how to
    sort."""
    any_orders: float = 0.0
    """Share of acts before which expert=any states its current order, as A < C ? B (? marks a guess)."""
    any_habits: bool = False
    """Let expert=any draw one pair-selection policy per verb and demonstration (rlx.env.sorting.random_expert): any
    pair, neighbours in its assumed order, or neighbours whose order it guesses or knows."""
    test: Literal["drawn", "orders"] = "drawn"
    """Test tasks: drawn (as below) or orders (each of the n! orders of every test size, once)."""
    test_sizes: tuple[int, ...] = (4, 5)
    """Numbers per test task, drawn from these sizes."""
    test_shares: tuple[float, ...] = (0.5, 0.5)
    """Relative weight of each number of items."""
    num_test: int = 2000
    """Test tasks that are drawn, at most; a hash of the numbers keeps them out of training."""

    def __post_init__(self) -> None:
        for name, shares in (("sizes", "shares"), ("test_sizes", "test_shares")):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            object.__setattr__(self, shares, tuple(getattr(self, shares)))
            refuse_sizes(name, getattr(self, name), shares, getattr(self, shares))
        within(0.0, 1.0, compare_share=self.compare_share, any_orders=self.any_orders)
        within(20, MANY, high=self.high)
        within(1, MANY, num_test=self.num_test)
        if self.spare_turns is not None:
            within(0, MANY, spare_turns=self.spare_turns)
        if self.most > MAX_PLACES_OF_ORDERS and self.expert in ("pivot", "optimum"):
            refuse(
                "expert", self.expert, f"insertion or any, where there may be more than {MAX_PLACES_OF_ORDERS} numbers"
            )
        if max(self.test_sizes) > MAX_PLACES_OF_ORDERS and self.test == "orders":
            refuse("test", self.test, f"drawn, where there may be more than {MAX_PLACES_OF_ORDERS} numbers")

    @property
    def most(self) -> int:
        return max(self.sizes + self.test_sizes)

    @cached_property
    def actions(self) -> tuple[Verb, ...]:
        """The same in both families, so that rows of a head that one trained are there in the other."""
        buttons = two_of(self.most)
        always = ("sort", "order")
        return (
            Verb(name="compare", description="compare two items", argument="items", buttons=buttons, when=always),
            Verb(name="swap", description="swap two items", argument="items", buttons=buttons, when=("sort",)),
            Verb(name="answer", description="say the end", argument="answer", when=always),
        )

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        """Draw tasks. A hash of the numbers decides the split. The agent sees only the order of the numbers, and both
        splits have all n! orders."""
        if split != "test":
            return split_tasks(self.stream, self.draw, split, seed, self.num_test)
        return self.all_orders() if self.test == "orders" else self.drawn_test()

    @property
    def stream(self) -> str:
        """Key of the random numbers."""
        return f"sorting/{self.family}"

    def draw(self, rng: Random) -> Task:
        size = rng.choices(self.sizes, self.shares)[0]
        if self.family == "order" and rng.random() < self.compare_share:
            return self.describe("compare", self.numbers(size, rng), rng.sample(range(size), 2))
        return self.draw_of(size, rng)

    def draw_of(self, size: int, rng: Random) -> Task:
        return self.describe(self.family, self.numbers(size, rng))

    def numbers(self, size: int, rng: Random) -> list[int]:
        while not self.may_start(numbers := rng.sample(range(1, self.high + 1), size)):
            pass
        return numbers

    def may_start(self, numbers: Sequence[int]) -> bool:
        return self.sorted_starts or self.family == "order" or list(numbers) != sorted(numbers)

    def drawn_test(self) -> Iterator[Task]:
        """Shares are kept exactly, and all along: the first few are as mixed as all."""
        streams = {
            size: split_tasks(f"{self.stream}/{size}", partial(self.draw_of, size), "test", 0, self.num_test)
            for size in self.test_sizes
        }
        for size in evenly(self.test_sizes, self.test_shares, self.num_test):
            yield from islice(streams[size], 1)

    def all_orders(self) -> Iterator[Task]:
        for size in self.test_sizes:
            yield from map(self.held_out, filter(self.may_start, permutations(range(size))))

    def held_out(self, ranks: Sequence[int]) -> Task:
        """A test task whose numbers have these ranks."""
        rng = Random(f"{self.stream}/orders/{letters(ranks)}")
        while True:
            numbers = sorted(rng.sample(range(1, self.high + 1), len(ranks)))
            task = self.describe(self.family, [numbers[rank] for rank in ranks])
            if is_held_out(task):
                return task

    def describe(self, kind: Kind, numbers: Sequence[int], pair: Sequence[int] = ()) -> Task:
        turns = None if self.spare_turns is None else most_turns(kind, len(numbers)) + self.spare_turns
        limit = "" if turns is None else f" You have {turns} turns."
        prompt = ask(kind, len(numbers), pair) + (f" {RULES[kind]}{limit}" if self.explain else "")
        return Task(
            id=f"{kind}{letters(pair, '')}/{','.join(map(str, numbers))}",
            prompt=(Text(prompt),),
            data={"kind": kind, "numbers": list(numbers), "pair": list(pair), "max_turns": turns},
        )

    def start(self, task: Task) -> SortingEpisode:
        rules = Rules(efficient=self.reward == "efficient", chain=self.least == "chain", say_order=self.say_order)
        return SortingEpisode(rules, **task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Sort as `expert` says, or find an order so and say it."""
        if self.expert == "any":
            rng = Random(f"sorting/demonstrate/{seed}/{task.id}")
            yield from wander(task, rng, orders=self.any_orders, by_habit=self.any_habits)
            return
        order = order_of(task.data["numbers"])
        for op in self.worked(task, order):
            yield Move(thought=f"I {op.verb} {letters(op[1:], ' and ')}.", action=do(op))
        final = range(len(order)) if task.data["kind"] == "sort" else order
        yield Move(thought="Now all is known.", action=end_of(task, final))

    def worked(self, task: Task, order: Sequence[int]) -> Iterator[Op]:
        if task.data["kind"] == "compare":
            return iter([Op("compare", *task.data["pair"])])
        return run(self.sorter, order)

    @property
    def sorter(self) -> Sorter:
        if self.family == "order":
            return without_swaps(FINDERS[self.expert])
        return insertion if self.expert == "insertion" else then_swap(FINDERS[self.expert])

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor of what says the end at once: that all are sorted, or any order."""
        rng = Random(f"sorting/random/{seed}/{task.id}")
        places = range(len(task.data["numbers"]))
        if task.data["kind"] == "sort":
            return [end_of(task, places)] * num
        return [end_of(task, rng.sample(places, len(places))) for _ in range(num)]


RULES = {
    "sort": "You may compare two places and swap what two hold; when they are in order, say so.",
    "order": "You may compare two places; then answer.",
    "compare": "You may compare two places; then answer.",
}


def ask(kind: Kind, num: int, pair: Sequence[int]) -> str:
    introduction = f"Hidden numbers stand in {letters(range(num))}."
    if kind == "sort":
        return f"{introduction} Sort them, the smallest into A, and end with {letters(range(num), ' < ')}."
    if kind == "order":
        return f"{introduction} Say their order, the smallest first, as {letters(range(num), ' < ')}."
    return f"{introduction} Say the order of {letters(pair, ' and ')}, the smaller first, as {letters(pair, ' < ')}."


@cache
def two_of(num: int) -> Buttons:
    """Two different letters of the first `num`."""
    names = ascii_uppercase[:num]
    seconds = [{name: None for name in names if name != first} for first in names]
    return Buttons(states=({name: place for place, name in enumerate(names, 1)}, *seconds), between=" ")


def evenly(sizes: Sequence[int], shares: Sequence[float], num: int) -> Iterator[int]:
    """Yield the size of each of `num` tasks: the exact shares, up to rounding, spread evenly."""
    counts = {size: round(num * share / sum(shares)) for size, share in zip(sizes, shares, strict=True)}
    places = sorted(((i + 0.5) / count, size) for size, count in counts.items() for i in range(count))
    return (size for _, size in places)


def refuse_sizes(name: str, sizes: Sequence[int], shares_name: str, shares: Sequence[float]) -> None:
    if not sizes or not all(2 <= size <= MOST for size in sizes) or len(set(sizes)) < len(sizes):
        refuse(name, list(sizes), f"different integers from 2 to {MOST}, at least one")
    if len(shares) != len(sizes) or not all(0 <= share <= MANY for share in shares) or not sum(shares):
        refuse(shares_name, list(shares), f"as many numbers from 0, not all 0, as there are {name}: {len(sizes)}")
