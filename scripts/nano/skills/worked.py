"""Sums worked out: the steps that a small model cannot take all at once, each on a line of its own, then the value."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from random import Random

from scripts.nano.skills.lesson import Document, Lesson, answer_of, ask
from scripts.nano.skills.numbers import draw_number, evaluate


def work_sum(a: int, b: int) -> list[str]:
    """Column by column from the right, what is carried last: `47 + 38`: `7 + 8 = 15`, `4 + 3 + 1 = 8`."""
    lines, carry = [], 0
    for left, right in zip(*columns(a, b), strict=True):
        total = left + right + carry
        lines.append(f"{left} + {right}{' + 1' if carry else ''} = {total}")
        carry = total // 10
    return lines


def work_difference(a: int, b: int) -> list[str]:
    """Likewise, what is borrowed first: `52 - 37`: `12 - 7 = 5`, `4 - 3 = 1`. `a` is the larger."""
    lines, borrowed = [], 0
    for left, right in zip(*columns(a, b), strict=True):
        left -= borrowed
        borrowed = int(left < right)
        lines.append(f"{left + 10 * borrowed} - {right} = {left + 10 * borrowed - right}")
    return lines


def columns(a: int, b: int) -> tuple[list[int], list[int]]:
    """Digits from the right, as many of both."""
    width = max(len(str(a)), len(str(b)))
    first, second = ([int(digit) for digit in reversed(str(number).zfill(width))] for number in (a, b))
    return first, second


def work_product(a: int, b: int) -> list[str]:
    """Part by part: `47 * 8`: `40 * 8 = 320`, `7 * 8 = 56`, `320 + 56 = 376`."""
    parts = [int(digit) * 10**place for place, digit in reversed([*enumerate(reversed(str(a)))]) if digit != "0"]
    lines = [f"{part} * {b} = {part * b}" for part in parts]
    total = parts[0] * b if parts else 0
    for part in parts[1:]:
        lines.append(f"{total} + {part * b} = {total + part * b}")
        total += part * b
    return lines


def work_middle(low: int, high: int) -> list[str]:
    return [f"{low} + {high} = {low + high}"]


def work_remainder(a: int, b: int) -> list[str]:
    multiple = a // b * b
    return [f"{a // b} * {b} = {multiple}", f"{a} - {multiple} = {a % b}"]


FORMS: dict[str, tuple[Callable[[int, int], list[str]], Callable[[int, int], int]]] = {
    "By columns: {} + {}\n": (work_sum, operator.add),
    "By columns: {} - {}\n": (work_difference, operator.sub),
    "By parts: {} * {}\n": (work_product, operator.mul),
    "By the sum, the middle of {} and {}:\n": (work_middle, lambda low, high: (low + high) // 2),
    "By the multiple: {} mod {}\n": (work_remainder, operator.mod),
}
"""Steps and value of each question."""
SUM, DIFFERENCE, PRODUCT, MIDDLE, REMAINDER = FORMS


def work(form: str, a: int, b: int) -> Document:
    steps, value = FORMS[form]
    return ask(form.format(a, b), "\n".join([*steps(a, b), str(value(a, b))]))


def reason_sum(rng: Random, size: int) -> Document:
    return work(SUM, draw_number(rng, size), draw_number(rng, size))


def reason_difference(rng: Random, size: int) -> Document:
    b, a = sorted((draw_number(rng, size), draw_number(rng, size)))
    return work(DIFFERENCE, a, b)


def reason_product(rng: Random, size: int) -> Document:
    return work(PRODUCT, draw_number(rng, size), rng.randint(2, 9))


def reason_middle(rng: Random, size: int) -> Document:
    low, high = sorted(rng.sample(range(size + 1), 2))
    return work(MIDDLE, low, high)


def reason_remainder(rng: Random, size: int) -> Document:
    return work(REMAINDER, draw_number(rng, size), rng.randint(2, 12))


def check_worked(question: str, answer: str) -> bool:
    """Every step as it is to be taken, and every equation true."""
    a, b = map(int, re.findall(r"\d+", question))
    form = re.sub(r"\d+", "{}", question)
    return answer == answer_of(work(form, a, b)) and all(map(is_true, answer.split("\n")[:-1]))


def is_true(line: str) -> bool:
    expression, value = line.split(" = ")
    return evaluate(expression) == int(value)


LESSONS = (
    Lesson(draw=reason_sum, check=check_worked, sizes=(2, 3), harder=4),
    Lesson(draw=reason_difference, check=check_worked, sizes=(2, 3), harder=4),
    Lesson(draw=reason_product, check=check_worked, sizes=(2,), harder=3),
    Lesson(draw=reason_middle, check=check_worked, sizes=(20, 50, 100), harder=200),
    Lesson(draw=reason_remainder, check=check_worked, sizes=(1, 2), harder=3),
)
