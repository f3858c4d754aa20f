"""Ways to sort what can only be compared and swapped, two places at a time, and what they cost over all orders.

A sorter yields an `Op` and, where that compares, is sent whether the first is smaller. An `Order` names the places from
the smallest number up: (2, 0, 1) is C < A < B. Whatever first finds the order ends with the fewest swaps: n less the
number of its cycles. These are the algorithms of Table 2 of EARL (Yue et al. 2025, section 3), none of its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache, cmp_to_key
from itertools import combinations, permutations
from typing import Literal, NamedTuple

Order = tuple[int, ...]


class Op(NamedTuple):
    verb: Literal["compare", "swap"]
    first: int
    second: int


Ops = Generator[Op, bool, None]
Sorter = Callable[[int], Ops]
"""Function of the number of places."""
Finder = Callable[[int], Generator[Op, bool, Order]]

MAX_PLACES_OF_ORDERS = 6
"""Places at most where all that is known is kept as the set of orders that are left."""


class OpCounts(NamedTuple):
    swaps: int
    comparisons: int


# Swaps.


def fewest_swaps(order: Sequence[int]) -> Ops:
    """They settle one place after the other, from the first."""
    left = list(order)
    for place, source in enumerate(left):
        if source != place:
            yield Op("swap", place, source)
            left[left.index(place)], left[place] = source, place


def then_swap(finder: Finder) -> Sorter:
    """Find the order, then swap as little as can be."""

    def sort(num: int) -> Ops:
        yield from fewest_swaps((yield from finder(num)))

    return sort


def without_swaps(finder: Finder) -> Sorter:
    """Find the order, and leave all where it is."""

    def find(num: int) -> Ops:
        yield from finder(num)

    return find


def insertion(num: int) -> Ops:
    """Each goes down past all that are larger."""
    for place in range(1, num):
        yield from sink(place)


def sink(place: int) -> Ops:
    while place > 0 and (yield Op("compare", place, place - 1)):
        yield Op("swap", place - 1, place)
        place -= 1


def gcc_insertion(num: int) -> Ops:
    """Sort as GCC's std::sort does with at most 16: an item below the first moves to the front at once, by swaps."""
    for place in range(1, num):
        if (yield Op("compare", place, 0)):
            for lower in range(place, 0, -1):
                yield Op("swap", lower - 1, lower)
        else:
            yield from sink(place)


def network(num: int) -> Ops:
    """A sorting network of four places with the fewest comparators, five. It has what Table 2 says of GCC."""
    if num != 4:
        raise ValueError(f"a network of {num} places: there is one of 4")
    for low, high in ((0, 2), (1, 3), (0, 1), (2, 3), (1, 2)):
        if (yield Op("compare", high, low)):
            yield Op("swap", low, high)


# Orders, found by comparisons.


class UnansweredError(Exception):
    """A comparison that was not made yet."""

    def __init__(self, op: Op) -> None:
        self.op = op


def library(num: int) -> Generator[Op, bool, Order]:
    """Compare as Python's `sorted` does: restart it with all answers so far, until no answer is missing."""
    answers: list[bool] = []
    while True:
        try:
            return sorted_by(answers, num)
        except UnansweredError as missing:
            op = missing.op
        answers.append((yield op))


def sorted_by(answers: Sequence[bool], num: int) -> Order:
    left = iter(answers)

    def compared(a: int, b: int) -> int:
        answer = next(left, None)
        if answer is None:
            raise UnansweredError(Op("compare", a, b))
        return -1 if answer else 1

    return tuple(sorted(range(num), key=cmp_to_key(compared)))


def halving(num: int) -> Generator[Op, bool, Order]:
    """Each goes to its place among those before it, of which half are left after every comparison."""
    order: list[int] = []
    for place in range(num):
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if (yield Op("compare", place, order[middle])) else (middle + 1, high)
        order.insert(low, place)
    return tuple(order)


def pivot(num: int) -> Generator[Op, bool, Order]:
    """EARL* (Algorithm 2): A with all others, then the other pairs, but for those that are known by then."""
    left = (1 << len(orders(num))) - 1
    for a, b in combinations(range(num), 2):
        smaller = orders_with(num)[a, b]
        if left & smaller and left & ~smaller:
            left &= smaller if (yield Op("compare", a, b)) else ~smaller
    return orders(num)[left.bit_length() - 1]


