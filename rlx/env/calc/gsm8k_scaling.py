"""Word problems with larger numbers: the same story, each number of it changed, every step of its calculation redone.

    Ben has 12 apples and gives away 5.           Ben has 8431 apples and gives away 4275.
    12 - 5 = 7                             ->     8431 - 4275 = 4156

A number in a step is a number of the story, the value of an earlier step, or common knowledge, such as the 60 minutes
of an hour. A problem is scaled only if each number has one such origin and the steps lead to the problem's answer. New
values must be whole and positive wherever the old values were. A number that a story tells twice, or as a part of a
share, a time or a decimal, stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple

from rlx.env.calc.expressions import BOUND, LONGEST
from rlx.env.questions.number import write_number
from rlx.tool.arithmetic import WrongExpressionError, parse, tokenize
from rlx.tool.calculator import NESTING, TOKEN

CONSTANTS = frozenset({1, 2, 7, 10, 12, 24, 30, 31, 52, 60, 100, 365, 1000})
"""Constants that a calculation may use without a mention in the story; scaling never changes them."""
ANY = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+", re.ASCII)
PLAIN = re.compile(r"(?<![\w.,:/%-])\d{1,6}(?![\w:/%-]|[.,]\d|\s*percent)", re.ASCII)
"""A whole number of a story that may be changed: no part of a decimal, a time, a ratio, a share or a word."""
TRIES = 60


class Worked(NamedTuple):
    text: str
    steps: tuple[str, ...]
    """Expressions, in order; the last one's value is the answer."""


class Expression(NamedTuple):
    """An expression whose numbers may change; a decimal that no story tells is of a share, as .35 for 35 percent."""

    tokens: tuple[str, ...]
    story_numbers: Mapping[int, int]
    """Number of the story at a place of `tokens`."""
    step_values: Mapping[int, int]
    """Index of the earlier step whose value stands at a place of `tokens`."""


def scale(problem: Worked, answer: Fraction, rng: Random, largest: int) -> tuple[Worked, Fraction] | None:
    """The new one and its answer; None where it cannot be, or where no larger numbers were found."""
    steps = understand(problem)
    values = None if steps is None else follow(steps, {})
    if steps is None or values is None or values[-1] != answer:
        return None
    story_numbers = sorted({number for step in steps for number in step.story_numbers.values()})
    for attempt in range(TRIES if story_numbers and 3 * max(story_numbers) <= largest else 0):
        new = larger(story_numbers, rng, largest, exact=attempt % 2 == 1)
        others = follow(steps, new)
        if others is not None and all(map(is_alike, values, others)):
            return Worked(retell(problem.text, new), tuple(rewrite(steps, new, others))), others[-1]
    return None


def understand(problem: Worked) -> list[Expression] | None:
    """Find the origin of each number of the steps; None if a number has several origins, or none."""
    number_counts = Counter(number.replace(",", "") for number in ANY.findall(problem.text))
    changeable = changeable_numbers(problem, number_counts)
    values: list[Fraction] = []
    steps = []
    for expression in problem.steps:
        tokens = read(expression)
        step = None if tokens is None else sort_out(tokens, number_counts, changeable, values)
        value = None if step is None else follow([step], {}, values)
        if step is None or value is None:
            return None
        steps.append(step)
        values += value
    return steps or None


def changeable_numbers(problem: Worked, number_counts: Mapping[str, int]) -> set[int]:
    """Return the numbers that the story tells once and the steps use."""
    used = {token for expression in problem.steps for token in read(expression) or ()}
    return {
        int(number) for number in PLAIN.findall(problem.text) if number_counts.get(number) == 1 and number in used
    } - CONSTANTS


def read(expression: str) -> list[str] | None:
    try:
        return tokenize(expression.replace(",", ""), TOKEN, LONGEST)
    except WrongExpressionError:
        return None


def sort_out(
    tokens: Sequence[str], number_counts: Mapping[str, int], changeable: set[int], values: Sequence[Fraction]
) -> Expression | None:
    new: dict[int, int] = {}
    step_values: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if not token[-1].isdigit():
            continue
        earlier = [index for index, value in enumerate(values) if value == Fraction(token)]
        if len(earlier) + (token in number_counts) > 1:
            return None
        if earlier:
            step_values[place] = earlier[0]
        elif token in number_counts:
            new |= {place: int(token)} if token.isdigit() and int(token) in changeable else {}
        elif "." not in token and int(token) not in CONSTANTS:
            return None
    return Expression(tuple(tokens), new, step_values)


def follow(
    steps: Sequence[Expression], new: Mapping[int, int], values: Sequence[Fraction] = ()
) -> list[Fraction] | None:
    """Compute each step with other numbers; None if a value is undefined, not above 0, or not exact at three
    decimals."""
    results = list(values)
    for step in steps:
        try:
            value = Fraction(parse(put(step, new, results), NESTING, Fraction))
        except (WrongExpressionError, ZeroDivisionError):
            return None
        if not 0 < value < BOUND or 1000 % value.denominator:
            return None
        results.append(value)
    return results[len(values) :]


def put(step: Expression, new: Mapping[int, int], values: Sequence[Fraction]) -> list[str]:
    tokens = list(step.tokens)
    for place, number in step.story_numbers.items():
        tokens[place] = str(new.get(number, number))
    for place, index in step.step_values.items():
        tokens[place] = write_number(values[index])
    return tokens


def is_alike(old: Fraction, new: Fraction) -> bool:
    """Whole if the other was."""
    return old.denominator > 1 or new.denominator == 1


def larger(numbers: Sequence[int], rng: Random, largest: int, exact: bool) -> dict[int, int]:
    """Multiples, some by a factor in common; where they need not be `exact`, near multiples."""
    common = grow(rng, largest // max(numbers))
    factors = {number: rng.choice((common, common, grow(rng, largest // number))) for number in numbers}
    return {n: n * by + (0 if exact else rng.randint(0, min(by - 1, largest - n * by))) for n, by in factors.items()}


def grow(rng: Random, most: int) -> int:
    """Draw a factor; all numbers of digits are equally likely."""
    return rng.randint(2, min(most, 10 ** rng.randint(1, 6)))


def retell(text: str, new: Mapping[int, int]) -> str:
    return PLAIN.sub(lambda number: str(new.get(int(number[0]), number[0])), text)


def rewrite(steps: Sequence[Expression], new: Mapping[int, int], values: Sequence[Fraction]) -> list[str]:
    return [" ".join(put(step, new, values)).replace("( ", "(").replace(" )", ")") for step in steps]
