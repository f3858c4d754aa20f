"""Answers in words, compared as SQuAD does (Rajpurkar et al. 2016, arXiv:1606.05250): in lower case, without
punctuation, articles and extra blanks."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal(text: str) -> str:
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Whether it is one of the right ones, once both are `normal`."""
    return normal(answer) in set(map(normal, golds))


def f1(answer: str, golds: Iterable[str]) -> float:
    """Of words in common with the right answer that has most: 2 PR / (P + R), P their share of the answer's words and R
    of the right one's. Where one of both has no words, 1 if neither has."""
    said = normal(answer).split()
    return max((overlap(said, normal(gold).split()) for gold in golds), default=0.0)


def overlap(said: list[str], gold: list[str]) -> float:
    if not said or not gold:
        return float(said == gold)
    num_common = (Counter(said) & Counter(gold)).total()
    return 2 * num_common / (len(said) + len(gold))


def right_answers(value: Any) -> list[str]:
    """Of a data set's cell: a text or number, several of them, or an object that has them as `text`, as SQuAD's do; nan
    says that there is none."""
    if isinstance(value, Mapping):
        return right_answers(value.get("text"))
    several = value if isinstance(value, list | tuple) else [value]
    told = [one for one in several if isinstance(one, str | int) or (isinstance(one, float) and isfinite(one))]
    return [str(one) for one in told if str(one).strip()]
