"""GEM's grader of mathematics in a contained process (rlx.tool.contain): by spelling, as formulas, and by
math-verify."""

from __future__ import annotations

import logging
import re
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from rlx.env.questions.formula import is_zero
from rlx.env.questions.gem_answers import elements, simplify, trim

FRACTION = re.compile(r"-?[0-9]+.?/0*[1-9][0-9]*.?")
INTEGER = re.compile(r"-?\d+", re.ASCII)
HARD = re.compile(r"\^[{(]|\^[0-9]+\^|\^[0-9]{2,}")
"""Powers that GEM leaves to math-verify."""
CONFIG = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())


def answer(request: dict[str, Any]) -> bool:
    return any(is_right(request["text"], key) for key in request["keys"])


def is_right(text: str, key: str) -> bool:
    return trim(text) == trim(key) or is_same(simplify(text), simplify(key)) or is_verified(text, key)


def is_same(text: str, key: str) -> bool:
    """Compare simplified forms; tuples by their elements, between the same brackets."""
    if text == key:
        return True
    if not text or not key:
        return False
    ours, theirs = elements(text), elements(key)
    if len(ours) != len(theirs) or (len(theirs) > 1 and (text[0], text[-1]) != (key[0], key[-1])):
        return False
    return all(map(is_same_element, ours, theirs))


def is_same_element(text: str, key: str) -> bool:
    """Compare as formulas. As in GEM, fractions must be reduced alike, and a whole number is spelled as such."""
    if text == key:
        return True
    if FRACTION.fullmatch(text) and FRACTION.fullmatch(key):
        return False
    if bool(INTEGER.fullmatch(text)) != bool(INTEGER.fullmatch(key)):
        return False
    difference = f"({key})-({text})"
    letters = {letter for letter in difference.replace("sqrt", "") if letter.isalpha()}
    return len(letters) <= 2 and not HARD.search(difference) and is_zero(difference)


def is_verified(text: str, key: str) -> bool:
    """Compare with math-verify. The parser that Hydra allows takes `\\%` for nothing, and `%` for a percent."""
    answer_expressions, right = (
        parse(
            part if "$" in part else f"${part}$",
            extraction_config=CONFIG,
            fallback_mode="no_fallback",
            extraction_mode=["first_match"],
            parsing_timeout=None,
        )
        for part in (text.replace("\\%", "%"), key.replace("\\%", "%"))
    )
    return bool(verify(right, answer_expressions, timeout_seconds=None))


logging.disable(logging.CRITICAL)
answer({"keys": ["\\frac{1}{2}"], "text": "(1+0)/3"})  # has imported what is imported late, before a process is forked
