"""Problems with larger numbers: each step redone by another route, and none where a number could be two things."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from rlx.base.limits import MistakeError
from rlx.env.calc.gsm8k import SCALED, GSM8KStar, make_pressable
from rlx.env.calc.gsm8k_scaling import Worked, scale
from rlx.env.questions.number import read_number
from rlx.env.questions.word_problems import KINDS
from rlx.environment.world import moves_of, open_episode
from rlx.types import Action
from tests.errors import raises_naming
from tests.loops import for_each

STORY = "Natalia sold 48 clips in April, and half as many in May, and gave away 13. How many are left?"
TOLD = "In May <<48/2=24>>24. In all <<48+24=72>>72. She has <<72-13=59>>59.\n#### 59"


def go(text: str, *steps: str, answer: int, seed: int = 0) -> tuple[Worked, Fraction] | None:
    return scale(Worked(text, steps), Fraction(answer), Random(seed), 10**6)


def test_a_story_by_hand() -> None:
    """13 is told once and used once; 2 is known and stays; 6 * 13 = 78 has become another number."""
    found = go("Ben has 6 boxes of 13 pens and gets 2 times as many.", "6 * 13", "78 * 2", answer=156)
    assert found is not None
    problem, value = found
    boxes, pens = (int(number) for number in re.findall(r"\d+", problem.text)[:2])
    assert problem.text == f"Ben has {boxes} boxes of {pens} pens and gets 2 times as many."
    assert problem.steps == (f"{boxes} * {pens}", f"{boxes * pens} * 2")
    assert value == boxes * pens * 2 > 156


@for_each(
    "text, steps, answer, why",
    [
        ("He has 6 and 13.", ("6 * 13",), 79, "the answer is another"),
        ("He has 6 and 13.", ("6 * 14",), 84, "14 is nowhere told"),
        ("He has 12 and 4 and 16.", ("12 + 4", "16 + 16"), 32, "16 is told and found"),
        ("He has 6 and 6.", ("6 + 6",), 12, "6 is told twice, and stays"),
        ("At 6:13 he ran 4/5 of it.", ("6 * 13",), 78, "parts of a time"),
        ("He has 6 and 13.", ("6 * (13",), 78, "it cannot be read"),
        ("He has 13 and 6.", ("6 - 13",), -7, "less than nothing"),
        ("He has 6.", (), 6, "no steps"),
    ],
)
def test_what_is_not_clear_is_left_out(text: str, steps: tuple[str, ...], answer: int, why: str) -> None:
    assert go(text, *steps, answer=answer) is None, why


def test_shares_of_a_hundred_stay() -> None:
    for told, *steps in (("35 percent", "80 * 35", "2800 / 100", "80 - 28"), ("35%", "80 * .35", "80 - 28")):
        found = go(f"A coat of 80 dollars falls by {told}.", *steps, answer=52)
        assert found is not None
        problem, value = found
        price = int(re.findall(r"\d+", problem.text)[0])
        assert problem.text == f"A coat of {price} dollars falls by {told}."
        assert value == Fraction(65, 100) * price > 52


@for_each("kind", SCALED)
def test_of_every_kind_some_are_scaled_and_their_steps_are_true(kind: str) -> None:
    for task in islice(GSM8KStar(kinds=(kind,)).tasks("train", 0), 10):
        told: set[Any] = {read_number(number) for number in re.findall(r"\d+(?:\.\d+)?", task.prompt[0].text)}
        value = None
        for expression in task.data["key"]["sums"]:
            used = {Fraction(number) for number in re.findall(r"\d+(?:\.\d+)?", expression)}
            assert used <= told | {Fraction(100)}
            value = Fraction(
                eval(re.sub(r"[\d.]+", lambda n: f"Fraction('{n[0]}')", expression), {"Fraction": Fraction})
            )
            told.add(value)
        assert value == Fraction(task.data["key"]["answer"])
        assert max(told) < 10**9


def test_a_problem_is_scaled_alike_each_time_and_numbers_have_grown() -> None:
    text, value, _ = KINDS["gain"](Random(5), 20)
    numbers = re.findall(r"\d+", text)
    env = GSM8KStar()
    asked = [env.ask_scaled(Worked(text, (" + ".join(numbers),)), value) for _ in range(2)]
    assert asked[0] == asked[1] is not None
    grown = [
        len(number) for task in islice(env.tasks("test", 0), 100) for number in re.findall(r"\d+", task.prompt[0].text)
    ]
    assert max(grown) >= 6


def test_a_data_set_in_the_form_of_gsm8k_is_scaled(tmp_path: Path) -> None:
    row = {"question": STORY, "answer": TOLD}
    unclear = {"question": "He has 6 and 13. How many?", "answer": "<<6*14=84>>84\n#### 84"}
    one = {"question": "A box has 37 pens. How many have 5 boxes?", "answer": "5 have <<37*5=185>>185\n#### 185"}
    path = tmp_path / "rows.jsonl"
    many = [one | {"question": f"{one['question']} Ask {name}."} for name in "abcdefgh"]
    path.write_text("".join(json.dumps(each) + "\n" for each in (unclear, row, *many)))
    env = GSM8KStar(source="hub", hub=str(path))
    env.check_inputs()
    tasks = [*islice(env.tasks("train", 0), 9), *env.tasks("test", 0)]
    assert len({task.id for task in tasks}) <= 9
    for task in tasks:
        with open_episode(env, task) as episode:
            steps = [episode.step(move.action) for move in moves_of(env, task, 0, ("calculate",))]
        assert steps[-1].success
        assert not re.search(r"\b37\b", task.prompt[0].text)


def test_a_data_set_without_steps_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "6 * 7?", "answer": "42"}) + "\n")
    with raises_naming(MistakeError, "env.hub=", "<<6*7=42>>"):
        GSM8KStar(source="hub", hub=str(path)).check_inputs()
    with raises_naming(MistakeError, "env.question_key=problem", "row 0"):
        GSM8KStar(source="hub", hub=str(path), question_key="problem").check_inputs()


def test_what_cannot_be_made_larger_is_refused() -> None:
    with raises_naming(ValueError, "env:", "`largest`", "`high`"):
        next(GSM8KStar(largest=10, high=1000).tasks("train", 0))


def test_what_begins_with_a_point_can_be_pressed() -> None:
    assert make_pressable("80 * .65 + 0.5 - 10.5") == "80 * (65 / 100) + (5 / 10) - 10.5"


def test_numbers_are_compared_exactly() -> None:
    env = GSM8KStar()
    task = next(env.tasks("train", 0))
    right = task.data["key"]["answer"]
    for text in (right, f"${int(right):,}", f"{right}.000", f"It is {right} dollars."):
        assert env.start(task).step(Action(kind="answer", text=text)).success
    for text in (f"{right}.001", f"-{right}", f"{right}0", f"{right}, so 0"):
        assert not env.start(task).step(Action(kind="answer", text=text)).success