def printed_pivot(num: int) -> Generator[Op, bool, Order]:
    """Algorithm 2 to the letter: known is only what A, between the two, says of them."""
    above: dict[int, bool] = {}
    for b in range(1, num):
        above[b] = yield Op("compare", 0, b)
    smaller = {(0, b) for b in above if above[b]} | {(b, 0) for b in above if not above[b]}
    for a, b in combinations(above, 2):
        is_smaller = above[b] if above[a] != above[b] else (yield Op("compare", a, b))
        smaller.add((a, b) if is_smaller else (b, a))
    return tuple(sorted(range(num), key=lambda place: -sum(low == place for low, _ in smaller)))


def optimum(num: int) -> Generator[Op, bool, Order]:
    """The decision tree with the fewest comparisons on average (the first of them)."""
    left = (1 << len(orders(num))) - 1
    while left & (left - 1):
        _, (a, b) = best_comparison(num, left)
        smaller = orders_with(num)[a, b]
        left &= smaller if (yield Op("compare", a, b)) else ~smaller
    return orders(num)[left.bit_length() - 1]


def settle(order: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Order:
    """Return the order changed so that the first of each pair stands before the second. The next place is always the
    first remaining place in the old order without a remaining predecessor."""
    left, new_order = list(order), list[int]()
    while left:
        free = next(place for place in left if not any(b == place and a in left for a, b in pairs))
        new_order.append(free)
        left.remove(free)
    return tuple(new_order)


@cache
def orders(num: int) -> tuple[Order, ...]:
    if num > MAX_PLACES_OF_ORDERS:
        raise ValueError(f"{num} places have too many orders to be kept: at most {MAX_PLACES_OF_ORDERS}")
    return tuple(permutations(range(num)))


@cache
def orders_with(num: int) -> dict[tuple[int, int], int]:
    """Map two places to a bit mask: one bit for each order in which the first place is smaller."""
    return {
        (a, b): sum(1 << i for i, order in enumerate(orders(num)) if order.index(a) < order.index(b))
        for a, b in combinations(range(num), 2)
    }


@cache
def best_comparison(num: int, left: int) -> tuple[int, tuple[int, int]]:
    """Find the best decision tree over the orders that are left: its summed comparisons, and its first comparison."""
    costs: dict[tuple[int, int], int] = {}
    for pair, smaller in orders_with(num).items():
        below, above = left & smaller, left & ~smaller
        if below and above:
            several = [half for half in (below, above) if half & (half - 1)]
            costs[pair] = left.bit_count() + sum(best_comparison(num, half)[0] for half in several)
    first = min(costs, key=costs.__getitem__)
    return costs[first], first


# What they cost.


def run(sorter: Sorter, order: Sequence[int]) -> Iterator[Op]:
    """Yield all operations of a sorter on numbers of this order."""
    numbers = [order.index(place) for place in range(len(order))]
    ops = sorter(len(order))
    op = next(ops, None)
    while op is not None:
        yield op
        if op.verb == "swap":
            numbers[op.first], numbers[op.second] = numbers[op.second], numbers[op.first]
        op = send_answer(ops, numbers[op.first] < numbers[op.second])


def send_answer(ops: Ops, is_smaller: bool) -> Op | None:
    """Send an answer; return the next operation, None at the end."""
    try:
        return ops.send(is_smaller)
    except StopIteration:
        return None


def cost(sorter: Sorter, order: Sequence[int]) -> OpCounts:
    verbs = [op.verb for op in run(sorter, order)]
    return OpCounts(swaps=verbs.count("swap"), comparisons=verbs.count("compare"))


def average(sorter: Sorter, num: int) -> tuple[float, float]:
    """Swaps and comparisons over all n! orders."""
    costs = [cost(sorter, order) for order in permutations(range(num))]
    return sum(totals.swaps for totals in costs) / len(costs), sum(totals.comparisons for totals in costs) / len(costs)


SORTERS: dict[str, Sorter] = {
    "insertion": insertion,
    "GCC's insertion": gcc_insertion,
    "network of five": network,
    "Python's sorted": then_swap(library),
    "insertion by halving": then_swap(halving),
    "EARL*, as printed": then_swap(printed_pivot),
    "EARL*": then_swap(pivot),
    "optimum": then_swap(optimum),
}
"""The rows of Table 2 that are algorithms."""
