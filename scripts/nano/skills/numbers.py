"""Numbers: sums in the head and step by step, middles, intervals, remainders, counts, and their words."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random

from rlx.env.calc.numerals import SPOKEN, hear_number, say_number
from rlx.env.questions.known_names import NAMES
from scripts.nano.skills.lesson import Document, Lesson, ask
from scripts.nano.skills.words import CAPITALS, THINGS, show_number

OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
TREE_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
SUM = re.compile(r"(-?\d+) ([-+*/]) (-?\d+)")


def compute(left: int, symbol: str, right: int) -> Fraction:
    return OPERATORS[symbol](Fraction(left), Fraction(right))


def evaluate(text: str) -> Fraction:
    """The value of an expression of whole numbers, read by Python's own parser and never run."""

    def value(node: ast.expr) -> Fraction:
        if isinstance(node, ast.BinOp):
            return OPERATORS[TREE_OPERATORS[type(node.op)]](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp):
            return -value(node.operand)
        assert isinstance(node, ast.Constant)
        assert isinstance(node.value, int)
        return Fraction(node.value)

    return value(ast.parse(text, mode="eval").body)


def draw_number(rng: Random, digits: int) -> int:
    """Up to so many digits, small ones more often."""
    return rng.randint(0 if rng.random() < 0.1 else 1, 10 ** rng.randint(1, digits) - 1)


def add_numbers(rng: Random, size: int) -> Document:
    a, b = draw_number(rng, size), draw_number(rng, size)
    return ask(f"{a} + {b} = ", str(a + b))


def subtract_numbers(rng: Random, size: int) -> Document:
    """Differences, one in five below zero."""
    a, b = draw_number(rng, size), draw_number(rng, size)
    a, b = (b, a) if a < b and rng.random() < 0.6 else (a, b)
    return ask(f"{a} - {b} = ", str(a - b))


def multiply_numbers(rng: Random, size: int) -> Document:
    """One digit by up to `size` digits, either first; now and then two digits by two."""
    a, b = rng.randint(1, 9 if size < 3 or rng.random() < 0.8 else 12), draw_number(rng, size)
    a, b = (b, a) if rng.random() < 0.5 else (a, b)
    return ask(f"{a} * {b} = ", str(a * b))


