"""monty rounds as Python does, to the last digit."""

from __future__ import annotations

import random
import struct

from rlx.tool.program import run_calls, run_programs
from rlx.tool.python import Python
from rlx.tool.tool import Result
from tests.loops import for_each

PYTHON = Python(seconds=20, memory_mb=256, max_characters=100_000)
PLACES = (0, 1, 2, 3, 6, 17, 22, 300, 323, 324, -1, -2, -3, -15, -16, -300, -307, -308, -309)


def numbers(seed: int, num: int) -> list[float]:
    """Draw decimals, halves of powers of ten, whole numbers and any floats."""
    draw = random.Random(seed)
    kinds = (
        lambda: draw.randint(-(10**6), 10**6) / 10 ** draw.randint(0, 6),
        lambda: draw.randint(-(10**7), 10**7) * 5 / 2 ** draw.randint(0, 8),
        lambda: float(draw.randint(-(10**17), 10**17)) * draw.choice([1, 5, 10]),
        lambda: struct.unpack("d", draw.randbytes(8))[0],
    )
    found = [draw.choice(kinds)() for _ in range(num)]
    return [x for x in found if x - x == 0]


def rounded(number: float, places: int) -> str:
    try:
        return repr(round(number, places))
    except OverflowError:
        return "OverflowError"


def test_every_float_is_rounded_as_python_rounds_it() -> None:
    pairs = [(x, n) for seed, n in enumerate(PLACES) for x in numbers(seed, 60)]
    code = f"""
def f(x, n):
    try:
        return repr(round(x, n))
    except OverflowError:
        return 'OverflowError'
print('|'.join([f(x, n) for x, n in {pairs}]))"""
    told = PYTHON.run(code)
    assert not told.failed
    assert told.output.split("|") == [rounded(*pair) for pair in pairs]


@for_each(
    "code, output",
    [
        ("round(2.675, 2)", "2.67"),
        ("round(0.15, 1), round(-0.04, 1), round(-0.0, -1)", "(0.1, -0.0, -0.0)"),
        ("round(2.5), round(3.5), round(True), round(25, -1), round(2.675, True)", "(2, 4, 1, 20, 2.7)"),
        ("round(number=2.675, ndigits=2), round(1.5, None)", "(2.67, 2)"),
        ("round(float('inf'), 2), round(float('nan'), 2)", "(inf, nan)"),
        ("list(map(round, [0.5, 1.5]))", "[0, 2]"),
        ("class A:\n    def __round__(self): return 5\nround(A())", "5"),
        ("def round(x): return 9\nround(2.4)", "9"),
        ("float = int = abs = 3\nround(1250.0, -2), round(0.15, 1)", "(1200.0, 0.1)"),
    ],
)
def test_round_is_as_it_is_in_python(code: str, output: str) -> None:
    assert PYTHON.run(code) == Result(output=output)


@for_each("code", ["round('a')", "round(2.5, 'a')", "round(2.5, 1.0)", "round()"])
def test_what_cannot_be_rounded_is_a_type_error(code: str) -> None:
    told = PYTHON.run(code)
    assert (told.output.partition(":")[0], told.failed) == ("TypeError", True)


def test_programs_and_functions_round_so_too() -> None:
    [told] = run_programs(PYTHON, "print(round(float(input()), 2))", ["2.675"])
    assert told == Result(output="2.67\n")
    [told] = run_calls(PYTHON, "def f(x):\n    return round(x, 1)", ["repr(f(0.15))"])
    assert told == Result(output="0.1")
