from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.env.countdown.expression import verify
from rlx.env.countdown.solver import solutions, solve, values
from tests.loops import for_each


def search(numbers: list[Fraction]) -> set[Fraction]:
    """All values by brute force: replace any two numbers by what they make."""
    if len(numbers) == 1:
        return set(numbers)
    found: set[Fraction] = set()
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            if i != j:
                rest = [number for k, number in enumerate(numbers) if k not in (i, j)]
                made = [a + b, a - b, a * b, *([a / b] if b else [])]
                found |= {value for new in made for value in search([*rest, new])}
    return found


@settings(max_examples=25)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=4))
def test_solver_finds_all_that_brute_force_does(numbers: list[int]) -> None:
    reached = search([Fraction(number) for number in numbers])
    assert values(numbers) == {(value.numerator, value.denominator) for value in reached}
    for target in range(-10, 40):
        found = solve(numbers, target)
        assert (found is not None) == (target in reached)
        assert found is None or verify(found, numbers, target)


@for_each("numbers, target", [([44, 19, 35], 98), ([3, 3, 8, 8], 24), ([1, 3, 4, 6], 24), ([5], 5), ([0, 7], 0)])
def test_known_problems_are_solved(numbers: list[int], target: int) -> None:
    found = solve(numbers, target)
    assert found is not None
    assert verify(found, numbers, target)


@pytest.mark.parametrize(("numbers", "target"), [([1, 1, 1, 1], 24), ([5], 6), ([2, 2], 3)])
def test_problems_without_a_solution_are_known(numbers: list[int], target: int) -> None:
    assert solve(numbers, target) is None


def test_a_seed_chooses_among_solutions_and_repeats() -> None:
    found = {solve([1, 2, 3, 4], 10, seed) for seed in range(20)}
    assert len(found) > 5
    assert list(solutions([1, 2, 3, 4], 10, 7)) == list(solutions([1, 2, 3, 4], 10, 7))


def test_six_numbers_are_solved() -> None:
    found = solve([75, 50, 2, 3, 8, 7], 812)
    assert found is not None
    assert verify(found, [75, 50, 2, 3, 8, 7], 812)
