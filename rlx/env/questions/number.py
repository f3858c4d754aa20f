"""Numbers as answers write them, exactly: `1,250`, `-0.5`, `3/4`, `\\frac{3}{4}`, `$12`, `25%` as a quarter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import islice
from random import Random

PLAIN = re.compile(r"([-+]?)\$?(\d{1,40}|\d{1,3}(?:,\d{3}){1,12})?(\.\d{1,40})?(%?)", re.ASCII)
MOST = 64
"""Numbers of a problem that random tries take two of: a long one has so many pairs that no memory holds them."""
RATIO = re.compile(r"([-+]?\d{1,40})/(\d{1,40})", re.ASCII)
LATEX = re.compile(r"([-+]?)\\[dt]?frac\{([-+]?\d{1,40})\}\{(\d{1,40})\}", re.ASCII)
NOTHING = re.compile(r"\\[,;!]|[\s\u00a0]|(?<!\\)\$$|^\\(?=\$)|\\(?=%)")
"""Blanks, and what shields a sign of money or of percent."""


def read_number(text: str) -> Fraction | None:
    """The number that it is; None for anything else, whatever a host's own parser would take."""
    if len(text) > 200:
        return None
    number_text = NOTHING.sub("", text).removesuffix(".")
    if ratio := RATIO.fullmatch(number_text):
        return divide(int(ratio[1]), int(ratio[2]))
    if latex := LATEX.fullmatch(number_text):
        return divide(int(latex[1] + "1") * int(latex[2]), int(latex[3]))
    plain = PLAIN.fullmatch(number_text)
    if plain is None or not (plain[2] or plain[3]):
        return None
    sign, integer, part, percent = plain.groups(default="")
    return Fraction(f"{sign}{integer.replace(',', '') or 0}{part}") / (100 if percent else 1)


def divide(above: int, below: int) -> Fraction | None:
    return Fraction(above, below) if below else None


def write_number(number: Fraction | int) -> str:
    """Write a number as an answer: an integer, a decimal if at most six places are exact, or a ratio."""
    value = Fraction(number)
    places = next((places for places in range(7) if (value * 10**places).denominator == 1), None)
    if places is None:
        return f"{value.numerator}/{value.denominator}"
    digits = f"{abs(int(value * 10**places)):0{places + 1}d}"
    point = len(digits) - places
    return "-" * (value < 0) + (f"{digits[:point]}.{digits[point:]}" if places else digits)


def one_operation(numbers: Iterable[int], num: int, rng: Random) -> list[str]:
    """At random, distinct results of one operation on two of the first `MOST` numbers (fewer, if there are no more)."""
    some = list(islice(dict.fromkeys(numbers), MOST))
    results = {value for a in some for b in some for value in (a + b, abs(a - b), a * b, a // (b or 1))}
    return [str(value) for value in rng.sample(sorted(results), min(num, len(results)))]
