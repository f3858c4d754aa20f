from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.countdown.expression import compute, evaluate, random_candidate, verify
from tests.loops import for_each

OPERATORS = st.sampled_from("+-*/")
Tree = tuple[str, Fraction | None, list[int]]
"""Text, exact value (None after a division by zero), and the numbers used."""


def leaf(number: int) -> Tree:
    return str(number), Fraction(number), [number]


def node(left: Tree, operator: str, right: Tree, space: str) -> Tree:
    text = f"({left[0]}{space}{operator}{space}{right[0]})"
    return text, operate(left[1], operator, right[1]), left[2] + right[2]


def operate(left: Fraction | None, operator: str, right: Fraction | None) -> Fraction | None:
    if left is None or right is None or (operator == "/" and right == 0):
        return None
    return {"+": left.__add__, "-": left.__sub__, "*": left.__mul__, "/": left.__truediv__}[operator](right)


TREES = st.recursive(
    st.builds(leaf, st.integers(0, 99)),
    lambda trees: st.builds(node, trees, OPERATORS, trees, st.sampled_from(["", " "])),
    max_leaves=6,
)


@given(TREES, st.randoms(use_true_random=False))
def test_verifier_agrees_with_exact_arithmetic(tree: Tree, rng: random.Random) -> None:
    text, value, numbers = tree
    rng.shuffle(numbers)
    if value is None:
        assert not verify(text, numbers, 0)
    else:
        assert evaluate(text, numbers, Fraction) == value
        assert verify(text, numbers, value)
        assert not verify(text, numbers, value + 1)
        assert not verify(text, [*numbers, 1], value)


@given(TREES)
def test_computed_value_is_pythons(tree: Tree) -> None:
    text, _, numbers = tree
    try:
        expected = eval(text)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            compute(text, numbers)
    else:
        computed = compute(text, numbers)
        assert (repr(computed), type(computed)) == (repr(expected), type(expected))


@for_each("text", ["2 + 3 * 4", "(2 + 3) * 4", "2 - 3 - 4", "4 / 2 / 3", "-2 + 3 * +4", "2 - -3 + 4", "--2 * 3 - 4"])
def test_precedence_and_signs_are_pythons(text: str) -> None:
    assert compute(text, [2, 3, 4]) == eval(text)


@for_each(
    "text",
    [
        "",
        "1",
        "1 + 1",
        "1 + 2 + 3",
        "1 + 2 = 3",
        "3",
        "1 + 02",
        "1 + 2.0",
        "1 ** 2",
        "1 // 2",
        "1 × 2",
        "1, 2",
        "(1 + 2",
        "1 + 2)",
        "1 2",
        "(1)(2)",
        "1 + + ",
        "()",
        "+",
        "1_0 + 2",
        "１ + 2",
        "²+1",
        "1 + 2 # x",
        "__import__('os')",
        "1 / 0",
        "\x00",
        "\ud800",
        "(" * 10_000,
        "(" * 200 + "1 + 2" + ")" * 200,
        "-" * 10_000 + "1 + 2",
        "9" * 100_000,
        "1+2" * 10**5,
    ],
)
def test_anything_else_is_wrong_and_no_exception(text: str) -> None:
    assert not verify(text, [1, 2], 3)


@given(st.text(alphabet="0123456789+-*/() \n×=a", max_size=40), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_verifier_is_total(text: str, numbers: list[int]) -> None:
    assert verify(text, numbers, 10) in (True, False)


def test_division_by_zero_is_wrong() -> None:
    assert not verify("3 / (2 - 2)", [3, 2, 2], 0)


def test_only_an_exact_value_is_right() -> None:
    assert verify("8 / (3 - 8 / 3)", [3, 3, 8, 8], 24)
    assert compute("8 / (3 - 8 / 3)", [3, 3, 8, 8]) == 23.99999999999999
    assert not verify("100000001 * 99999999 / 10", [100000001, 99999999, 10], 10**15)


@given(st.lists(st.integers(1, 99), min_size=1, max_size=6), st.integers(), st.booleans())
def test_random_candidates_are_valid_and_computed_as_python_does(numbers: list[int], seed: int, whole: bool) -> None:
    text, value = random_candidate(numbers, random.Random(seed), whole)
    assert repr(compute(text, numbers)) == repr(value)
    assert random_candidate(numbers, random.Random(seed), whole).text == text
    assert not whole or value == int(value)
