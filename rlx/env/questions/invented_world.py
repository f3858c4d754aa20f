"""An invented world: people, towns, schools, countries and books, none of which a model has read of.

    Book --author--> Person --teacher--> Person    Person --born--> Town --country--> Country --ruler--> Person ...

Each has a page of a few sentences, one a relation. A question follows one relation or several in a row, from a subject
to its one answer: `In which country is the town where the author of The Red Door was born?`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal, get_args

from rlx.base.limits import MANY, MistakeError, refuse, within
from rlx.env.questions.known_names import COUNTRIES, NAMES, SCHOOLS, TITLES, TOWNS
from rlx.env.questions.relations import RELATIONS, UNKNOWN, Relation, chains

Names = Literal["invented", "known"]
"""Words that names are made of: invented syllables, or names that the embedded model knows
(rlx.env.questions.known_names)."""

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
SIZES: Mapping[Names, Mapping[str, int]] = {
    "invented": {"person": 240, "town": 40, "school": 24, "country": 8, "book": 160},
    "known": {"person": 120, "town": 14, "school": 8, "country": 8, "book": 80},
}
"""Number of names of each kind, where a world does not say it."""
MOST: Mapping[Names, Mapping[str, int]] = {
    "invented": {"person": 2000, "town": 500, "school": 500, "country": 500, "book": 256},
    "known": {"person": 1560, "town": 14, "school": 8, "country": 8, "book": 144},
}
"""Largest numbers that the words suffice for."""
MOST_TRIES = 10_000
"""Draws of a question that meets something twice, in a row."""
LONGEST = 4
"""Relations that a question may follow in a row."""


@dataclass(frozen=True, kw_only=True)
class InventedWorld:
    names: dict[str, list[str]]
    """Names of the subjects, by kind."""
    facts: dict[str, dict[Relation, str]]
    """Object of each relation, by subject."""

    def page(self, subject: str) -> str:
        """Its title, and a sentence for each relation."""
        return f"{subject}: {self.text(subject)}"

    def text(self, subject: str) -> str:
        """Return a sentence for each relation of a subject."""
        sentences = (relation.sentence.format(subject, name) for relation, name in self.facts[subject].items())
        return " ".join(sentences)


@dataclass(frozen=True, kw_only=True)
class Path:
    """A question: relations in a row, and what is met on the way from the subject to the answer."""

    relations: Sequence[Relation]
    met: Sequence[str]

    @property
    def question(self) -> str:
        phrase = self.met[0]
        for relation in self.relations[:-1]:
            phrase = relation.phrase.format(phrase)
        return self.relations[-1].question.format(phrase)

    @property
    def sentences(self) -> list[str]:
        return [relation.sentence.format(*pair) for relation, *pair in zip(self.relations, self.met, self.met[1:])]

    @property
    def golds(self) -> list[str]:
        """Right answers: a person's family name too, and a date in either order."""
        answer, kind = self.met[-1], self.relations[-1].object
        first, *rest = answer.split(" ")
        also = {"person": rest, "date": [f"{rest[-1]} {first}"] if rest else []}
        return [answer, *also.get(kind, [])]


@dataclass(frozen=True, kw_only=True)
class World:
    """Settings that a world follows from."""

    number: int = 0
    names: Names = "invented"
    relations: tuple[str, ...] = ()
    """Names of its relations, in their order; empty: all that suit its names."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Numbers of names by kind, for those that differ from `SIZES`."""

    def __post_init__(self) -> None:
        within(0, MANY, world=self.number)
        if self.names not in get_args(Names):
            refuse("names", self.names, " or ".join(get_args(Names)))
        for name in self.relations:
            if name not in {relation.name for relation in RELATIONS}:
                refuse("relations", name, ", ".join(relation.name for relation in RELATIONS))
        for kind, size in self.sizes:
            if kind not in SIZES["invented"] or not isinstance(size, int) or not 2 <= size <= MOST[self.names][kind]:
                limits = ", ".join(f"{kind} up to {most}" for kind, most in MOST[self.names].items())
                refuse("sizes", {kind: size}, f"numbers from 2: {limits}")

    @property
    def active_relations(self) -> tuple[Relation, ...]:
        """Relations that its pages tell."""
        if self.relations:
            return tuple(relation for relation in RELATIONS if relation.name in self.relations)
        return tuple(relation for relation in RELATIONS if self.names == "invented" or relation.name not in UNKNOWN)

    @property
    def counts(self) -> dict[str, int]:
        """Number of names by kind."""
        return {**SIZES[self.names], **dict(self.sizes)}


