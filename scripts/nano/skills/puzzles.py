"""Small puzzles with letters, words, rows, brackets, patterns and logic."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from scripts.nano.skills.lesson import Document, Lesson, ask
from scripts.nano.skills.words import CAPITALS, KINDS, LETTERS, WORDS

PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}


def draw_word(rng: Random, size: int) -> str:
    """A word of the lessons, or as many letters as are asked for."""
    return rng.choice(WORDS) if rng.random() < 0.4 else "".join(rng.choices(LETTERS, k=size))


WORD_TASKS: dict[str, Callable[[list[str]], list[str]]] = {
    "Repeat": lambda words: words,
    "Reverse": lambda words: words[::-1],
    "Sort": sorted,
    "First": lambda words: words[:1],
    "Last": lambda words: words[-1:],
    "Without the first": lambda words: words[1:],
    "Twice": lambda words: words * 2,
}
LETTER_TASKS: dict[str, Callable[[list[str]], str]] = {
    "Spell": " ".join,
    "Join": "".join,
    "Uppercase": lambda letters: "".join(letters).upper(),
    "Reverse letters": lambda letters: " ".join(letters[::-1]),
    "Sort letters": lambda letters: " ".join(sorted(letters)),
    "Next letters": lambda letters: " ".join(LETTERS[(LETTERS.index(letter) + 1) % 26] for letter in letters),
}


def arrange_words(rng: Random, size: int) -> Document:
    """Ask for a task of WORD_TASKS with `size` words."""
    task, words = rng.choice(list(WORD_TASKS)), rng.choices(WORDS, k=size)
    return ask(f"{task}: {' '.join(words)}\n", " ".join(WORD_TASKS[task](words)))


def check_words(question: str, answer: str) -> bool:
    task, text = question.strip().split(": ")
    return answer == " ".join(WORD_TASKS[task](text.split()))


def arrange_letters(rng: Random, size: int) -> Document:
    """Ask for a task of LETTER_TASKS with the letters of a word, spaced unless the task reads a word."""
    task, word = rng.choice(list(LETTER_TASKS)), draw_word(rng, size)
    text = word if task in ("Spell", "Uppercase") else " ".join(word)
    return ask(f"{task}: {text}\n", LETTER_TASKS[task](list(word)))


def check_letters(question: str, answer: str) -> bool:
    task, text = question.strip().split(": ")
    return answer == LETTER_TASKS[task](list(text.replace(" ", "")))


def count_words(rng: Random, size: int) -> Document:
    return ask(f"How many words: {' '.join(rng.choices(WORDS, k=size))}\n", str(size))


def check_number_of_words(question: str, answer: str) -> bool:
    return answer == str(len(question.strip().partition(": ")[2].split()))


def complete_row(rng: Random, size: int) -> Document:
    """The number of 1 to `size` that a row lacks, as in Sudoku."""
    row = rng.sample(range(1, size + 1), size)
    missing, row[hole] = row[hole := rng.randrange(size)], 0
    return ask(f"Row of 1 to {size}: {' '.join(str(n or '_') for n in row)}. Missing: ", str(missing))


def check_row(question: str, answer: str) -> bool:
    size, *numbers = map(int, re.findall(r"\d+", question.removeprefix("Row of 1 to ")))
    return {answer} == {str(number) for number in range(1, size + 1)} - {str(number) for number in numbers}


def close_brackets(rng: Random, size: int) -> Document:
    """Ask to close up to `size` open brackets, of which a few are closed already."""
    text: list[str] = []
    stack: list[str] = []
    while len(stack) < size:
        if stack and rng.random() < 0.25:
            text.append(PAIRS[stack.pop()])
        else:
            stack.append(rng.choice(list(PAIRS)))
            text.append(stack[-1])
    return ask(f"Close: {' '.join(text)}\n", " ".join(PAIRS[mark] for mark in reversed(stack)))


def check_brackets(question: str, answer: str) -> bool:
    stack: list[str] = []
    for mark in question.strip().removeprefix("Close: ").split():
        if mark in PAIRS:
            stack.append(PAIRS[mark])
        elif stack.pop() != mark:
            return False
    return answer.split(" ") == stack[::-1]


def continue_pattern(rng: Random, size: int) -> Document:
    """Numbers that rise or fall evenly, or symbols that come round again: the next of `size`."""
    if rng.random() < 0.5:
        first, step = rng.randint(1, 50), rng.choice([*range(-9, 0), *range(1, 10)])
        text = [str(first + index * step) for index in range(size + 1)]
    else:
        unit = rng.sample(CAPITALS, rng.randint(2, max(2, size // 2)))
        text = [unit[index % len(unit)] for index in range(size + 1)]
    return ask(f"Next: {' '.join(text[:-1])} ", text[-1])


def check_pattern(question: str, answer: str) -> bool:
    text = question.removeprefix("Next: ").split()
    if re.fullmatch(r"-?\d+", text[0]):
        return answer == str(2 * int(text[-1]) - int(text[-2]))
    return answer == text[len(text) % (text[1:].index(text[0]) + 1)] if text[0] in text[1:] else answer == text[0]


def judge_logic(rng: Random, size: int) -> Document:
    """`size` truth values, joined from the left."""
    text, value = "", True
    for index in range(size):
        drawn, negated, word = rng.random() < 0.5, rng.random() < 0.3, rng.choice(("and", "or"))
        term = ("not " if negated else "") + str(drawn).lower()
        truth = drawn != negated
        value = truth if not index else (value and truth if word == "and" else value or truth)
        text = term if not index else f"({text}) {word} {term}"
    return ask(f"{text} is ", str(value).lower())


def check_logic(question: str, answer: str) -> bool:
    text = question.removesuffix(" is ")
    return answer == str(is_true(text)).lower()


def is_true(text: str) -> bool:
    joined = re.fullmatch(r"\((.*)\) (and|or) (not )?(true|false)", text)
    if joined is None:
        return text in ("true", "not false")
    last = (joined[4] == "true") != bool(joined[3])
    return is_true(joined[1]) and last if joined[2] == "and" else is_true(joined[1]) or last


def find_odd_one(rng: Random, size: int) -> Document:
    """The one of `size` words that is of another kind."""
    kind, other = rng.sample(list(KINDS), 2)
    words = [*rng.sample(KINDS[kind], size - 1), odd := rng.choice(KINDS[other])]
    rng.shuffle(words)
    return ask(f"Odd one out: {' '.join(words)}\n", odd)


def kind_of(word: str) -> str:
    return next(kind for kind, words in KINDS.items() if word in words)


def check_odd_one(question: str, answer: str) -> bool:
    kinds = {word: kind_of(word) for word in question.strip().removeprefix("Odd one out: ").split()}
    return answer in kinds and list(kinds.values()).count(kinds[answer]) == 1


def find_word(rng: Random, size: int) -> Document:
    """Ask if a word is among `size` words."""
    words = rng.sample(WORDS, size)
    wanted = rng.choice(words) if rng.random() < 0.5 else rng.choice(WORDS)
    return ask(f"Is {wanted} in: {' '.join(words)}? ", "yes" if wanted in words else "no")


def check_find(question: str, answer: str) -> bool:
    wanted, text = question.removeprefix("Is ").rstrip("? ").split(" in: ")
    return answer == ("yes" if wanted in text.split() else "no")


LESSONS = (
    Lesson(draw=arrange_words, check=check_words, sizes=(1, 2, 3, 4, 5, 6), harder=8),
    Lesson(draw=arrange_letters, check=check_letters, sizes=(2, 3, 4, 5, 6), harder=8),
    Lesson(draw=count_words, check=check_number_of_words, sizes=(1, 2, 3, 4, 5, 6, 7, 8, 9), harder=12),
    Lesson(draw=complete_row, check=check_row, sizes=(4, 6, 8), harder=9),
    Lesson(draw=close_brackets, check=check_brackets, sizes=(1, 2, 3, 4, 5), harder=7),
    Lesson(draw=continue_pattern, check=check_pattern, sizes=(4, 5, 6), harder=8),
    Lesson(draw=judge_logic, check=check_logic, sizes=(1, 2, 3), harder=4),
    Lesson(draw=find_odd_one, check=check_odd_one, sizes=(3, 4, 5), harder=7),
    Lesson(draw=find_word, check=check_find, sizes=(1, 2, 3, 4, 5, 6, 8), harder=12),
)
