"""A calculator for an agent: exact arithmetic on + - * / and parentheses, typed as text or pressed button by button.

    (12 + 5) / 4 =    4.250            an integer is shown as it is, anything else with three decimals
    7 / 0 =           Error: division by zero

The buttons are those of Yue et al. 2025, "Expanding the Action Space of LLMs to Reason Beyond Language". An expression
begins with 1 to 9 or a parenthesis, and no 0 follows an operator or a parenthesis. `=` needs every parenthesis closed
and a digit or `)` before it. Unlike there, a number has one decimal point at most. So whatever can be pressed can be
read, and has a value or an error that says why not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from rlx.base.buttons import Buttons
from rlx.base.limits import within
from rlx.tool.arithmetic import WrongExpressionError, parse, tokenize
from rlx.tool.tool import Result
from rlx.types import Verb

TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|([-+*/()]))", re.ASCII)
OPERATORS = (" + ", " - ", " * ", " / ")
EQUALS = " = "
DEEPEST = 8
"""Largest depth of parentheses that a configuration may ask for."""
NESTING = 40
"""Largest depth of expressions that are read. A parenthesis takes at most three: one for itself and two for the
operators before it."""
LARGEST = 10**9
"""Largest number that is shown."""


@dataclass(frozen=True, kw_only=True)
class Calculator:
    """The tool. It keeps nothing from call to call, and is safe to call from several threads."""

    max_length: int = 64
    """Digits, points, operators, parentheses and the `=` of an expression, together: buttons that are pressed."""
    max_depth: int = 3
    """Depth of nested parentheses on the calculator's buttons."""
    points: bool = True
    """Add a button for the decimal point."""

    def __post_init__(self) -> None:
        within(2, 200, max_length=self.max_length)
        within(0, DEEPEST, max_depth=self.max_depth)

    @cached_property
    def verb(self) -> Verb:
        buttons = draw_buttons(self.max_length, self.max_depth, self.points)
        return Verb(
            name="calculate", description="do arithmetic with + - * / ( )", argument="expression", buttons=buttons
        )

    def run(self, text: str) -> Result:
        """Return the text that the display shows for an expression, with or without its `=`. No text raises an
        exception."""
        try:
            return Result(output=show(self.value(text)))
        except WrongExpressionError as error:
            return Result(output=f"Error: {error}", failed=True)
        except ZeroDivisionError:
            return Result(output="Error: division by zero", failed=True)

    def value(self, text: str) -> Fraction:
        """Exactly; a WrongExpressionError or ZeroDivisionError where there is none."""
        if len("".join(text.split())) > self.max_length:
            raise WrongExpressionError(f"longer than {self.max_length} characters")
        tokens = tokenize(" ".join(text.split()).removesuffix("="), TOKEN, 2 * self.max_length)
        if not tokens:
            raise WrongExpressionError("there is nothing to calculate")
        value = Fraction(parse(tokens, NESTING, Fraction))
        if abs(value) > LARGEST:
            raise WrongExpressionError(f"the value is beyond {LARGEST}")
        return value


def show(value: Fraction) -> str:
    """An integer, or three decimals, of which the last is rounded to the nearest, to the even one of two."""
    if value.denominator == 1:
        return str(value.numerator)
    integer, part = divmod(round(abs(value) * 1000), 1000)
    return f"{'-' * (value < 0)}{integer}.{part:03d}"


# Buttons.


class ButtonState(NamedTuple):
    """Place in an expression: a state of the buttons' automaton."""

    after: Literal["sign", "whole", "point", "decimal", "close"]
    """Last button: an operator, `(` or nothing; a digit before the point; the point; one after it; `)`."""
    depth: int
    """Parentheses that are open."""
    left: int
    """Buttons that may still be pressed, with `=`."""

    @property
    def needed(self) -> int:
        """Fewest buttons that complete the expression: a digit where one must come, each `)`, and `=`."""
        return (self.after in ("sign", "point")) + self.depth + 1


@lru_cache(maxsize=16)
def draw_buttons(max_length: int, max_depth: int, points: bool) -> Buttons:
    """Return the automaton. A state is the last button (five kinds), the number of open parentheses and the number of
    buttons left. So there are at most 5 (max_depth + 1) max_length of them: 1,117 of 1,280 by default. Without the
    third, no length would be bounded, and an expression that a turn's end cuts is lost."""
    numbers = {ButtonState("sign", 0, max_length): 0}
    states: list[dict[str, int | None]] = []
    waiting = list(numbers)
    for place in waiting:
        state: dict[str, int | None] = {}
        for name, target in pressable(place, max_depth, points):
            if target is not None and target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
            state[name] = None if target is None else numbers[target]
        states.append(state)
    return Buttons(states=tuple(states))


def pressable(place: ButtonState, max_depth: int, points: bool) -> Iterator[tuple[str, ButtonState | None]]:
    """Buttons, each with where it leads: only where the expression can still be made whole."""
    for name, target in reachable(place, max_depth, points):
        if target is None or target.needed <= target.left:
            yield name, target


def reachable(place: ButtonState, max_depth: int, points: bool) -> Iterator[tuple[str, ButtonState | None]]:
    after, depth, left = place.after, place.depth, place.left - 1
    if after == "sign":
        yield from ((digit, ButtonState("whole", depth, left)) for digit in "123456789")
        if depth < max_depth:
            yield "(", ButtonState("sign", depth + 1, left)
        return
    if after != "close":
        yield from (
            (digit, ButtonState("whole" if after == "whole" else "decimal", depth, left)) for digit in "0123456789"
        )
    if after == "point":
        return
    if after == "whole" and points:
        yield ".", ButtonState("point", depth, left)
    yield from ((operator, ButtonState("sign", depth, left)) for operator in OPERATORS)
    yield (")", ButtonState("close", depth - 1, left)) if depth else (EQUALS, None)
