"""Whole numbers and signs in words, both ways. The embedded model was trained on these words: they do not change."""

from __future__ import annotations

UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMERALS = (*UNITS, *filter(None, TENS), "hundred", "thousand")

SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
"""Names of the signs in spoken English."""


def say_number(value: int) -> str:
    """English for 0 to 999,999: `three hundred forty-two`."""
    if value >= 1000:
        rest = value % 1000
        return f"{say_number(value // 1000)} thousand" + (f" {say_number(rest)}" if rest else "")
    if value >= 100:
        rest = value % 100
        return f"{UNITS[value // 100]} hundred" + (f" {say_number(rest)}" if rest else "")
    if value < 20:
        return UNITS[value]
    return TENS[value // 10] + (f"-{UNITS[value % 10]}" if value % 10 else "")


def hear_number(text: str) -> int:
    """The inverse of `say_number`."""
    total, part = 0, 0
    for word in text.replace("-", " ").split():
        if word == "thousand":
            total, part = total + 1000 * part, 0
        elif word == "hundred":
            part *= 100
        elif word in UNITS:
            part += UNITS.index(word)
        else:
            part += 10 * TENS.index(word)
    return total + part
