"""Relations between the subjects of an invented world (rlx.env.questions.invented_world), and chains of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A relation: templates of its sentence, its question, and a phrase for its object if the object has a page."""

    name: str
    subject: str
    object: str
    sentence: str
    question: str
    phrase: str = ""


RELATIONS = (
    Relation(
        name="born",
        subject="person",
        object="town",
        sentence="{} was born in {}.",
        question="Where was {} born?",
        phrase="the town where {} was born",
    ),
    Relation(
        name="birthday",
        subject="person",
        object="date",
        sentence="{} has a birthday on {}.",
        question="On which date does {} have a birthday?",
    ),
    Relation(name="job", subject="person", object="job", sentence="{} is a {}.", question="What is the job of {}?"),
    Relation(
        name="school",
        subject="person",
        object="school",
        sentence="{} went to {}.",
        question="Which school did {} go to?",
        phrase="the school of {}",
    ),
    Relation(
        name="teacher",
        subject="person",
        object="person",
        sentence="{} was taught by {}.",
        question="Who taught {}?",
        phrase="the teacher of {}",
    ),
    Relation(
        name="place",
        subject="school",
        object="town",
        sentence="{} is in {}.",
        question="In which town is {}?",
        phrase="the town of {}",
    ),
    Relation(
        name="country",
        subject="town",
        object="country",
        sentence="{} is a town in {}.",
        question="In which country is {}?",
        phrase="the country of {}",
    ),
    Relation(
        name="ruler",
        subject="country",
        object="person",
        sentence="{} is ruled by {}.",
        question="Who rules {}?",
        phrase="the ruler of {}",
    ),
    Relation(
        name="author",
        subject="book",
        object="person",
        sentence="{} was written by {}.",
        question="Who wrote {}?",
        phrase="the author of {}",
    ),
    Relation(
        name="year", subject="book", object="year", sentence="{} came out in {}.", question="When did {} come out?"
    ),
)
UNKNOWN = frozenset({"birthday", "job", "year"})
"""Relations whose objects the embedded model never read in a lesson: a world of known names has them if it is told."""


@cache
def chains(length: int, relations: tuple[Relation, ...] = RELATIONS) -> tuple[tuple[Relation, ...], ...]:
    """Relations that can be followed in a row."""
    if length == 1:
        return tuple((relation,) for relation in relations)
    return tuple(
        (*before, relation)
        for before in chains(length - 1, relations)
        for relation in relations
        if before[-1].object == relation.subject
    )
