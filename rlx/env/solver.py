"""An exact solver for Countdown: every value that subsets of the numbers can make, joined from both ends."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import gcd
from typing import NamedTuple

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
    table, whole = tabulate(numbers), (1 << len(numbers)) - 1
    halves = [mask for mask in range(1, whole) if mask > whole ^ mask]
    if seed is not None:
        rng.shuffle(halves)
    for mask in halves:
        yield from joins(table, mask, whole ^ mask, target)


def values(numbers: Sequence[int]) -> dict[Fraction, str]:
    """Every value that all of `numbers` can make, each with an expression."""
    table, whole = tabulate(list(numbers), whole=True), (1 << len(numbers)) - 1
    return {Fraction(*value): write(table, whole, value) for value in table[whole]}


class Join(NamedTuple):
    """How a value came about: which operator on which values of which subsets."""

    operator: str
    left_mask: int
    left: Ratio
    right_mask: int
    right: Ratio


Table = dict[int, dict[Ratio, Join | None]]
"""For each subset of the numbers, a bit mask, the values it can make."""


def tabulate(numbers: list[int], whole: bool = False) -> Table:
    """The values of all proper subsets, and of the whole set if asked."""
    table: Table = {1 << index: {(number, 1): None} for index, number in enumerate(numbers)}
    for mask in range(1, (1 << len(numbers)) - (not whole)):
        if mask & (mask - 1):
            table[mask] = combine_all(table, mask)
    return table


def combine_all(table: Table, mask: int) -> dict[Ratio, Join | None]:
    found: dict[Ratio, Join | None] = {}
    first = mask & -mask
    part = (mask - 1) & mask
    while part:
        if part & first:  # each split once
            rest = mask ^ part
            for left in table[part]:
                for right in table[rest]:
                    combine(found, part, left, rest, right)
        part = (part - 1) & mask
    return found


def combine(found: dict[Ratio, Join | None], a_mask: int, a: Ratio, b_mask: int, b: Ratio) -> None:
    """Add to `found` all that one operator makes of the values `a` and `b`."""
    (p, q), (r, s) = a, b
    denominator = q * s
    found.setdefault(reduce(p * s + r * q, denominator), Join("+", a_mask, a, b_mask, b))
    difference = p * s - r * q
    found.setdefault(reduce(difference, denominator), Join("-", a_mask, a, b_mask, b))
    found.setdefault(reduce(-difference, denominator), Join("-", b_mask, b, a_mask, a))
    found.setdefault(reduce(p * r, denominator), Join("*", a_mask, a, b_mask, b))
    if r:
        found.setdefault(reduce(p * s, q * r), Join("/", a_mask, a, b_mask, b))
    if p:
        found.setdefault(reduce(r * q, s * p), Join("/", b_mask, b, a_mask, a))


def reduce(numerator: int, denominator: int) -> Ratio:
    if denominator == 1:
        return numerator, 1
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
    left, right = write(table, join.left_mask, join.left), write(table, join.right_mask, join.right)
    return f"({left} {join.operator} {right})"
