"""Reject answers with unfinished operations before math-verify, which would compute the operations.

    key 3        3, 3.0, x = 3, 3\\text{ cm}^2          1+2, 6/2, \\leq 3, 3=3, [3,3]
    key 1/2      \\frac{1}{2}, 0.5, 2/4                 1-1/2, 2^{-1}
    key 2\\sqrt{3} \\sqrt{12}, 2 \\sqrt{3}                 \\sqrt{3}+\\sqrt{3}
    key x+1      1+x                                  (x^2-1)/(x-1)

An answer to a constant may have as many operations of a kind as a key has; an answer with variables the same kinds. A
reduced fraction, a mixed number and scientific notation are numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

IGNORED = re.compile(
    r"\\(?:text|mathrm|mbox|operatorname|textbf)\s*\{[^{}]*\}\s*(?:\^\s*(?:\{\s*-?\d\s*\}|\d))?"
    r"|\^\s*\{?\s*\\circ\s*\}?|\\(?:left|right|displaystyle|boxed|,|;|!|:|quad|qquad)(?![A-Za-z])|\\%|[$%°~]"
)
"""Units, degrees, spaces and sizes, which are no operations."""
SMALL_FRACTION = re.compile(r"\\[dtc]?frac\s*(\d)\s*(\d)")
ASSIGNED = re.compile(r"^\s*\\?[A-Za-z]\w*(?:\([A-Za-z]\))?\s*=(?!=)")
"""A variable or a function that the answer is said to be the value of."""
THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,)(?=\d{3}(?!\d))")
INTEGER = r"\s*([+-]?\s*\d+)\s*"
FRACTION = re.compile(rf"^\s*([+-]?)\s*(?:\\[dtc]?frac\s*\{{{INTEGER}\}}\s*\{{{INTEGER}\}}|{INTEGER}/{INTEGER})\s*$")
MIXED = re.compile(r"^\s*[+-]?\s*\d+\s*(?:\\[dtc]?frac\s*\{\s*\d+\s*\}\s*\{\s*\d+\s*\}|\s\d+\s*/\s*\d+)\s*$")
SCIENTIFIC = re.compile(
    r"^\s*[+-]?\s*\d+(?:\.\d+)?\s*(?:(?:\\times|\\cdot|\*|×)\s*10\s*(?:\^|\*\*)\s*(?:\{\s*[+-]?\d+\s*\}|\(\s*[+-]?\d+\s*\)|[+-]?\d+)"
    r"|[eE][+-]?\d+)\s*$"
)
OPERATIONS = {
    "fraction": re.compile(r"\\[dtc]?frac|/|\\div(?![A-Za-z])|÷|\\over(?![A-Za-z])"),
    "product": re.compile(r"(?<!\*)\*(?!\*)|\\times|\\cdot|×|·|(?<=\d)\)?\s*\(\s*-?\d|\)\s*\(\s*-?\d+\s*\)"),
    "power": re.compile(r"\^|\*\*|[⁰¹²³⁴-⁹]"),
    "root": re.compile(r"\\sqrt|√|sqrt(?=\()"),
    "factorial": re.compile(r"!|\\d?binom|\\choose"),
    "relation": re.compile(r"[=<>≤≥≠]|\\(?:l|g|n)eq?q?(?![A-Za-z])|\\(?:in|to|approx|equiv|sim|pm|mp)(?![A-Za-z])|±"),
    "several": re.compile(r"[,;]|\\cup|\\cap|\\setminus|\\(?:begin|end|\\)|[\[\]]|\\[{}]|∪|∩"),
    "function": re.compile(
        r"\\?(?:log|ln|exp|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|gcd|lcm|max|min|mod)(?![A-Za-z])"
        r"|\\(?:sum|prod|int|lim|bmod|pmod|lfloor|lceil|binom)|\|"
    ),
}
SUM = re.compile(r"(?<=[\w)}\]!])\s*(?:[+-]|\\pm|−)")
"""A sign between two terms; a sign in front of a number is part of it."""
EXPONENT = re.compile(r"(?<=[\^_])\s*\{\s*[+-]?\s*\w+\s*\}")
VARIABLE = re.compile(r"(?<![A-Za-z\\])[A-DF-HJ-Za-df-hj-z](?![A-Za-z])")
"""A single letter, other than e and i."""
FUNCTIONS = re.compile(r"\\[A-Za-z]+")


def is_worked(text: str, keys: Iterable[str]) -> bool:
    """Tell whether an answer has no operation that no key has."""
    expression = strip(text)
    return is_number(expression) or any(has_no_more(expression, strip(key)) for key in keys)


def strip(text: str) -> str:
    """Remove what stands around an answer and is no operation."""
    text = SMALL_FRACTION.sub(r"\\frac{\1}{\2}", IGNORED.sub(" ", text))
    return THOUSANDS.sub("", ASSIGNED.sub("", text)).strip().rstrip(".")


def is_number(text: str) -> bool:
    """Tell whether a text is written as a number: with no operation, or a fraction that cannot be reduced."""
    fraction = FRACTION.match(text)
    if fraction:
        above, below = (int(part.replace(" ", "")) for part in fraction.groups()[1:] if part is not None)
        return below > 1 and Fraction(above, below).denominator == below
    return bool(MIXED.match(text) or SCIENTIFIC.match(text)) or not count_operations(text)


def has_no_more(text: str, key: str) -> bool:
    """Compare operations by number, or by kind if the key has variables."""
    ours, theirs = count_operations(text), count_operations(key)
    if VARIABLE.search(FUNCTIONS.sub(" ", key)):
        return ours.keys() <= theirs.keys()
    return all(number <= theirs[kind] for kind, number in ours.items())


def count_operations(text: str) -> Counter[str]:
    """Count operations by their kinds."""
    counts = Counter({kind: len(pattern.findall(text)) for kind, pattern in OPERATIONS.items()})
    counts["sum"] = len(SUM.findall(EXPONENT.sub(" ", text)))
    return +counts
