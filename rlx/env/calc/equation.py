r"""Read a Countdown answer as models write it, and compare it with the numbers and the target.

    So **The answer is $44 + 19 + 35$.**     44 + 19 + 35                  the last calculation of the answer
    98 = \boxed{44 + 19 + 35}                98 = 44 + 19 + 35             an equation is one calculation
    44 + 19 + 35 = 63 + 35 = 99              wrong: 99 is not the target

Only regular expressions that take linear time and the parser of `rlx.tool.arithmetic` see the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rlx.env.calc.answer_lines import answer_lines
from rlx.env.countdown.expression import MAX_CHARACTERS, MAX_DEPTH, verify
from rlx.tool.arithmetic import WrongExpressionError, parse, tokenize

DECIMAL = re.compile(r" *(?:(\d+(?:\.\d+)?)|([-+*/()]))", re.ASCII)
LIST_MARK = re.compile(r"\d{1,2}[.)] ", re.ASCII)
CALCULATION = re.compile(r"(?:[-+*/()= ]|\d+(?:\.\d+)?)+", re.ASCII)
OPERATION = re.compile(r"\d[ )]*[-+*/][ (+-]*\.?\d", re.ASCII)
OTHER_SIGNS = frozenset("^%&|~<>≠≈≤≥±√∛∜\\")
"""Signs that give a calculation beside them another meaning."""


def solves(text: str, numbers: Sequence[int], target: Fraction) -> bool:
    """Return whether the answer in `text` is an expression of each number exactly once whose value is the target.

    Of an equation, one side must be such an expression, and each other side must have the target as its value. An empty
    first or last side (`44 + 19 + 35 =`) says nothing.
    """
    sides = [side.strip() for side in re.split("={1,2}", find_calculation(text))]
    sides = sides[not sides[0] :]
    sides = sides if not sides or sides[-1] else sides[:-1]
    return any(verify(side, numbers, target) for side in sides) and all(value_of(side) == target for side in sides)


def value_of(side: str) -> Fraction | None:
    """Return the exact value of an expression; None where it has none."""
    try:
        return Fraction(parse(tokenize(side, DECIMAL, MAX_CHARACTERS), MAX_DEPTH, Fraction))
    except (WrongExpressionError, ZeroDivisionError):
        return None


def find_calculation(text: str) -> str:
    """Return the last calculation of the answer, an equation as a whole; empty where there is none.

    A calculation that touches a word, or that another sign follows (`44 + 19^2`, `98 ≠ 44 + 19`), is none.
    """
    for line in reversed(answer_lines(text)):
        mark = LIST_MARK.match(line)
        content = line[mark.end() :] if mark else line
        for match in reversed([*CALCULATION.finditer(content)]):
            if OPERATION.search(match[0]):
                start = match.end() - len(match[0].lstrip(") "))
                stop = match.start() + len(match[0].rstrip("( "))
                return content[start:stop] if stands_alone(content, start, stop) else ""
    return ""


def stands_alone(line: str, start: int, stop: int) -> bool:
    """Return whether neither neighbour of `line[start:stop]` changes what it means."""
    before, after = line[:start], line[stop:]
    touching = (before[-1:], after[:1])
    near = (before.rstrip()[-1:], after.lstrip()[:1])
    if after.lstrip().startswith("!") or re.match(r"\.\d", after) or before.endswith("."):
        return False
    return not any(char.isalnum() or char == "_" for char in touching) and not any(
        char in OTHER_SIGNS or (char.isnumeric() and not char.isascii()) for char in near
    )
