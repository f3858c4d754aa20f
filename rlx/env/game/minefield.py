"""Exact probability of a mine in each hidden cell of a minefield, given the visible numbers.

Hidden cells next to the same numbers form a group, and have the same probability. Groups that share a number form a
part. Parts depend on each other only through the total number of mines, so each part has its own table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, reduce
from math import comb, prod

Numbers = Sequence[int | None]
"""Number of mines around each cell, row by row; None for a hidden cell."""
Group = frozenset[int]
"""Group of hidden cells, identified by the visible cells next to them."""
Table = dict[int, tuple[int, dict[Group, int]]]
"""For each number of mines: the number of layouts, and the mines of each group summed over the layouts."""


@cache
def around(rows: int, cols: int) -> tuple[tuple[int, ...], ...]:
    """Return the neighbours of each cell."""
    return tuple(
        tuple(
            r * cols + c
            for r in range(max(0, row - 1), min(rows, row + 2))
            for c in range(max(0, col - 1), min(cols, col + 2))
            if (r, c) != (row, col)
        )
        for row in range(rows)
        for col in range(cols)
    )


def risks(numbers: Numbers, cols: int, num_mines: int) -> dict[int, float]:
    """Return the probability of a mine in each hidden cell. All layouts are equally likely."""
    groups = group_cells(numbers, cols)
    tables = [table_of({group: len(groups[group]) for group in part}, numbers) for part in parts_of(groups)]
    ways, mines = reduce(join, tables)[num_mines]
    return {cell: mines[group] / (ways * len(cells)) for group, cells in groups.items() for cell in cells}


def group_cells(numbers: Numbers, cols: int) -> dict[Group, list[int]]:
    near = around(len(numbers) // cols, cols)
    groups: dict[Group, list[int]] = defaultdict(list)
    for cell, number in enumerate(numbers):
        if number is None:
            groups[frozenset(neighbour for neighbour in near[cell] if numbers[neighbour] is not None)].append(cell)
    return groups


def parts_of(groups: Sequence[Group] | dict[Group, list[int]]) -> Iterator[list[Group]]:
    """Yield the parts: groups connected by shared numbers, with neighbours next to each other."""
    left = list(groups)
    while left:
        part = [left.pop(0)]
        for group in part:
            part += [other for other in left if other & group]
            left = [other for other in left if not other & group]
        yield part


def table_of(sizes: dict[Group, int], numbers: Numbers) -> Table:
    numbered_cells = frozenset[int]().union(*sizes)
    need = {number: numbers[number] or 0 for number in numbered_cells}
    room = {number: sum(size for group, size in sizes.items() if number in group) for number in numbered_cells}
    table: Table = {}
    for mines in solutions(list(sizes.items()), need, room):
        ways = prod(map(comb, sizes.values(), mines))
        num_ways, sums = table.get(sum(mines), (0, dict.fromkeys(sizes, 0)))
        table[sum(mines)] = num_ways + ways, {group: sums[group] + ways * num for group, num in zip(sizes, mines)}
    return table


def solutions(groups: list[tuple[Group, int]], need: dict[int, int], room: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield the possible mines of each group that satisfy every number. `room`: hidden cells still free next to a
    number."""
    if not groups:
        yield ()
        return
    (group, size), *rest = groups
    low = max([0, *(need[number] - room[number] + size for number in group)])
    high = min([size, *(need[number] for number in group)])
    for num in range(low, high + 1):
        less = {number: need[number] - num for number in group}
        smaller = {number: room[number] - size for number in group}
        for others in solutions(rest, need | less, room | smaller):
            yield (num, *others)


def join(first: Table, second: Table) -> Table:
    """Combine the tables of two parts."""
    table: Table = {}
    for num, (ways, sums) in first.items():
        for more, (times, others) in second.items():
            num_ways, old = table.get(num + more, (0, dict.fromkeys([*sums, *others], 0)))
            both = {group: sums[group] * times for group in sums} | {group: others[group] * ways for group in others}
            table[num + more] = num_ways + ways * times, {group: old[group] + both[group] for group in both}
    return table
