r"""Read a Countdown answer as models write it, and compare it with the numbers and the target.

    So **The answer is $44 + 19 + 35$.**     44 + 19 + 35                  the last calculation of the last line
    98 = \boxed{44 + 19 + 35}                98 = 44 + 19 + 35             marks are removed, the text in them stays
    44 + 19 + 35 = 63 + 35 = 99              wrong: 99 is not the target

Only regular expressions that take linear time and the parser of `rlx.tool.arithmetic` see the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rlx.env.countdown.expression import MAX_CHARACTERS, MAX_DEPTH, verify
from rlx.tool.arithmetic import WrongExpressionError, parse, tokenize

DECIMAL = re.compile(r" *(?:(\d+(?:\.\d+)?)|([-+*/()]))", re.ASCII)
ENDS = re.compile(r"</answer>|\\(?:boxed|fbox) *\{[^}]*\}")
"""Marks of a final answer: the lines after the last one are not read."""
FRACTION = re.compile(r"\\[dt]?frac *\{([^{}]*)\} *\{([^{}]*)\}")
MOST_FRACTIONS = 8
"""Levels of nested LaTeX fractions that are read. Each level is one more pass over the text."""
BOLD = re.compile(r"(?<![\d)])\*\*|\*\*(?![\d(])")
"""`**` for bold text. Between two operands it stays, so that a power is no product."""
REPLACED = (
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·⋅∗]"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|[÷∕]"), "/"),
    (re.compile(r"[\u2212\u2013]"), "-"),
    (re.compile(r"\\(?:left|right|boxed|fbox|text|mathrm|mathbf)(?![A-Za-z])|\\[\[\]()$]|[{}$`]"), ""),
    (re.compile(r"\\(?:[,;:! ]|q?quad(?![A-Za-z]))"), " "),
    (re.compile(r"</?[A-Za-z][^<>\n]*>"), " ; "),
    (BOLD, ""),
    (re.compile(r"(?<!\d)(\d{1,3})((?:,\d{3})+)(?![\d,])", re.ASCII), lambda found: found[0].replace(",", "")),
    (re.compile(r"\b(?:which )?(?:equals|is equal to)\b"), "="),
)
HEADING = re.compile(r"[>#* ]+")
"""Marks of Markdown before a line. No calculation begins with one."""
CALCULATION = re.compile(r"(?:[-+*/()= ]|\d+(?:\.\d+)?)+", re.ASCII)
OPERATION = re.compile(r"\d[ )]*[-+*/][ (+-]*\d", re.ASCII)
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
    """Return the last calculation of the answer's last line, an equation as a whole; empty where there is none.

    A calculation that touches a word, or that another sign follows (`44 + 19^2`, `98 ≠ 44 + 19`), is none.
    """
    line = last_line(text)
    for found in reversed([*CALCULATION.finditer(line)]):
        if OPERATION.search(found[0]):
            start = found.end() - len(found[0].lstrip(") "))
            stop = found.start() + len(found[0].rstrip("( "))
            return line[start:stop] if stands_alone(line, start, stop) else ""
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


def last_line(text: str) -> str:
    """Return the last line that has a letter or digit, without marks. Lines after a final mark do not count."""
    end = max((mark.end() for mark in ENDS.finditer(text)), default=len(text))
    stop = text.find("\n", end)
    plain = text if stop < 0 else text[:stop]
    for _ in range(MOST_FRACTIONS):
        plain = FRACTION.sub(r"((\1)/(\2))", plain)
    for pattern, mark in REPLACED:
        plain = pattern.sub(mark, plain)
    lines = [" ".join(line.split()) for line in plain.splitlines()]
    line = next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")
    heading = HEADING.match(line)
    return line[heading.end() :] if heading else line
