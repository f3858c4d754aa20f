"""Small programming problems, each with a solution and tests: programs that read and print, and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

WORDS = ("apple", "bridge", "cat", "door", "evening", "fox", "garden", "house", "iron", "jar", "kite", "lamp", "moon",
         "night", "orange", "path", "queen", "river", "stone", "tree")  # fmt: skip
NUM_TESTS = 6


class ProgramProblem(NamedTuple):
    text: str
    """Text of the problem, without an example."""
    solution: str
    tests: list[list[str]]
    """Inputs and outputs; or calls and the `repr` of their values."""
    calls: bool


def prints(text: str, solution: str, right: Callable[..., str], draw: Callable[[], tuple[Any, ...]]) -> ProgramProblem:
    """A program: each drawn value is a line."""
    drawn = [draw() for _ in range(NUM_TESTS)]
    tests = [["".join(f"{line}\n" for line in values), right(*values)] for values in drawn]
    return ProgramProblem(text, solution, tests, False)


def returns(text: str, solution: str, right: Callable[..., Any], draw: Callable[[], tuple[Any, ...]]) -> ProgramProblem:
    """A function of one's own called `f`."""
    drawn = [draw() for _ in range(NUM_TESTS)]
    tests = [[f"f({', '.join(map(repr, values))})", repr(right(*values))] for values in drawn]
    return ProgramProblem(f"Write a function f{text}", f"def f{solution}", tests, True)


def numbers(rng: Random) -> list[int]:
    return [rng.randint(-20, 50) for _ in range(rng.randint(1, 8))]


def words(rng: Random) -> list[str]:
    return [rng.choice(WORDS) for _ in range(rng.randint(1, 7))]


def line(values: list[Any]) -> str:
    return " ".join(map(str, values))


def weigh(rng: Random) -> ProgramProblem:
    a, b = rng.randint(2, 30), rng.randint(2, 30)
    return prints(
        f"Read two whole numbers, one a line. Print {a} times the first plus {b} times the second.",
        f"a = int(input())\nb = int(input())\nprint({a} * a + {b} * b)",
        lambda x, y: str(a * x + b * y),
        lambda: (rng.randint(-50, 50), rng.randint(-50, 50)),
    )


def multiples(rng: Random) -> ProgramProblem:
    step, first = rng.randint(2, 15), rng.randint(1, 20)
    return prints(
        f"Read a whole number n. Print the multiples of {step} from {first} to n, one a line.",
        f"n = int(input())\nfor i in range({first}, n + 1):\n    if i % {step} == 0:\n        print(i)",
        lambda n: "\n".join(str(i) for i in range(first, n + 1) if i % step == 0),
        lambda: (rng.randint(first, first + 60),),
    )


def above(rng: Random) -> ProgramProblem:
    low = rng.randint(-10, 40)
    quantity, function_name, right = rng.choice((("sum", "sum", sum), ("number", "len", len)))
    return prints(
        f"Read whole numbers from one line. Print the {quantity} of those that are greater than {low}.",
        f"numbers = [int(word) for word in input().split()]\nprint({function_name}([x for x in numbers if x > {low}]))",
        lambda input_text: str(right([x for x in map(int, input_text.split()) if x > low])),
        lambda: (line(numbers(rng)),),
    )


def letters(rng: Random) -> ProgramProblem:
    letter = rng.choice("aeghimnorst")
    preposition, sign = rng.choice((("with", "in"), ("without", "not in")))
    return prints(
        f"Read words from one line. Print those {preposition} the letter {letter}, in one line, in their order.",
        f'print(" ".join([word for word in input().split() if "{letter}" {sign} word]))',
        lambda input_text: line([word for word in input_text.split() if (letter in word) == (preposition == "with")]),
        lambda: (line(words(rng)),),
    )


def ask_turned(rng: Random) -> ProgramProblem:
    first = rng.randint(0, 8)
    return prints(
        f"Read a line. Print it backwards, without its first {first} letters.",
        f"print(input()[{first}:][::-1])",
        lambda input_text: input_text[first:][::-1],
        lambda: (line(words(rng)),),
    )


def every(rng: Random) -> ProgramProblem:
    step, first = rng.randint(2, 5), rng.randint(0, 4)
    return returns(
        f"(numbers) that returns a list: the number at index {first} of a list, and each that is {step} further on.",
        f"(numbers):\n    return numbers[{first}::{step}]",
        lambda values: values[first::step],
        lambda: (numbers(rng),),
    )


def long(rng: Random) -> ProgramProblem:
    size, more = rng.randint(2, 7), rng.random() < 0.5
    return returns(
        f"(words) that returns how many of a list of words have {'more' if more else 'fewer'} than {size} letters.",
        f"(words):\n    return len([word for word in words if len(word) {'>' if more else '<'} {size}])",
        lambda values: sum(len(word) > size if more else len(word) < size for word in values),
        lambda: (words(rng),),
    )


def digits(rng: Random) -> ProgramProblem:
    times, more = rng.randint(1, 9), rng.randint(0, 9)
    return returns(
        f"(n) that returns {times} times the sum of the digits of n, plus {more}.",
        f"(n):\n    return {times} * sum([int(digit) for digit in str(n)]) + {more}",
        lambda n: times * sum(map(int, str(n))) + more,
        lambda: (rng.randint(0, 10**6),),
    )


def clamp(rng: Random) -> ProgramProblem:
    low = rng.randint(-9, 20)
    high = low + rng.randint(1, 20)
    return returns(
        f"(numbers) that returns the numbers of a list, each below {low} as {low} and each above {high} as {high}.",
        f"(numbers):\n    return [min(max(x, {low}), {high}) for x in numbers]",
        lambda values: [min(max(x, low), high) for x in values],
        lambda: (numbers(rng),),
    )


def swap(rng: Random) -> ProgramProblem:
    old, new = rng.sample("aeioustr", 2)
    return returns(
        f"(text) that returns a text with each {old} as {new} and each {new} as {old}.",
        f'(text):\n    return "".join(["{new}" if x == "{old}" else "{old}" if x == "{new}" else x for x in text])',
        lambda text: "".join({old: new, new: old}.get(letter, letter) for letter in text),
        lambda: (line(words(rng)),),
    )


KINDS: Mapping[str, Callable[[Random], ProgramProblem]] = {
    kind.__name__: kind for kind in (weigh, multiples, above, letters, ask_turned, every, long, digits, clamp, swap)
}