def divide_numbers(rng: Random, size: int) -> Document:
    """Without a rest."""
    a, b = rng.randint(1, 10**size // 10), rng.randint(1, 12)
    return ask(f"{a * b} / {b} = ", str(a))


def find_remainder(rng: Random, size: int) -> Document:
    a, b = draw_number(rng, size), rng.randint(2, 12)
    return ask(f"{a} mod {b} = ", str(a % b))


def check_sum(question: str, answer: str) -> bool:
    left, symbol, right = question.split()[:3]
    value = Fraction(int(left) % int(right)) if symbol == "mod" else compute(int(left), symbol, int(right))
    return answer == show_number(value)


def speak_arithmetic(rng: Random, size: int) -> Document:
    a, symbol, b = rng.randint(0, size), rng.choice("+-*"), rng.randint(0, size)
    words = f"{say_number(a)} {SPOKEN[symbol]} {say_number(b)}"
    return ask(f"What is {words}? ", f"{a} {symbol} {b} = {compute(a, symbol, b)}")


def check_spoken(question: str, answer: str) -> bool:
    text = question.removeprefix("What is ").rstrip("? ")
    symbol = next(symbol for symbol, word in SPOKEN.items() if f" {word} " in text)
    a, b = (hear_number(part) for part in text.split(f" {SPOKEN[symbol]} "))
    return answer == f"{a} {symbol} {b} = {compute(a, symbol, b)}"


def draw_spoken_number(rng: Random, size: int) -> int:
    return rng.randint(0, 10**size - 1)


def write_in_words(rng: Random, size: int) -> Document:
    value = draw_spoken_number(rng, size)
    return ask(f"In words: {value}\n", say_number(value))


def write_in_digits(rng: Random, size: int) -> Document:
    value = draw_spoken_number(rng, size)
    return ask(f"In digits: {say_number(value)}\n", str(value))


def check_words(question: str, answer: str) -> bool:
    form, text = question.strip().split(": ")
    return answer == (say_number(int(text)) if form == "In words" else str(hear_number(text)))


def find_middle(rng: Random, size: int) -> Document:
    """Ask for the middle of an interval within 1 to `size`, rounded down."""
    low, high = sorted((rng.randint(0, size), rng.randint(1, size)))
    form = rng.choice(("The middle of {} and {} is ", "Halfway between {} and {}: ", "middle {} {}: "))
    return ask(form.format(low, high), str((low + high) // 2))


def check_middle(question: str, answer: str) -> bool:
    return answer == str(sum(map(int, re.findall(r"\d+", question))) // 2)


def narrow_interval(rng: Random, size: int) -> Document:
    """Ask for the rest of an interval after one thing is known of the number."""
    low, high = sorted(rng.sample(range(1, size + 1), 2))
    guess, is_higher = rng.randint(low, high), rng.random() < 0.5
    is_higher = is_higher if low < guess < high else guess == low
    word = "higher" if is_higher else "lower"
    form = rng.choice(
        (
            "The number is between {} and {}. It is {} than {}. So it is between ",
            "between {} and {} (inclusive), {} than {}: ",
        )
    )
    answer = f"{guess + 1} and {high}" if is_higher else f"{low} and {guess - 1}"
    return ask(form.format(low, high, word, guess), answer)


def check_interval(question: str, answer: str) -> bool:
    low, high, guess = map(int, re.findall(r"\d+", question))
    return answer == (f"{guess + 1} and {high}" if "higher" in question else f"{low} and {guess - 1}")


def draw_expression(rng: Random, numbers: Sequence[int]) -> tuple[str, Fraction] | None:
    """A bracketed expression over all `numbers` in order; None where it would divide with a rest."""
    if len(numbers) == 1:
        return str(numbers[0]), Fraction(numbers[0])
    cut = rng.randint(1, len(numbers) - 1)
    left, right = draw_expression(rng, numbers[:cut]), draw_expression(rng, numbers[cut:])
    symbol = rng.choice("+-*" if rng.random() < 0.85 else "/")
    if left is None or right is None or (symbol == "/" and (right[1] == 0 or (left[1] / right[1]).denominator != 1)):
        return None
    return f"({left[0]} {symbol} {right[0]})", OPERATORS[symbol](left[1], right[1])


def draw_valued(rng: Random, num_numbers: int) -> tuple[str, Fraction]:
    while True:
        drawn = draw_expression(rng, [rng.randint(1, rng.choice((9, 20, 99))) for _ in range(num_numbers)])
        if drawn is not None and abs(drawn[1]) < 1_000:
            return drawn[0][1:-1], drawn[1]


def evaluate_expression(rng: Random, size: int) -> Document:
    """Ask for all of `size` numbers at once."""
    text, value = draw_valued(rng, size)
    return ask(f"{text} = ", show_number(value))


def check_expression(question: str, answer: str) -> bool:
    text = question.removeprefix("Work out: ").rstrip("= \n")
    return answer.rpartition("\n")[2] == show_number(evaluate(text))


def work_out(text: str) -> list[str]:
    """`(3 + 4) * 5`: each innermost sum in turn, from the left: `3 + 4 = 7`, `7 * 5 = 35`."""
    steps = []
    while not re.fullmatch(r"-?\d+", text):
        match = re.search(r"\((-?\d+ [-+*/] -?\d+)\)", text) or re.fullmatch(f"({SUM.pattern})", text)
        assert match is not None
        value = show_number(evaluate(match[1]))
        steps.append(f"{match[1]} = {value}")
        text = text[: match.start()] + value + text[match.end() :]
    return steps


def reason_expression(rng: Random, size: int) -> Document:
    """Step by step, a line a sum, then the value."""
    text, value = draw_valued(rng, size)
    return ask(f"Work out: {text}\n", "\n".join([*work_out(text), show_number(value)]))


def approach_target(rng: Random, size: int) -> Document:
    """Ask for the sum with the given number that makes the target: one step back."""
    a, b, symbol = draw_number(rng, size), draw_number(rng, size), rng.choice("+-*")
    b = rng.randint(1, 9) if symbol == "*" else b
    return ask(f"Make {compute(a, symbol, b)} from {a} with {symbol}: ", f"{a} {symbol} {b}")


def check_target(question: str, answer: str) -> bool:
    task = re.fullmatch(r"Make (-?\d+) from (\d+) with ([-+*]): ", question)
    equation = SUM.fullmatch(answer)
    if task is None or equation is None:
        return False
    return (
        equation[1] == task[2]
        and equation[2] == task[3]
        and str(compute(int(equation[1]), equation[2], int(equation[3]))) == task[1]
    )


def judge_equality(rng: Random, size: int) -> Document:
    """The verdict of a tool trace, with near misses as common as plain ones."""
    target = rng.randint(1, size)
    near = (target + rng.choice((-10, -2, -1, 1, 2, 10, 100)), int(str(target)[::-1]), target * 10)
    observed = rng.choice((target, target, rng.choice(near), rng.randint(-20, 2 * size)))
    sign, verdict = ("==", "it exactly equals") if observed == target else ("!=", "it does not match")
    return ask(
        f"The target is {target}.\nThe observation is {observed}. ",
        f"Since {observed} {sign} {target}, {verdict} the target.",
    )


def check_equality(question: str, answer: str) -> bool:
    target, observed = re.findall(r"-?\d+", question)
    sign, verdict = ("==", "it exactly equals") if observed == target else ("!=", "it does not match")
    return answer == f"Since {observed} {sign} {target}, {verdict} the target."


def count_symbols(rng: Random, size: int) -> Document:
    """Among `size` letters of a few kinds."""
    alphabet = rng.sample(CAPITALS, rng.randint(2, 4))
    symbols, wanted = rng.choices(alphabet, k=size), rng.choice(alphabet)
    return ask(f"How many {wanted} are in {' '.join(symbols)}? ", str(symbols.count(wanted)))


def check_count(question: str, answer: str) -> bool:
    wanted, symbols = question.removeprefix("How many ").rstrip("? ").split(" are in ")
    return answer == str(symbols.split().count(wanted))


def reason_count(rng: Random, size: int) -> Document:
    """The same, counted aloud: each one found is said with its number."""
    alphabet = rng.sample(CAPITALS, rng.randint(2, 4))
    symbols, wanted = rng.choices(alphabet, k=size), rng.choice(alphabet)
    number = symbols.count(wanted)
    return ask(f"Count aloud. How many {wanted} are in {' '.join(symbols)}? ", f"{count_aloud(wanted, number)}{number}")


def count_aloud(wanted: str, number: int) -> str:
    """`N 1, N 2, so `."""
    return "".join(f"{wanted} {index}, " for index in range(1, number + 1)) + "so "


def check_count_aloud(question: str, answer: str) -> bool:
    number = answer.rpartition("so ")[2]
    plain = question.removeprefix("Count aloud. ")
    return check_count(plain, number) and answer == f"{count_aloud(plain.split()[2], int(number))}{number}"


def tell_story(rng: Random, size: int) -> Document:
    """A sum told in words: its expression and its value."""
    a, b = sorted((draw_number(rng, size) + 1, draw_number(rng, size) + 1), reverse=True)
    name, noun, symbol = rng.choice(NAMES), rng.choice(THINGS), rng.choice("+-*")
    b = rng.randint(2, 9) if symbol == "*" else b
    story = {
        "+": f"{name} has {a} {noun}s and finds {b} more.",
        "-": f"{name} has {a} {noun}s and loses {b}.",
        "*": f"{name} has {a} boxes with {b} {noun}s each.",
    }[symbol]
    return ask(f"{story} How many {noun}s? ", f"{a} {symbol} {b} = {compute(a, symbol, b)}")


def check_story(question: str, answer: str) -> bool:
    a, b = map(int, re.findall(r"\d+", question))
    symbol = "+" if "finds" in question else "-" if "loses" in question else "*"
    return answer == f"{a} {symbol} {b} = {compute(a, symbol, b)}"


LESSONS = (
    Lesson(draw=add_numbers, check=check_sum, sizes=(1, 2, 2, 2, 3), harder=4, weight=2),
    Lesson(draw=subtract_numbers, check=check_sum, sizes=(1, 2, 2, 2, 3), harder=4, weight=2),
    Lesson(draw=multiply_numbers, check=check_sum, sizes=(1, 2, 2), harder=3, weight=2),
    Lesson(draw=divide_numbers, check=check_sum, sizes=(1, 2), harder=3),
    Lesson(draw=find_remainder, check=check_sum, sizes=(1, 2), harder=3),
    Lesson(draw=speak_arithmetic, check=check_spoken, sizes=(20, 40), harder=99),
    Lesson(draw=write_in_words, check=check_words, sizes=(1, 2, 3), harder=4),
    Lesson(draw=write_in_digits, check=check_words, sizes=(1, 2, 3), harder=4),
    Lesson(draw=find_middle, check=check_middle, sizes=(20, 50, 100), harder=200, weight=2),
    Lesson(draw=narrow_interval, check=check_interval, sizes=(20, 50, 100), harder=200),
    Lesson(draw=evaluate_expression, check=check_expression, sizes=(2, 3), harder=4),
    Lesson(draw=reason_expression, check=check_expression, sizes=(2, 3, 3, 4), harder=5),
    Lesson(draw=approach_target, check=check_target, sizes=(1, 2, 2), harder=3),
    Lesson(draw=judge_equality, check=check_equality, sizes=(99, 199), harder=999),
    Lesson(draw=count_symbols, check=check_count, sizes=tuple(range(2, 13)), harder=16, weight=1.5),
    Lesson(draw=reason_count, check=check_count_aloud, sizes=tuple(range(2, 13)), harder=16),
    Lesson(draw=tell_story, check=check_story, sizes=(1, 2), harder=3),
)
