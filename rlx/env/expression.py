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

MAX_CHARACTERS = 500
MAX_DEPTH = 40
TOKEN = re.compile(r"\s*(?:(0|[1-9][0-9]*)|([-+*/()]))")
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}

Value = int | float | Fraction


class WrongExpressionError(ValueError):
    """The text is not arithmetic on the given numbers."""


def verify(text: str, numbers: Sequence[int], target: int) -> bool:
    """Whether `text` uses each number exactly once and equals `target` exactly.

    Strict: + - * / , parentheses, signs and white space; no `= 98`, no ×, no decimals, no leading zeros, no powers.
    Any text is answered in bounded time and without an exception; division by zero is wrong.
    """
    try:
        return evaluate(text, numbers, Fraction) == target
    except (WrongExpressionError, ZeroDivisionError):
        return False


def compute(text: str, numbers: Sequence[int]) -> int | float:
    """What Python computes for `text`, operation for operation: integers exactly, after any division a float."""
    value = evaluate(text, numbers, int)
    assert not isinstance(value, Fraction)
    return value


def evaluate(text: str, numbers: Sequence[int], read: Callable[[str], Value]) -> Value:
    """The value of `text`; WrongExpressionError if malformed or not on these numbers, or ZeroDivisionError."""
    tokens = tokenize(text)
    if sorted(int(token) for token in tokens if token.isdigit()) != sorted(numbers):
        raise WrongExpressionError("each number must be used exactly once")
    tokens.reverse()
    value = climb(tokens, 1, MAX_DEPTH, read)
    if tokens:
        raise WrongExpressionError("text is left over")
    return value


def tokenize(text: str) -> list[str]:
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        raise WrongExpressionError("too long")
    tokens, position = [], 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise WrongExpressionError("not arithmetic")
        tokens.append(match[1] or match[2])
        position = match.end()
    return tokens


def climb(tokens: list[str], lowest: int, depth: int, read: Callable[[str], Value]) -> Value:
    """Precedence climbing over `tokens`, which is reversed and used up from its end."""
    value = operand(tokens, depth, read)
    while tokens and PRECEDENCE.get(tokens[-1], 0) >= lowest:
        operator = tokens.pop()
        value = apply(operator, value, climb(tokens, PRECEDENCE[operator] + 1, depth - 1, read))
    return value


def operand(tokens: list[str], depth: int, read: Callable[[str], Value]) -> Value:
    if not tokens or depth <= 0:
        raise WrongExpressionError("an operand is missing, or the nesting is too deep")
    token = tokens.pop()
    if token.isdigit():
        return read(token)
    if token in "+-":
        value = operand(tokens, depth - 1, read)
        return -value if token == "-" else value
    if token != "(":
        raise WrongExpressionError("an operand is missing")
    value = climb(tokens, 1, depth - 1, read)
    if not tokens or tokens.pop() != ")":
        raise WrongExpressionError("a parenthesis is open")
    return value


def apply(operator: str, left: Value, right: Value) -> Value:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    return left * right if operator == "*" else left / right


class Candidate(NamedTuple):
    """An expression and what Python computes for it."""

    text: str
    value: int | float


def random_candidate(numbers: Sequence[int], rng: random.Random, whole: bool = False) -> Candidate:
    """A random expression that uses each number once and never divides by zero, nor, if `whole`, with a rest."""
    parts = [Candidate(str(number), number) for number in numbers]
    while len(parts) > 1:
        left, right = (parts.pop(int(rng.random() * len(parts))) for _ in range(2))
        parts.append(join(left, right, rng, whole))
    return parts[0]


def join(left: Candidate, right: Candidate, rng: random.Random, whole: bool) -> Candidate:
    a, b = left.value, right.value
    divides = b != 0 and (not whole or a % b == 0)
    operator = "+-*/"[int(rng.random() * (4 if divides else 3))]
    value = a + b if operator == "+" else a - b if operator == "-" else a * b if operator == "*" else a / b
    return Candidate(f"({left.text} {operator} {right.text})", value)
