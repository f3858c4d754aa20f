"""The tasks by hand: what is asked, what is right and what is not, and what is counted."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import pytest

from rlx.env.calc.arithmetic import Arithmetic
from rlx.env.calc.calc_countdown import CalcCountdown
from rlx.env.calc.calc_question import CalcQuestions
from rlx.env.calc.calc_sudoku import CalcSudoku
from rlx.env.calc.expressions import hear
from rlx.env.calc.modulo import Modulo
from rlx.env.calc.symbols import Count, Repeat, final
from rlx.env.game.sudoku_grids import solutions, units_of
from rlx.types import Action, Step, Task, ToolUse
from tests.errors import raises_naming
from tests.loops import for_each


def say(env: CalcQuestions, key: Any, text: str, kind: Any = "answer") -> Step:
    task = Task(id="x", prompt=(), data={"key": key, "answer": "", "worked": ""})
    return env.start(task).step(Action(kind=kind, text=text, name="calculate" if kind == "call" else ""))


def texts(env: CalcQuestions, split: str, num: int = 300) -> list[str]:
    return [task.prompt[0].text for task in islice(env.tasks(split, 0), num)]


def test_the_answer_is_the_last_line_from_its_last_colon() -> None:
    assert final("first\n\n So: it is: 12 \n\n") == "12"
    assert final("12") == "12"
    assert final(" \n ") == ""


def test_tests_of_arithmetic_are_longer_and_more_of_them_in_words() -> None:
    env = Arithmetic()
    for split, most, share in (("train", 4, 0.1), ("test", 6, 0.7)):
        asked = texts(env, split)
        heard = [hear(text.removeprefix("What is ").removesuffix("?")) for text in asked]
        assert {len(re.findall(r"[-+*/]", text)) for text in heard} == set(range(2, most + 1))
        in_words = sum(re.search("[a-z]", text.removeprefix("What is ")) is not None for text in asked)
        assert share - 0.08 < in_words / len(asked) < share + 0.08
        assert max(len(number) for text in heard for number in re.findall(r"\d+", text)) == 5


@for_each(
    "text, is_right",
    [
        ("(44 + 35) + 19", True),
        ("44+35+19 = 98", True),
        ("19 + 44 + 35.", True),
        ("98", False),
        ("44 + 35 + 19 + 0", False),
        ("44 + 35", False),
        ("44 + 44 + 35 + 19 - 44", False),
        ("98 = 44 + 35 + 19", True),
        ("2 ** 3", False),
    ],
)
def test_countdown_takes_every_number_exactly_once(text: str, is_right: bool) -> None:
    step = say(CalcCountdown(), {"numbers": [19, 44, 35], "target": "98"}, text)
    assert (step.success, step.reward) == (is_right, float(is_right))


def test_a_target_may_have_decimals() -> None:
    key = {"numbers": [7, 2], "target": "3.5"}
    assert say(CalcCountdown(), key, "7 / 2").success
    assert not say(CalcCountdown(), key, "2 / 7").success


def test_countdown_counts_numbers_that_are_not_the_questions() -> None:
    key = {"numbers": [19, 44, 35], "target": "98"}
    for text, num in (("44 + 35 =", 0), ("44 + 3", 1), ("63 + 63 + 19.5", 3), ("", 0)):
        step = say(CalcCountdown(), key, text, "call")
        assert step.metrics == {"hallucinated": float(num)}
    assert say(CalcCountdown(), key, "98").metrics == {"hallucinated": 0.0}


def test_countdown_has_four_numbers_of_four_digits() -> None:
    for task in islice(CalcCountdown().tasks("train", 0), 100):
        numbers = task.data["key"]["numbers"]
        assert len(numbers) == 4
        assert max(numbers) < 10_000
        assert f"Using the numbers {numbers}, create" in task.prompt[0].text


def test_the_calculator_keeps_nothing_and_what_fails_is_counted() -> None:
    step = say(Modulo(), {"answer": "1"}, "1 / 0 =", "call")
    assert step.observation[0].text == "Error: division by zero"
    assert step.tool == ToolUse(num_calls=1, num_failed=1)
    assert not step.done


def test_count_asks_in_words_nine_times_of_ten() -> None:
    asked = texts(Count(), "train", 500)
    in_words = [re.fullmatch(r"How many (\S) are in (.+)\?", text) for text in asked]
    formulas = [re.fullmatch(r"count\((\S); (.+)\) = \?", text) for text in asked]
    assert all(bool(a) != bool(b) for a, b in zip(in_words, formulas))
    assert 0.85 < sum(map(bool, in_words)) / 500 < 0.95
    for task, found in zip(islice(Count().tasks("train", 0), 500), map(lambda a, b: a or b, in_words, formulas)):
        assert found is not None
        assert str(found[2].split().count(found[1])) == task.data["answer"]
        assert 2 <= len(found[2].split()) <= 20


def test_repeat_is_right_to_the_symbol() -> None:
    key = {"answer": "# @ # @"}
    for text in ("# @ # @", "#@#@", "Well: # @ # @"):
        assert say(Repeat(), key, text).success
    for text in ("# @ #", "# @ # @ #", "@ # @ #", "# @ # @."):
        assert not say(Repeat(), key, text).success


def test_modulo_by_hand() -> None:
    for task in islice(Modulo().tasks("train", 0), 100):
        number, divisor = map(int, re.findall(r"\d+", task.prompt[0].text))
        assert task.data["answer"] == str(number % divisor)
        assert number >= divisor


@pytest.mark.parametrize(("split", "size", "box"), [("train", 6, "2 x 3"), ("test", 4, "2 x 2")])
def test_sudoku_is_of_six_rows_in_training_and_four_in_tests(split: str, size: int, box: str) -> None:
    for task in islice(CalcSudoku().tasks(split, 0), 5):
        told, *rows = task.prompt[0].text.splitlines()
        assert f"box of {box} has each digit from 1 to {size} once" in told
        puzzle = [0 if cell == "." else int(cell) for row in rows for cell in row.split()]
        assert [[*map(str, grid)] for grid in solutions(puzzle)] == [list(task.data["key"]["answer"])]
        said = task.data["answer"]
        for text in (said, said.replace(" / ", "\n"), said.replace(" ", ""), f"The grid is\n{said}"):
            assert say(CalcSudoku(), task.data["key"], text).success
        assert not say(CalcSudoku(), task.data["key"], said[:-1]).success


def test_boxes_of_six_are_two_by_three() -> None:
    boxes = units_of(6).units[12:]
    assert boxes[0] == (0, 1, 2, 6, 7, 8)
    assert boxes[3] == (15, 16, 17, 21, 22, 23)
    assert sorted(cell for box in boxes for cell in box) == list(range(36))


@for_each(
    "make, place",
    [
        (lambda: Arithmetic(min_operations=5), "min_operations=5"),
        (lambda: Arithmetic(digits=9), "digits=9"),
        (lambda: Arithmetic(words=2.0), "words=2.0"),
        (lambda: CalcCountdown(max_operations=9), "max_operations=9"),
        (lambda: Count(symbols="AAB"), "symbols=AAB"),
        (lambda: Repeat(symbols="a:"), "symbols=a:"),
        (lambda: CalcSudoku(test_size=5), "test_size=5"),
        (lambda: CalcSudoku(clues=36), "clues=36"),
        (lambda: Count(num_train=0), "num_train=0"),
    ],
)
def test_what_cannot_be_asked_is_refused(make: Any, place: str) -> None:
    with raises_naming(ValueError, place):
        make()
