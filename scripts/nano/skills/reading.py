"""Reading: facts among sentences, chains of facts over titled pages, what is not stated, and a page in a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rlx.env.questions.known_names import COUNTRIES, NAMES, SCHOOLS, TITLES, TOWNS
from scripts.nano.skills.lesson import ANSWER, QUESTION, Document, Lesson, Segment
from scripts.nano.skills.words import COLOURS, PLACES, THINGS

NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class FactKind:
    """A fact's sentence, how it is asked for, and what it makes of a description: `the town where … was born`."""

    sentence: str
    question: str
    phrase: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]


SIMPLE = (
    FactKind("{} is in the {}.", "Where is {}?", "", NAMES, PLACES),
    FactKind("{} has a {}.", "What does {} have?", "", NAMES, THINGS),
    FactKind("{} likes {}.", "Which colour does {} like?", "", NAMES, COLOURS),
    FactKind("{} was born in {}.", "Where was {} born?", "", NAMES, TOWNS),
    FactKind("{} went to {} School.", "Which school did {} go to?", "", NAMES, SCHOOLS),
)
AUTHOR = FactKind("{} was written by {}.", "Who wrote {}?", "the author of {}", TITLES, NAMES)
TEACHER = FactKind("{} was taught by {}.", "Who taught {}?", "the teacher of {}", NAMES, NAMES)
BORN = FactKind("{} was born in {}.", "Where was {} born?", "the town where {} was born", NAMES, TOWNS)
COUNTRY = FactKind("{} is a town in {}.", "In which country is {}?", "the country of {}", TOWNS, COUNTRIES)
LEADER = FactKind("{} is ruled by {}.", "Who rules {}?", "the ruler of {}", COUNTRIES, NAMES)
CHAINS: dict[int, tuple[tuple[FactKind, ...], ...]] = {
    2: ((AUTHOR, BORN), (AUTHOR, TEACHER), (TEACHER, BORN), (BORN, COUNTRY), (COUNTRY, LEADER)),
    3: ((AUTHOR, BORN, COUNTRY), (AUTHOR, TEACHER, BORN), (TEACHER, BORN, COUNTRY), (BORN, COUNTRY, LEADER)),
    4: ((AUTHOR, TEACHER, BORN, COUNTRY), (AUTHOR, BORN, COUNTRY, LEADER), (TEACHER, BORN, COUNTRY, LEADER)),
}
RELATIONS = (*SIMPLE[:3], AUTHOR, TEACHER, BORN, COUNTRY, LEADER)


def ask_page(page: str, question: str, answer: str) -> Document:
    """A question on a text, answered in the answer tags or, as asked, in plain words."""
    return (Segment(f"{page}\nQuestion: {question}\n", QUESTION), Segment(f"<answer>{answer}</answer>", ANSWER))


def draw_fact(rng: Random, relation: FactKind, subject: str, excluded: Sequence[str] = ()) -> str:
    return rng.choice([name for name in relation.objects if name != subject and name not in excluded])


def read_passage(rng: Random, size: int) -> Document:
    """One fact among `size` sentences on different people."""
    facts = []
    for name in rng.sample(NAMES, size):
        relation = rng.choice(SIMPLE)
        facts.append((relation, name, draw_fact(rng, relation, name)))
    relation, name, answer = rng.choice(facts)
    page = " ".join(r.sentence.format(subject, value) for r, subject, value in facts)
    return ask_page(page, relation.question.format(name), answer)


def find_missing(rng: Random, size: int) -> Document:
    """The same, but half of the questions ask what no sentence says."""
    subject, *others = rng.sample(NAMES, size + 1)
    wanted, other = rng.sample(SIMPLE, 2)
    stated = rng.random() < 0.5
    facts = [(rng.choice(SIMPLE), name) for name in others[1:]] + [(wanted, others[0])]
    facts.append((wanted if stated else other, subject))
    rng.shuffle(facts)
    values = {name: draw_fact(rng, relation, name) for relation, name in facts}
    page = " ".join(relation.sentence.format(name, values[name]) for relation, name in facts)
    return ask_page(page, wanted.question.format(subject), values[subject] if stated else NOT_STATED)


def check_passage(question: str, answer: str) -> bool:
    page, _, question_text = question.strip().partition("\nQuestion: ")
    return answer == f"<answer>{look_up(page, question_text)}</answer>"


def look_up(page: str, query: str) -> str:
    """The answer to a question on one fact, found by its sentence."""
    for relation in (*SIMPLE, *RELATIONS):
        subject = re.fullmatch(as_pattern(relation.question), query)
        if subject is not None:
            sentence = re.escape(relation.sentence).replace(r"\{\}", "{}")
            match = re.search(sentence.format(re.escape(subject[1]), r"([\w ]+?)"), page)
            return match[1] if match else NOT_STATED
    raise ValueError(query)


def as_pattern(text: str) -> str:
    return re.escape(text).replace(r"\{\}", "(.+)")


def draw_pages(rng: Random, facts: Sequence[tuple[str, str]], num_distractors: int) -> str:
    """Each subject's sentences under its title, with pages of others among them."""
    pages: dict[str, list[str]] = {}
    for subject, sentence in facts:
        pages.setdefault(subject, []).append(sentence)
    while num_distractors:
        relation = rng.choice(RELATIONS)
        subject = rng.choice(relation.subjects)
        if subject not in pages:
            pages[subject] = [relation.sentence.format(subject, draw_fact(rng, relation, subject))]
            num_distractors -= 1
    titles = rng.sample(sorted(pages), len(pages))
    return "\n".join(f"{title}: {' '.join(rng.sample(pages[title], len(pages[title])))}" for title in titles)


