r"""Short formulas as sympy's expressions, read by a grammar of their own: sympy's parser evaluates what it is given.

sum      term (+|- term)*          power    atom !* (^ unary)?
term     unary ((*|/)? unary)*     atom     number | letter | pi | sqrt(sum) | (sum)
unary    - unary | power
"""

from __future__ import annotations

import re
from typing import Any

import sympy

TOKEN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+|sqrt|pi|[a-z]|\*\*|[-+*/^!()])", re.ASCII)
LONGEST = 200
"""Length of a formula that is read."""
DEEPEST = 30


class FormulaError(ValueError):
    """A text that is no formula of this grammar."""


class Reader:
    """A formula on its way from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens, position, text = [], 0, text.strip()
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None or len(text) > LONGEST:
                raise FormulaError(text[:80])
            self.tokens.append(match[1])
            position = match.end()
        self.tokens.append("")
        self.position = self.depth = 0

    @property
    def token(self) -> str:
        return self.tokens[self.position]

    def take(self, *tokens: str) -> str:
        """Move past the next token and return it if it is in `tokens`; else return an empty text."""
        if self.token not in tokens or not self.token:
            return ""
        self.position += 1
        return self.tokens[self.position - 1]

    def read_all(self) -> Any:
        value = self.sum()
        if self.token:
            raise FormulaError(self.token)
        return value

    def sum(self) -> Any:
        value = self.term()
        while sign := self.take("+", "-"):
            value = value + self.term() if sign == "+" else value - self.term()
        return value

    def term(self) -> Any:
        value = self.unary()
        while self.token and self.token not in "+-)!^**":
            sign = self.take("*", "/")
            value = value / self.unary() if sign == "/" else value * self.unary()
        return value

    def unary(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise FormulaError("too deep")
        sign = self.take("-", "+")
        value = self.power() if not sign else -self.unary() if sign == "-" else self.unary()
        self.depth -= 1
        return value

    def power(self) -> Any:
        value = self.atom()
        while self.take("!"):
            value = sympy.factorial(value)
        return value ** self.unary() if self.take("^", "**") else value

    def atom(self) -> Any:
        token = self.token
        self.position += 1
        if token == "pi":
            return sympy.pi
        if token == "sqrt":
            return sympy.sqrt(self.atom())
        if token == "(":
            value = self.sum()
            if not self.take(")"):
                raise FormulaError("not closed")
            return value
        if not token or token in "-+*/^!)**":
            raise FormulaError(token)
        return sympy.Symbol(token) if token.isalpha() else sympy.Rational(token)


def is_zero(text: str) -> bool:
    """True if a formula is read and simplifies to 0."""
    try:
        return bool(sympy.simplify(Reader(text).read_all()) == 0)
    except (FormulaError, ArithmeticError, TypeError, RecursionError, AttributeError):
        return False
