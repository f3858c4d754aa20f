"""Arithmetic word problems of several kinds, each with its exact answer and the steps to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from random import Random
from typing import NamedTuple

from rlx.env.questions.number import write_number

NAMES = ("Anna", "Ben", "Carl", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivan", "Jane", "Karl", "Lena", "Max", "Nina")
THINGS = ("apples", "books", "coins", "cups", "hats", "lamps", "maps", "pens", "shells", "stones", "stamps", "tickets")
BOXES = ("bags", "boxes", "baskets", "crates", "drawers", "jars")
SIGNS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


class WordProblem(NamedTuple):
    text: str
    value: Fraction
    worked: str


class Steps:
    """A calculation with a sentence for each step."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def do(self, left: Fraction | int, sign: str, right: Fraction | int) -> Fraction:
        value = SIGNS[sign](Fraction(left), Fraction(right))
        self.sentences.append(f"{write_number(left)} {sign} {write_number(right)} = {write_number(value)}.")
        return value

    def end(self, text: str, value: Fraction) -> WordProblem:
        return WordProblem(text, value, " ".join(self.sentences))


def gain(rng: Random, high: int) -> WordProblem:
    steps, (name, other), goods = Steps(), rng.sample(NAMES, 2), rng.choice(THINGS)
    has, more = rng.randint(2, high), rng.randint(2, high)
    text = f"{name} has {has} {goods}. {other} gives {name} {more} more. How many {goods} does {name} have now?"
    return steps.end(text, steps.do(has, "+", more))


def loss(rng: Random, high: int) -> WordProblem:
    steps, name, goods = Steps(), rng.choice(NAMES), rng.choice(THINGS)
    lost, left = rng.randint(2, high), rng.randint(0, high)
    text = f"{name} had {lost + left} {goods} and lost {lost} of them. How many {goods} does {name} have left?"
    return steps.end(text, steps.do(lost + left, "-", lost))


def groups(rng: Random, high: int) -> WordProblem:
    steps, goods, box = Steps(), rng.choice(THINGS), rng.choice(BOXES)
    boxes, each = rng.randint(2, high), rng.randint(2, high)
    text = f"There are {boxes} {box} with {each} {goods} in each. How many {goods} are there?"
    return steps.end(text, steps.do(boxes, "*", each))


def share(rng: Random, high: int) -> WordProblem:
    steps, goods = Steps(), rng.choice(THINGS)
    children, each = rng.randint(2, high), rng.randint(1, high)
    text = (
        f"{children * each} {goods} are shared evenly among {children} children. How many {goods} does each child get?"
    )
    return steps.end(text, steps.do(children * each, "/", children))


def rest(rng: Random, high: int) -> WordProblem:
    steps, goods, box = Steps(), rng.choice(THINGS), rng.choice(BOXES)
    each, boxes = rng.randint(3, high + 2), rng.randint(1, high)
    left = rng.randint(1, each - 1)
    text = f"{each * boxes + left} {goods} are packed into {box} of {each}, as many as get full. How many are left?"
    packed = steps.do(boxes, "*", each)
    return steps.end(text, steps.do(each * boxes + left, "-", packed))


def bill(rng: Random, high: int) -> WordProblem:
    steps, (first, second) = Steps(), rng.sample(THINGS, 2)
    prices, counts = [rng.randint(2, high) for _ in "ab"], [rng.randint(2, high) for _ in "ab"]
    prices_text = f"Each of the {first} costs {prices[0]} dollars and each of the {second} {prices[1]} dollars."
    text = f"{prices_text} How many dollars do {counts[0]} {first} and {counts[1]} {second} cost?"
    first_cost, second_cost = (steps.do(count, "*", price) for count, price in zip(counts, prices))
    return steps.end(text, steps.do(first_cost, "+", second_cost))


def change(rng: Random, high: int) -> WordProblem:
    steps, name, goods = Steps(), rng.choice(NAMES), rng.choice(THINGS)
    price, count, back = rng.randint(2, high), rng.randint(2, high), rng.randint(1, high)
    paid = price * count + back
    text = (
        f"{name} buys {count} {goods} at {price} dollars each and pays with {paid} dollars. How many dollars come back?"
    )
    return steps.end(text, steps.do(paid, "-", steps.do(count, "*", price)))


def way(rng: Random, high: int) -> WordProblem:
    steps = Steps()
    speed, halves = rng.randint(2, 10 * high), rng.randint(2, 12)
    hours = write_number(Fraction(halves, 2))
    text = f"A train goes {speed} km in each hour. How many km does it go in {hours} hours?"
    return steps.end(text, steps.do(speed, "*", Fraction(halves, 2)))


def discount(rng: Random, high: int) -> WordProblem:
    steps, price, percent = Steps(), 5 * rng.randint(1, high), 5 * rng.randint(1, 19)
    text = f"A coat cost {price} dollars. Its price fell by {percent} percent. How many dollars does it cost now?"
    off = steps.do(steps.do(price, "*", percent), "/", 100)
    return steps.end(text, steps.do(price, "-", off))


def age(rng: Random, high: int) -> WordProblem:
    steps, (name, other) = Steps(), rng.sample(NAMES, 2)
    years, times, more = rng.randint(2, high), rng.randint(2, 5), rng.randint(2, 9)
    text = f"{name} is {years} years old. {other} is {more} years older than {times} times that. How old is {other}?"
    return steps.end(text, steps.do(steps.do(years, "*", times), "+", more))


def mean(rng: Random, high: int) -> WordProblem:
    steps, name = Steps(), rng.choice(NAMES)
    scores = [rng.randint(1, high) for _ in range(rng.choice((2, 4, 5)))]
    total = Fraction(scores[0])
    for score in scores[1:]:
        total = steps.do(total, "+", score)
    text = f"{name} scored {', '.join(map(str, scores))} in {len(scores)} games. What is the mean of the scores?"
    return steps.end(text, steps.do(total, "/", len(scores)))


def part(rng: Random, high: int) -> WordProblem:
    steps, goods = Steps(), rng.choice(THINGS)
    below = rng.randint(2, 9)
    above, total = rng.randint(1, below - 1), below * rng.randint(1, high)
    text = f"There are {total} {goods}, and {above}/{below} of them are red. How many are red?"
    return steps.end(text, steps.do(steps.do(total, "/", below), "*", above))


KINDS: Mapping[str, Callable[[Random, int], WordProblem]] = {
    kind.__name__: kind for kind in (gain, loss, groups, share, rest, bill, change, way, discount, age, mean, part)
}