def world_of(
    world: int = 0,
    names: Names = "invented",
    relations: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> World:
    """Return a world's settings from keys of a configuration."""
    return World(number=world, names=names, relations=tuple(relations or ()), sizes=tuple((sizes or {}).items()))


@cache
def make_world(world: World) -> InventedWorld:
    """Return the same world for the same settings."""
    rng = Random(f"invented/{world.number}")
    counts = world.counts
    names = draw_names_from_words(rng, counts) if world.names == "known" else draw_names(rng, counts)
    facts: dict[str, dict[Relation, str]] = {}
    for kind, subjects in names.items():
        relations = [relation for relation in world.active_relations if relation.subject == kind]
        for subject in subjects if relations else ():
            drawn = {relation: draw_object(rng, names, relation.object, subject) for relation in relations}
            ordered_relations = relations if world.names == "invented" else rng.sample(relations, len(relations))
            facts[subject] = {relation: drawn[relation] for relation in ordered_relations}
    return InventedWorld(names=names, facts=facts)


def draw_names(rng: Random, counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Draw names of invented syllables, by kind."""
    words = iter(draw_words(rng, 2 * sum(counts.values())))
    titles = [f"The {adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
    families = rng.sample(list(dict.fromkeys(draw_words(rng, 4 * counts["person"], 3))), counts["person"])
    return {
        "person": [f"{next(words)} {family}" for family in families],
        "town": [next(words) + rng.choice(("ton", "by", "ford")) for _ in range(counts["town"])],
        "school": [f"{next(words)} School" for _ in range(counts["school"])],
        "country": [next(words) + rng.choice(("land", "ria")) for _ in range(counts["country"])],
        "book": rng.sample(titles, counts["book"]),
    }


def draw_names_from_words(rng: Random, counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Draw names of known words, by kind. People share first and last names, so pages of others share words."""
    firsts, lasts = ([title.split()[place] for title in TITLES] for place in (1, 2))
    titles = [f"The {first} {last}" for first in firsts for last in lasts]
    people = [f"{first} {last}" for first in NAMES for last in NAMES if first != last]
    schools = [f"{name} School" for name in SCHOOLS]
    names_by_kind = {"person": people, "town": TOWNS, "school": schools, "country": COUNTRIES, "book": titles}
    return {kind: rng.sample(list(names), counts[kind]) for kind, names in names_by_kind.items()}


def draw_words(rng: Random, num: int, num_syllables: int = 2) -> list[str]:
    """Different ones, which mean nothing."""
    words: dict[str, None] = {}
    while len(words) < num:
        words["".join(rng.choice(letters) for letters in (CONSONANTS, VOWELS) * num_syllables).capitalize()] = None
    return list(words)


def draw_object(rng: Random, names: dict[str, list[str]], kind: str, subject: str) -> str:
    if kind == "date":
        return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"
    if kind == "year":
        return str(rng.randint(1700, 1999))
    if kind == "job":
        return rng.choice(JOBS)
    return rng.choice([name for name in names[kind] if name != subject])


def draw_path(rng: Random, world: InventedWorld, length: int, relations: tuple[Relation, ...] = RELATIONS) -> Path:
    """A question over so many relations that meets nothing twice."""
    possible = chains(length, relations)
    for _ in range(MOST_TRIES if possible else 0):
        followed = rng.choice(possible)
        met = [rng.choice(world.names[followed[0].subject])]
        for relation in followed:
            met.append(world.facts[met[-1]][relation])
        if len(set(met)) == len(met):
            return Path(relations=followed, met=met)
    names = ", ".join(relation.name for relation in relations)
    raise MistakeError(f"env.hops: no question follows {length} of the relations {names}; choose more, or fewer hops")


def draw_pages(rng: Random, world: InventedWorld, path: Path, num_distractors: int) -> list[str]:
    """The pages that an answer needs, among others."""
    needed = path.met[:-1]
    others = [name for name in world.facts if name not in needed]
    return [
        world.page(name)
        for name in rng.sample([*needed, *rng.sample(others, num_distractors)], len(needed) + num_distractors)
    ]


def pages(
    world: int = 0,
    names: Names = "invented",
    relations: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[str]:
    """All pages of a world, for a search.

    Args:
        world: Number of the invented world.
        names: Words of the names: invented, or known (to the embedded model).
        relations: Relations of the world, by name; null: all that suit its names.
        sizes: Numbers of names by kind, where they differ from the default.
    """
    invented_world = make_world(world_of(world, names, relations, sizes))
    return [invented_world.page(subject) for subject in invented_world.facts]
