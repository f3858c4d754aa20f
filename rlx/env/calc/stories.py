"""Stories of GSM8K*: sentence templates in stories.txt beside this file, a line each, in two splits.

    a + b; #1 - c | a = c + k | A library owned {a} books. It bought {b} more and then gave {c} away. How many ...?
    steps           given       template

A step is one operation on numbers of the story, results of earlier steps (`#1`) and numbers that everyone knows. A
letter is drawn, unless it is given. The split goes by template: every fourth of those with the same number of steps is
one of the test. So no template of the test is in training, and both splits have problems of 1 to 5 steps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from rlx.env.calc.gsm8k_scaling import Worked
from rlx.env.questions.word_problems import BOXES, NAMES, THINGS
from rlx.env.split import ONE_IN
from rlx.tool.arithmetic import parse
from rlx.tool.calculator import NESTING

LETTER = re.compile(r"\b[a-z]\b")


class Story(NamedTuple):
    """A template with its calculation."""

    text: str
    steps: tuple[str, ...]
    definitions: Mapping[str, str]
    """Expressions of letters that are not drawn, so that a division leaves no rest and enough is left to take."""


@lru_cache(maxsize=1)
def read_stories() -> tuple[Story, ...]:
    """Return all stories of the file."""
    lines = Path(__file__).with_name("stories.txt").read_text(encoding="ascii").splitlines()
    return tuple(map(read_story, lines))


def read_story(line: str) -> Story:
    """Return the story of a line."""
    steps, definitions, text = (field.strip() for field in line.split("|"))
    pairs = [(pair.partition(" = ")[0], pair.partition(" = ")[2]) for pair in definitions.split(", ") if pair]
    return Story(text=text, steps=tuple(steps.split("; ")), definitions=dict(pairs))


@lru_cache(maxsize=2)
def stories_of(is_test: bool) -> tuple[Story, ...]:
    """Return the stories of one split. New lines at the end of the file leave the split of the others as it is."""
    chosen: list[Story] = []
    num_of_length: Counter[int] = Counter()
    for story in read_stories():
        num_of_length[len(story.steps)] += 1
        if (num_of_length[len(story.steps)] % ONE_IN == 0) == is_test:
            chosen.append(story)
    return tuple(chosen)


def tell(story: Story, rng: Random, high: int) -> tuple[Worked, Fraction] | None:
    """Return a problem with numbers drawn from 2 to `high`, and its answer; None if a step is not whole and above 0."""
    letters: dict[str, int] = {}
    for letter in sorted(set(LETTER.findall(" ".join([*story.steps, *story.definitions.values()])))):
        letters[letter] = rng.randint(2, high)
    values = {letter: number_of(letter, story.definitions, letters) for letter in {*letters, *story.definitions}}
    results: list[int] = []
    steps: list[str] = []
    for step in story.steps:
        numbers_by_name = {**values, **{f"#{place}": result for place, result in enumerate(results, 1)}}
        tokens = [str(numbers_by_name.get(token, token)) for token in step.split()]
        result = Fraction(parse(tokens, NESTING, Fraction))
        if result.denominator > 1 or result <= 0:
            return None
        results.append(int(result))
        steps.append(" ".join(tokens))
    text = story.text.format(**values, **words(rng))
    return Worked(text, tuple(steps)), Fraction(results[-1])


def number_of(letter: str, definitions: Mapping[str, str], drawn: Mapping[str, int]) -> int:
    """Return the number of a letter: the value of its definition, or else its drawn number."""
    if letter not in definitions:
        return drawn[letter]
    tokens = [
        str(number_of(token, definitions, drawn)) if LETTER.fullmatch(token) else token
        for token in definitions[letter].split()
    ]
    return int(parse(tokens, NESTING, Fraction))


def words(rng: Random) -> dict[str, str]:
    """Draw the names and things of a story."""
    (name, other, third), (goods, goods2) = rng.sample(NAMES, 3), rng.sample(THINGS, 2)
    return {"name": name, "other": other, "third": third, "thing": goods, "thing2": goods2, "box": rng.choice(BOXES)}