def draw_chain(rng: Random, size: int) -> tuple[list[tuple[str, str]], str, list[str]]:
    """Facts that lead from one to the next, the question over all of them, and what is found on the way."""
    chain = rng.choice(CHAINS[size])
    subjects = [rng.choice(chain[0].subjects)]
    facts = []
    for relation in chain:
        value = draw_fact(rng, relation, subjects[-1], subjects)
        facts.append((subjects[-1], relation.sentence.format(subjects[-1], value)))
        subjects.append(value)
    description = subjects[0]
    for relation in chain[:-1]:
        description = relation.phrase.format(description)
    return facts, chain[-1].question.format(description), subjects[1:]


def follow_chain(rng: Random, size: int) -> Document:
    """`size` facts on as many pages, and up to three pages beside them."""
    facts, question, values = draw_chain(rng, size)
    return ask_page(draw_pages(rng, facts, rng.randint(0, 3)), question, values[-1])


def reason_chain(rng: Random, size: int) -> Document:
    """The same, each fact said before the answer."""
    facts, question, values = draw_chain(rng, size)
    thought = " ".join(sentence for _, sentence in facts)
    page = draw_pages(rng, facts, rng.randint(0, 3))
    return (
        Segment(f"{page}\nThink first. Question: {question}\n", QUESTION),
        Segment(f"<think>{thought}</think><answer>{values[-1]}</answer>", ANSWER),
    )


def check_chain(question: str, answer: str) -> bool:
    """The innermost description is looked up first, then the one around it, to the question itself."""
    page, _, query = question.strip().replace("Think first. ", "").partition("\nQuestion: ")
    return answer.endswith(f"<answer>{resolve(page, query)}</answer>")


def resolve(page: str, query: str) -> str:
    relation = next(r for r in RELATIONS if re.fullmatch(as_pattern(r.question), query))
    inner = re.fullmatch(as_pattern(relation.question), query)
    assert inner is not None
    return look_up(page, relation.question.format(name_described(page, inner[1])))


def name_described(page: str, text: str) -> str:
    """`the author of X` as the author's name; a name as itself."""
    for relation in RELATIONS:
        inner = re.fullmatch(as_pattern(relation.phrase), text) if relation.phrase else None
        if inner is not None:
            return look_up(page, relation.question.format(name_described(page, inner[1])))
    return text


def pick_page(rng: Random, size: int) -> Document:
    """Ask which of `size` titled pages a question is about."""
    facts: list[tuple[str, FactKind, str]] = []
    for relation in rng.choices((AUTHOR, TEACHER, BORN, COUNTRY, LEADER), k=size):
        subjects = [subject for subject, _, _ in facts]
        subject = rng.choice([name for name in relation.subjects if name not in subjects])
        facts.append((subject, relation, draw_fact(rng, relation, subject)))
    title, relation, _ = rng.choice(facts)
    page = "\n".join(f"{subject}: {r.sentence.format(subject, value)}" for subject, r, value in facts)
    return (
        Segment(f"{page}\nWhich page answers: {relation.question.format(title)}\n", QUESTION),
        Segment(title, ANSWER),
    )


def check_page(question: str, answer: str) -> bool:
    page, _, query = question.strip().partition("\nWhich page answers: ")
    titles = [line.split(": ")[0] for line in page.splitlines()]
    return answer in titles and re.search(rf"\b{re.escape(answer)}\b", query) is not None


def sum_up_page(rng: Random, size: int) -> Document:
    """Ask for what a page of `size` facts says of its subject, in one line and in order."""
    name = rng.choice(NAMES)
    kinds = rng.sample(SIMPLE, size)
    sentences = [relation.sentence.format(name, draw_fact(rng, relation, name)) for relation in kinds]
    filler = [f"It was a {rng.choice(('cold', 'warm', 'long', 'quiet'))} day." for _ in range(rng.randint(0, 2))]
    page = [*sentences, *filler]
    rng.shuffle(page)
    summary = [sentence for sentence in page if sentence in sentences]
    short = " and".join(sentence.rstrip(".").removeprefix(name) for sentence in summary)
    return (Segment(f"{' '.join(page)}\nIn one line:\n", QUESTION), Segment(f"{name}{short}.", ANSWER))


def check_summary(question: str, answer: str) -> bool:
    sentences = re.findall(r"[^.]+\.", question.partition("\nIn one line")[0])
    summary = [sentence.strip() for sentence in sentences if "It was a" not in sentence]
    name = summary[0].split()[0]
    return answer == name + " and".join(sentence.rstrip(".").removeprefix(name) for sentence in summary) + "."


LESSONS = (
    Lesson(draw=read_passage, check=check_passage, sizes=(1, 2, 3, 4, 5, 6, 7, 8), harder=10),
    Lesson(draw=find_missing, check=check_passage, sizes=(1, 2, 3, 4, 5), harder=8),
    Lesson(draw=follow_chain, check=check_chain, sizes=(2, 2, 3), harder=4),
    Lesson(draw=reason_chain, check=check_chain, sizes=(2, 3), harder=4),
    Lesson(draw=pick_page, check=check_page, sizes=(2, 3, 4, 5), harder=7),
    Lesson(draw=sum_up_page, check=check_summary, sizes=(1, 2, 3), harder=4),
)
