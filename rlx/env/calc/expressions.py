"""Expressions that are drawn: with few parentheses, a value that three decimals write exactly, and said in words.

12 + 5 * (3 - 1)      twelve plus 5 times (three minus 1)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from rlx.base.limits import within
from rlx.env.calc.numerals import SPOKEN, hear_number, say_number
from rlx.tool.arithmetic import parse, tokenize
from rlx.tool.calculator import NESTING, TOKEN

BOUND = 10**9
"""Values are below it."""
NESTED = 2
"""Parentheses within each other, at most."""
LONGEST = 500
MOST_DIGITS = 6
"""Number of digits that a number may have."""
WORDS = re.compile(r"[a-z]+(?:[ -][a-z]+)*")


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Distribution of expressions."""

    digits: int
    """Largest number of digits of an operand; all lengths are equally likely."""
    parentheses: float = 0.3
    """Probability that a part of an expression is in parentheses."""
    places: int = 3
    """Decimals that write a value exactly."""

    def __post_init__(self) -> None:
        within(1, MOST_DIGITS, digits=self.digits)
        within(0.0, 1.0, parentheses=self.parentheses)
        within(0, 3, places=self.places)

    def expression(self, rng: Random, num_operations: int) -> tuple[str, Fraction]:
        """One with its value. Signs are drawn evenly, and so is which of them comes last; then those go whose value is
        none of `places`, or too large."""
        while True:
            text = self.grow(rng, num_operations, NESTED, 0.0)
            value = value_of(text)
            if value is not None and abs(value) < BOUND and (value * 10**self.places).denominator == 1:
                return text, value

    def grow(self, rng: Random, num: int, nested: int, parentheses: float) -> str:
        if num == 0:
            return str(self.number(rng))
        inside = nested > 0 and rng.random() < parentheses
        before, sign = rng.randrange(num), rng.choice("+-*/")
        if num == 1 and sign == "/":
            text = self.quotient(rng)
        else:
            parts = (self.grow(rng, part, nested - inside, self.parentheses) for part in (before, num - 1 - before))
            text = f" {sign} ".join(parts)
        return f"({text})" if inside else text

    def number(self, rng: Random) -> int:
        return rng.randint(1, 10 ** rng.randint(1, self.digits) - 1)

    def quotient(self, rng: Random) -> str:
        """Draw a division without a remainder: otherwise hardly any drawn division would be valid."""
        below = min(self.number(rng) for _ in "ab")
        return f"{below * rng.randint(1, (10**self.digits - 1) // below)} / {below}"


def value_of(text: str) -> Fraction | None:
    """Compute the value; None if the expression divides by zero."""
    try:
        return Fraction(parse(tokenize(text, TOKEN, LONGEST), NESTING, Fraction))
    except ZeroDivisionError:
        return None


def speak(text: str, rng: Random) -> str:
    """Signs in words, and of the numbers about half."""
    parts = [SPOKEN.get(part) or re.sub(r"\d+", lambda n: say_or_write(n[0], rng), part) for part in text.split()]
    return " ".join(parts)


def say_or_write(number: str, rng: Random) -> str:
    return say_number(int(number)) if rng.random() < 0.5 else number


def hear(text: str) -> str:
    """The inverse of `speak`."""
    for sign, word in SPOKEN.items():
        text = text.replace(f" {word} ", f" {sign} ")
    return WORDS.sub(lambda words: str(hear_number(words[0])), text)
