"""An invented world: people, towns, schools, countries and books, none of which a model has read of.

    Book --author--> Person --teacher--> Person    Person --born--> Town --country--> Country --ruler--> Person ...

Each has a page of a few sentences, one a relation. A question follows one relation or several in a row, from a subject
to its one answer: `In which country is the town where the author of The Red Door was born?`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
ADJECTIVES = (
    *("Red", "Silent", "Last", "Long", "Glass", "Lost", "Old", "Quiet", "Blue", "Hidden", "Stone", "Paper", "Broken"),
    *("Golden", "Empty", "Distant"),
)
NOUNS = (
    *("River", "Door", "Garden", "Winter", "Tower", "Key", "Bridge", "Sea", "Lamp", "Path", "King", "Moon", "Forest"),
    *("Letter", "Clock", "Road"),
)
JOBS = (
    *("baker", "painter", "doctor", "sailor", "farmer", "weaver", "miller", "singer", "printer", "mason", "potter"),
    "clerk",
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
SIZES = {"person": 240, "town": 40, "school": 24, "country": 8, "book": 160}
"""How many there are of each kind."""
LONGEST = 4
"""Relations that a question may follow in a row."""


@dataclass(frozen=True, kw_only=True)
class Relation:
    """Its sentence, how it is asked for, and what describes its object: none of what has no page."""

    subject: str
    object: str
    sentence: str
    question: str
    phrase: str = ""


RELATIONS = (
    Relation(
        subject="person",
        object="town",
        sentence="{} was born in {}.",
        question="Where was {} born?",
        phrase="the town where {} was born",
    ),
    Relation(
        subject="person",
        object="date",
        sentence="{} has a birthday on {}.",
        question="On which date does {} have a birthday?",
    ),
    Relation(subject="person", object="job", sentence="{} is a {}.", question="What is the job of {}?"),
    Relation(
        subject="person",
        object="school",
        sentence="{} went to {}.",
        question="Which school did {} go to?",
        phrase="the school of {}",
    ),
    Relation(
        subject="person",
        object="person",
        sentence="{} was taught by {}.",
        question="Who taught {}?",
        phrase="the teacher of {}",
    ),
    Relation(
        subject="school",
        object="town",
        sentence="{} is in {}.",
        question="In which town is {}?",
        phrase="the town of {}",
    ),
    Relation(
        subject="town",
        object="country",
        sentence="{} is a town in {}.",
        question="In which country is {}?",
        phrase="the country of {}",
    ),
    Relation(
        subject="country",
        object="person",
        sentence="{} is ruled by {}.",
        question="Who rules {}?",
        phrase="the ruler of {}",
    ),
    Relation(
        subject="book",
        object="person",
        sentence="{} was written by {}.",
        question="Who wrote {}?",
        phrase="the author of {}",
    ),
    Relation(subject="book", object="year", sentence="{} came out in {}.", question="When did {} come out?"),
)


@dataclass(frozen=True, kw_only=True)
class InventedWorld:
    names: dict[str, list[str]]
    """By kind."""
    facts: dict[str, dict[Relation, str]]
    """By subject: what each relation leads to."""

    def page(self, subject: str) -> str:
        """Its title, and a sentence for each relation."""
        sentences = (relation.sentence.format(subject, found) for relation, found in self.facts[subject].items())
        return f"{subject}: {' '.join(sentences)}"


@dataclass(frozen=True, kw_only=True)
class Path:
    """A question: relations in a row, and what is met on the way from the subject to the answer."""

    relations: Sequence[Relation]
    met: Sequence[str]

    @property
    def question(self) -> str:
        asked = self.met[0]
        for relation in self.relations[:-1]:
            asked = relation.phrase.format(asked)
        return self.relations[-1].question.format(asked)

    @property
    def sentences(self) -> list[str]:
        return [relation.sentence.format(*pair) for relation, *pair in zip(self.relations, self.met, self.met[1:])]

    @property
    def golds(self) -> list[str]:
        """Right answers: a person's family name too, and a date in either order."""
        found, kind = self.met[-1], self.relations[-1].object
        first, *rest = found.split(" ")
        also = {"person": rest, "date": [f"{rest[-1]} {first}"] if rest else []}
        return [found, *also.get(kind, [])]


@cache
def make_world(number: int) -> InventedWorld:
    """The same for the same number."""
    rng = Random(f"invented/{number}")
    names = draw_names(rng)
    facts: dict[str, dict[Relation, str]] = {}
    for kind, subjects in names.items():
        for subject in subjects:
            known = [relation for relation in RELATIONS if relation.subject == kind]
            facts[subject] = {relation: draw_object(rng, names, relation.object, subject) for relation in known}
    return InventedWorld(names=names, facts=facts)


def draw_names(rng: Random) -> dict[str, list[str]]:
    words = iter(draw_words(rng, 2 * sum(SIZES.values())))
    titles = [f"The {adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
    families = rng.sample(list(dict.fromkeys(draw_words(rng, 4 * SIZES["person"], 3))), SIZES["person"])
    return {
        "person": [f"{next(words)} {family}" for family in families],
        "town": [next(words) + rng.choice(("ton", "by", "ford")) for _ in range(SIZES["town"])],
        "school": [f"{next(words)} School" for _ in range(SIZES["school"])],
        "country": [next(words) + rng.choice(("land", "ria")) for _ in range(SIZES["country"])],
        "book": rng.sample(titles, SIZES["book"]),
    }


def draw_words(rng: Random, num: int, num_syllables: int = 2) -> list[str]:
    """Different ones, which mean nothing."""
    found: dict[str, None] = {}
    while len(found) < num:
        found["".join(rng.choice(letters) for letters in (CONSONANTS, VOWELS) * num_syllables).capitalize()] = None
    return list(found)


def draw_object(rng: Random, names: dict[str, list[str]], kind: str, subject: str) -> str:
    if kind == "date":
        return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"
    if kind == "year":
        return str(rng.randint(1700, 1999))
    if kind == "job":
        return rng.choice(JOBS)
    return rng.choice([name for name in names[kind] if name != subject])


@cache
def chains(length: int) -> tuple[tuple[Relation, ...], ...]:
    """Relations that can be followed in a row."""
    if length == 1:
        return tuple((relation,) for relation in RELATIONS)
    return tuple(
        (*before, relation)
        for before in chains(length - 1)
        for relation in RELATIONS
        if before[-1].object == relation.subject
    )


def draw_path(rng: Random, world: InventedWorld, length: int) -> Path:
    """A question over so many relations that meets nothing twice."""
    while True:
        relations = rng.choice(chains(length))
        met = [rng.choice(world.names[relations[0].subject])]
        for relation in relations:
            met.append(world.facts[met[-1]][relation])
        if len(set(met)) == len(met):
            return Path(relations=relations, met=met)


def draw_pages(rng: Random, world: InventedWorld, path: Path, num_distractors: int) -> list[str]:
    """The pages that an answer needs, among others."""
    needed = path.met[:-1]
    others = [name for name in world.facts if name not in needed]
    return [
        world.page(name)
        for name in rng.sample([*needed, *rng.sample(others, num_distractors)], len(needed) + num_distractors)
    ]


def pages(world: int = 0) -> list[str]:
    """All pages of a world, for a search."""
    return [make_world(world).page(subject) for subject in make_world(world).facts]
