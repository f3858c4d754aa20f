"""An exact solver for Countdown: every value that subsets of the numbers can make, joined from both ends."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence, Set
from math import gcd

Ratio = tuple[int, int]
"""An exact rational in lowest terms with a positive denominator; several times as fast here as `Fraction`."""


def solve(numbers: Sequence[int], target: int, seed: int | None = None) -> str | None:
    """One expression that equals `target` exactly, or None if there is none; `seed` varies which one.

    The values of all proper subsets, then from both ends: an expression's top operator joins two complementary subsets,
    so for each value of the smaller table the value it needs is looked up in the larger one.
    """
    return next(solutions(numbers, target, seed), None)


def solutions(numbers: Sequence[int], target: int, seed: int | None = None) -> Iterator[str]:
    """Expressions that equal `target`, at most one for each pair of values under the top operator."""
    numbers = list(numbers)
    rng = random.Random(seed)
    if seed is not None:
        rng.shuffle(numbers)
    if len(numbers) == 1:
        yield from ([str(target)] if numbers[0] == target else [])
        return
    table, full_mask = tabulate(numbers), (1 << len(numbers)) - 1
    halves = [mask for mask in range(1, full_mask) if mask > full_mask ^ mask]
    if seed is not None:
        rng.shuffle(halves)
    for mask in halves:
        yield from joins(table, mask, full_mask ^ mask, target)


def values(numbers: Sequence[int]) -> Set[Ratio]:
    """Every value that all of `numbers` together can make."""
    return tabulate(list(numbers), include_full=True)[(1 << len(numbers)) - 1].keys()


Join = tuple[str, int, Ratio, int, Ratio]
"""Origin of a value: the operator, then the left operand's subset and value, then the right operand's."""

Table = dict[int, dict[Ratio, Join | None]]
"""For each subset of the numbers, a bit mask, the values it can make."""


def tabulate(numbers: list[int], include_full: bool = False) -> Table:
    """The values of all proper subsets, and of the whole set if asked."""
    table: Table = {1 << index: {(number, 1): None} for index, number in enumerate(numbers)}
    for mask in range(1, (1 << len(numbers)) - (not include_full)):
        if mask & (mask - 1):
            table[mask] = combine_all(table, mask)
    return table


def combine_all(table: Table, mask: int) -> dict[Ratio, Join | None]:
    joins_by_value: dict[Ratio, Join | None] = {}
    first = mask & -mask
    part = (mask - 1) & mask
    while part:
        if part & first:  # each split once
            rest = mask ^ part
            for left in table[part]:
                for right in table[rest]:
                    combine(joins_by_value, part, left, rest, right)
        part = (part - 1) & mask
    return joins_by_value


def combine(joins_by_value: dict[Ratio, Join | None], a_mask: int, a: Ratio, b_mask: int, b: Ratio) -> None:
    """Add to `joins_by_value` all that one operator makes of the values `a` and `b`."""
    (p, q), (r, s) = a, b
    left, right, both = p * s, r * q, q * s
    for operator, numerator, denominator in (("+", left + right, both), ("-", left - right, both), ("*", p * r, both)):
        value = (numerator, 1) if denominator == 1 else reduce(numerator, denominator)
        if value not in joins_by_value:
            joins_by_value[value] = (operator, a_mask, a, b_mask, b)
    swapped = (right - left, 1) if both == 1 else reduce(right - left, both)
    if swapped not in joins_by_value:
        joins_by_value[swapped] = ("-", b_mask, b, a_mask, a)
    if r and (value := reduce(left, right)) not in joins_by_value:
        joins_by_value[value] = ("/", a_mask, a, b_mask, b)
    if p and (value := reduce(right, left)) not in joins_by_value:
        joins_by_value[value] = ("/", b_mask, b, a_mask, a)


def reduce(numerator: int, denominator: int) -> Ratio:
    divisor = gcd(numerator, denominator)
    if denominator < 0:
        divisor = -divisor
    return numerator // divisor, denominator // divisor


def joins(table: Table, a_mask: int, b_mask: int, target: int) -> Iterator[str]:
    """Expressions for `target` whose top operator joins these two subsets."""
    if len(table[a_mask]) > len(table[b_mask]):
        a_mask, b_mask = b_mask, a_mask
    needed_of = table[b_mask]
    for a in table[a_mask]:
        for operator, needed, a_is_left in partners(a, target):
            if needed in needed_of:
                left, right = write(table, a_mask, a), write(table, b_mask, needed)
                yield f"({left} {operator} {right})" if a_is_left else f"({right} {operator} {left})"
        if target == a[0] == 0:  # zero times anything
            yield from (f"({write(table, a_mask, a)} * {write(table, b_mask, b)})" for b in needed_of)


def partners(a: Ratio, target: int) -> Iterator[tuple[str, Ratio, bool]]:
    """Every (operator, b, a is on the left) for which a and b make the target."""
    p, q = a
    yield "+", reduce(target * q - p, q), True
    yield "-", reduce(p - target * q, q), True
    yield "-", reduce(target * q + p, q), False
    if p:
        yield "*", reduce(target * q, p), True
        yield "/", reduce(target * p, q), False
    if p and target:
        yield "/", reduce(p, q * target), True


def write(table: Table, mask: int, value: Ratio) -> str:
    join = table[mask][value]
    if join is None:
        return str(value[0])
    operator, left_mask, left, right_mask, right = join
    return f"({write(table, left_mask, left)} {operator} {write(table, right_mask, right)})"
