"""Plain sentences, so that unseen prompts are not noise: short tales with a question of what is the case at their
end, and instructions in many wordings with what they ask for."""

from __future__ import annotations

import re
from random import Random

from rlx.env.questions.known_names import NAMES, TOWNS
from scripts.nano.skills.lesson import Document, Lesson, ask
from scripts.nano.skills.words import ANIMALS, COLOURS, KINDS, PLACES, THINGS

WENT = ("goes to the {}", "walks to the {}", "runs to the {}", "is now in the {}")
OPENINGS = (
    "You are an agent. Your goal is to find the {}.",
    "You are playing a game. You have to guess the {}.",
    "You are given a task: name the {}.",
    "Using the words above, name the {}.",
    "Read the text and find the {}.",
    "Think step by step, then say the {}.",
    "As you play, the history of your guesses will be appended below. Find the {}.",
)
CLOSINGS = (
    "Your answer is the word after the colon: {}.",
    "Only this word is your final answer: {}.",
    "Respond with the word and nothing else: {}.",
    "This is what you should say: {}.",
    "The word to return is: {}.",
)


def draw_scene(rng: Random) -> str:
    """Draw a sentence without anybody's place or possessions."""
    return rng.choice(
        (
            f"It is a {rng.choice(('cold', 'warm', 'quiet', 'long'))} day in {rng.choice(TOWNS)}.",
            f"The {rng.choice(COLOURS)} {rng.choice(ANIMALS)} sleeps under the table.",
            f"There is a {rng.choice(COLOURS)} {rng.choice(THINGS)} on the table.",
            f"Nobody sees the {rng.choice(ANIMALS)}.",
        )
    )


def track_person(rng: Random, size: int) -> Document:
    """Ask where somebody is after `size` moves of two people."""
    people = rng.sample(NAMES, 2)
    sentences: list[str] = []
    where: dict[str, str] = {}
    for index in range(size):
        name = people[index] if index < 2 else rng.choice(people)
        where[name] = rng.choice([place for place in PLACES if place != where.get(name)])
        sentences.append(f"{name} {rng.choice(WENT).format(where[name])}.")
        sentences += [draw_scene(rng)] if rng.random() < 0.3 else []
    person = rng.choice(list(where))
    return ask(f"{' '.join(sentences)} At the end {person} is in the ", f"{where[person]}.")


def check_person(question: str, answer: str) -> bool:
    match = re.search(r"At the end (\w+) is in the $", question)
    assert match is not None
    return answer == re.findall(rf"{match[1]} [\w ]+ the (\w+)\.", question)[-1] + "."


def track_thing(rng: Random, size: int) -> Document:
    """Ask who has a thing after it was handed on `size` times."""
    people = rng.sample(NAMES, 3)
    noun, holder = rng.choice(THINGS), rng.randrange(3)
    sentences = [f"{people[holder]} has a {rng.choice(COLOURS)} {noun}."]
    for _ in range(size):
        giver, holder = holder, (holder + rng.choice((1, 2))) % 3
        sentences.append(f"{people[giver]} gives the {noun} to {people[holder]}.")
        sentences += [draw_scene(rng)] if rng.random() < 0.3 else []
    return ask(f"{' '.join(sentences)} Now the {noun} is with ", f"{people[holder]}.")


def check_thing(question: str, answer: str) -> bool:
    first = question.split()[0]
    return answer == [first, *re.findall(r" to (\w+)\.", question)][-1] + "."


def obey_prompt(rng: Random, size: int) -> Document:
    """A prompt of `size` sentences round one word, which is to be said."""
    kind = rng.choice(list(KINDS))
    word = rng.choice(KINDS[kind])
    opening = rng.choice(OPENINGS).format(kind)
    middle = [draw_scene(rng) for _ in range(size)]
    return ask(" ".join([opening, *middle, rng.choice(CLOSINGS).format(word)]) + "\n", word)


def check_prompt(question: str, answer: str) -> bool:
    return question.endswith(f": {answer}.\n")


LESSONS = (
    Lesson(draw=track_person, check=check_person, sizes=(1, 2, 3, 4), harder=6),
    Lesson(draw=track_thing, check=check_thing, sizes=(0, 1, 2, 3), harder=5),
    Lesson(draw=obey_prompt, check=check_prompt, sizes=(0, 1, 2, 3), harder=5),
)
