"""The words that lessons draw from, and how numbers are written."""

from __future__ import annotations

from fractions import Fraction

from rlx.env.calc.numerals import NUMERALS
from rlx.env.questions.known_names import COUNTRIES, NAMES, SCHOOLS, TITLES, TOWNS
from scripts.nano.skills.lesson import split_words

PLACES = split_words("kitchen garden office school park library market station museum cellar attic harbour")
THINGS = split_words("apple book lamp coin cup shoe map pen hat stone clock rope bell drum leaf")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
OBJECTS = ("ball", "box", "key", "door")
ANIMALS = split_words("cat dog bird fish horse cow sheep fox bear mouse")
FRUITS = split_words("pear plum cherry grape lemon peach melon fig")
KINDS: dict[str, tuple[str, ...]] = {
    "animal": ANIMALS,
    "colour": COLOURS,
    "place": PLACES,
    "thing": THINGS,
    "fruit": FRUITS,
}
WORDS = (
    *split_words("sun moon tree river house road hand eye time day night water fire earth wind snow"),
    *split_words("compare swap calculate search access answer left right forward open close give take go stop turn"),
    *split_words("one two three four five six seven eight nine ten small large long short old new first last"),
    *OBJECTS,
    *(word for kind in KINDS.values() for word in kind),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CAPITALS = LETTERS.upper()


def show_number(value: Fraction | int) -> str:
    """An integer as it is, anything else to at most three decimals."""
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else f"{float(exact):.3f}".rstrip("0").rstrip(".")


def show_count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def atomic_words() -> tuple[str, ...]:
    """Return the words of one token each, in any place, so that a model reads and copies the variable words of a phrase
    whole."""
    proper = (*NAMES, *TOWNS, *COUNTRIES, *SCHOOLS, *(word for title in TITLES for word in title.split()[1:]))
    return tuple(dict.fromkeys((*WORDS, *NUMERALS, *proper, *CAPITALS.replace("I", ""))))
