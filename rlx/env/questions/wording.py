"""Answers in words, compared as SQuAD does (Rajpurkar et al. 2016, arXiv:1606.05250): in lower case, without
punctuation, articles and extra blanks."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
BLANK_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))
CHINESE = re.compile("[\u4e00-\u9fff]")
AS_WORDS = {"true": "yes", "false": "no"}
EXACT_ANSWERS = frozenset({"yes", "no", "noanswer"})
"""Answers that are right or wrong as a whole in HotpotQA."""


def normal(text: str) -> str:
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Tell whether it is one of the right ones, once both are `normal`."""
    return normal(answer) in set(map(normal, golds))


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return 2 PR / (P + R) for the right answer with most words in common.

    P is their share of the answer's words and R of the right one's. Where one of both has no words: 1 if neither has.
    """
    answer_words = normal(answer).split()
    return max((overlap(answer_words, normal(gold).split()) for gold in golds), default=0.0)


def overlap(words: list[str], gold: list[str]) -> float:
    if not words or not gold:
        return float(words == gold)
    num_common = (Counter(words) & Counter(gold)).total()
    return 2 * num_common / (len(words) + len(gold))


def f1_hotpot(answer: str, golds: Iterable[str]) -> float:
    """Return F1 in HotpotQA's form: as `f1`, but yes, no and noanswer are right or wrong as a whole, and an answer
    without words is wrong."""
    if not normal(answer):
        return 0.0
    return max((0.0 if has_another_word(answer, gold) else f1(answer, [gold]) for gold in golds), default=0.0)


def has_another_word(answer: str, gold: str) -> bool:
    """Tell whether one of two different texts is yes, no or noanswer."""
    answer_text, right = normal(answer), normal(gold)
    return answer_text != right and bool({answer_text, right} & EXACT_ANSWERS)


def f1_asearcher(answer: str, golds: Iterable[str]) -> float:
    """Return F1 in ASearcher's form, over sets of words: punctuation becomes a blank, articles stay, true and false are
    yes and no, and a Chinese character is a word."""
    answer_words = set_of_words(answer)
    return max((overlap_of_sets(answer_words, set_of_words(gold)) for gold in golds), default=0.0)


def set_of_words(text: str) -> frozenset[str]:
    """Return the distinct words of a text in ASearcher's form."""
    spaced = CHINESE.sub(r" \g<0> ", text.lower().translate(BLANK_PUNCTUATION))
    return frozenset(AS_WORDS.get(word, word) for word in spaced.split())


def overlap_of_sets(words: frozenset[str], gold: frozenset[str]) -> float:
    """Return F1 of two sets; 1 if both are empty."""
    return 2 * len(words & gold) / (len(words) + len(gold)) if words and gold else float(words == gold)


F1_FORMS: Mapping[str, Callable[[str, Iterable[str]], float]] = {"hotpot": f1_hotpot, "asearcher": f1_asearcher}
"""Forms of F1 by name."""


def right_answers(value: Any) -> list[str]:
    """Return the texts of a data set's cell.

    The cell is a text, a number, a list of texts and numbers, or an object with these under `text`, as in SQuAD. A nan
    means no answer.
    """
    if isinstance(value, Mapping):
        return right_answers(value.get("text"))
    several = value if isinstance(value, list | tuple) else [value]
    golds = [gold for gold in several if isinstance(gold, str | int) or (isinstance(gold, float) and isfinite(gold))]
    return [str(gold) for gold in golds if str(gold).strip()]
