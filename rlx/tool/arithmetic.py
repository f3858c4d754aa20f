"""Arithmetic on + - * / and parentheses, read token by token: no text is ever given to an interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}

Value = int | float | Fraction


class WrongExpressionError(ValueError):
    """The text is not arithmetic; the message says why."""


def tokenize(text: str, token: re.Pattern[str], longest: int) -> list[str]:
    """Split arithmetic into numbers (first group of `token`) and signs (second group)."""
    text = text.strip()
    if len(text) > longest:
        raise WrongExpressionError("too long")
    tokens, position = [], 0
    while position < len(text):
        match = token.match(text, position)
        if match is None:
            raise WrongExpressionError("not arithmetic")
        tokens.append(match[1] or match[2])
        position = match.end()
    return tokens


def parse(tokens: list[str], depth: int, read: Callable[[str], Value]) -> Value:
    """The value of an expression, whose numbers `read` reads; WrongExpressionError or ZeroDivisionError."""
    tokens = tokens[::-1]
    value = climb(tokens, 1, depth, read)
    if tokens:
        raise WrongExpressionError("text is left over")
    return value


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
    if token[-1].isdigit():
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
