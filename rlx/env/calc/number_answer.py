r"""Read a number as models write it in an answer, exactly.

    The answer is \boxed{1{,}250}.     1250             the last number, of the last <answer> or \boxed{}
    98 = 44 + 54                       98               a number before a sum that is worth it
    44 + 54                            none             a sum is not worked out
    −3.5,  minus 3.5,  -\frac{7}{2}    -3.5             a fraction counts in lowest terms, so that no division does

Only regular expressions that take linear time and the parser of `rlx.tool.arithmetic` see the text.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import gcd

from rlx.base.fences import last_between
from rlx.env.calc.answer_lines import answer_lines
from rlx.env.calc.equation import OPERATION, value_of
from rlx.protocol.boxed import last_box

SAID_MINUS = re.compile(r"\b(?:minus|negative) (?=[\d.])", re.IGNORECASE)
SUM = re.compile(r"(?:[-+*/()= ]|\d*\.?\d+)+", re.ASCII)
"""Numbers and signs that nothing else parts."""
NUMBER = re.compile(r"(?<![\d.])(\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})(?![\d.])", re.ASCII)
RATIO = re.compile(r"([-+]?)(\d{1,40})/(\d{1,40})", re.ASCII)
CHANGED = re.compile(r"\^ *[-+]?\d|[eE][-+]?\d", re.ASCII)
"""A power or an exponent, which makes another number of the digits before it."""


def number_in(text: str) -> Fraction | None:
    """Return the last number of an answer; None where there is none, or a sum in its place."""
    for line in reversed(answer_lines(marked(text))):
        signed_line = SAID_MINUS.sub("-", line)
        for match in reversed([*SUM.finditer(signed_line)]):
            if NUMBER.search(match[0]) and not is_in_a_word(signed_line, match.start()):
                return None if is_changed(signed_line, match) else worth(match[0], signed_line[: match.start()])
    return None


def marked(text: str) -> str:
    r"""Return what the last <answer> holds, else what the last \boxed{} does, else all of a text."""
    answer = last_between(text, "<answer>", "</answer>")
    box = last_box(text) if answer is None else answer
    return text if box is None else box


def is_in_a_word(line: str, start: int) -> bool:
    """Tell whether a letter touches these digits, as in `H2O`."""
    before = line[max(0, start - 1) : start]
    return line[start].isdigit() and (before.isalpha() or before == "_")


def is_changed(line: str, match: re.Match[str]) -> bool:
    """Tell whether a neighbour makes another number of these digits."""
    before, after = line[max(0, match.start() - 1) : match.start()], line[match.end() : match.end() + 1]
    is_raised = after.isnumeric() and not after.isascii()
    return before in tuple("^√∛∜") or is_raised or CHANGED.match(line, match.end()) is not None


def worth(sums: str, before: str) -> Fraction | None:
    """Return the number that an equation, a number or a fraction says; `before` is what stands before it."""
    sides = [side for side in sums.split("=") if NUMBER.search(side)]
    last = sides[-1]
    if not OPERATION.search(last):
        return signed(last, "" if len(sides) > 1 else before)
    first = signed(sides[0], before) if len(sides) > 1 and not OPERATION.search(sides[0]) else None
    return first if first is not None and value_of(last.strip()) == first else ratio(last)


def signed(side: str, before: str) -> Fraction | None:
    """Return the last number of a side with its sign. A sign apart from it after a word is a dash."""
    number = [*NUMBER.finditer(side)][-1]
    signs = side[: number.start()].replace("(", "")
    signs = signs[len(signs.rstrip("-+ ")) :]
    if len(signs.replace(" ", "")) > 1:
        return None
    is_dash = signs.endswith(" ") and before.rstrip()[-1:] not in ("", ":", "(", ",", ";")
    return Fraction(number[0]) * (-1 if "-" in signs and not is_dash else 1)


def ratio(side: str) -> Fraction | None:
    """Return a fraction in lowest terms that is no whole number."""
    match = RATIO.fullmatch(re.sub(r"[() ]", "", side))
    if match is None:
        return None
    above, below = int(match[2]), int(match[3])
    return Fraction(int(f"{match[1]}{above}"), below) if below > 1 and gcd(above, below) == 1 else None
