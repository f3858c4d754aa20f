"""Arithmetic on Countdown expressions: an exact verifier, what Python makes of an expression, and random ones.

An expression is text in full parentheses, `((44 - 35) * 19)`, that uses each number once with + - * /. Its exact value
is a fraction, which decides whether it is right; its computed value is what Python makes of it, 19 / 35 =
0.5428571428571428, which is what an agent with the tool sees.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from rlx.tool.arithmetic import Value, WrongExpressionError, parse, tokenize

MAX_CHARACTERS = 500
MAX_DEPTH = 40
TOKEN = re.compile(r"\s*(?:(0|[1-9][0-9]*)|([-+*/()]))")


def verify(text: str, numbers: Sequence[int], target: int | Fraction) -> bool:
    """Check that `text` uses each number exactly once and equals `target` exactly.

    Strict: + - * / , parentheses, signs and white space; no `= 98`, no ×, no decimals, no leading zeros, no powers.
    Any text is answered in bounded time and without an exception; division by zero is wrong.
    """
    try:
        return evaluate(text, numbers, Fraction) == target
    except (WrongExpressionError, ZeroDivisionError):
        return False


def compute(text: str, numbers: Sequence[int]) -> int | float:
    """Compute `text` as Python does: integers exactly, a float after any division."""
    value = evaluate(text, numbers, int)
    assert not isinstance(value, Fraction)
    return value


def evaluate(text: str, numbers: Sequence[int], read: Callable[[str], Value]) -> Value:
    """The value of `text`; WrongExpressionError if malformed or not on these numbers, or ZeroDivisionError."""
    tokens = tokenize(text, TOKEN, MAX_CHARACTERS)
    if sorted(int(token) for token in tokens if token.isdigit()) != sorted(numbers):
        raise WrongExpressionError("each number must be used exactly once")
    return parse(tokens, MAX_DEPTH, read)


class Candidate(NamedTuple):
    """An expression and what Python computes for it."""

    text: str
    value: int | float


def random_candidate(numbers: Sequence[int], rng: random.Random, exact: bool = False) -> Candidate:
    """A random expression that uses each number once and never divides by zero, nor, if `exact`, with a remainder."""
    parts = [Candidate(str(number), number) for number in numbers]
    while len(parts) > 1:
        left, right = (parts.pop(int(rng.random() * len(parts))) for _ in range(2))
        parts.append(join(left, right, rng, exact))
    return parts[0]


def random_expressions(numbers: Sequence[int], num: int, rng: random.Random) -> list[str]:
    """Distinct ones, at most `num`. Divisions leave no rest, which solves about half as many problems again as any
    division does."""
    texts: dict[str, None] = {}
    for _ in range(20 * num):
        if len(texts) < num:
            texts[random_candidate(numbers, rng, exact=True).text] = None
    return list(texts)


def join(left: Candidate, right: Candidate, rng: random.Random, exact: bool) -> Candidate:
    a, b = left.value, right.value
    divides = b != 0 and (not exact or a % b == 0)
    operator = "+-*/"[int(rng.random() * (4 if divides else 3))]
    value = a + b if operator == "+" else a - b if operator == "-" else a * b if operator == "*" else a / b
    return Candidate(f"({left.text} {operator} {right.text})", value)
