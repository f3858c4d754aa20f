from __future__ import annotations

import operator
import re
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.model import lessons
from rlx.model.lessons import ANSWER, QUESTION, SKILLS, Document, Lesson, find_swaps, place_object, say_number

ALL = sorted({lesson for _, group in SKILLS.values() for lesson in group}, key=lambda lesson: lesson.__name__)
seeds = st.integers(min_value=0, max_value=2**32)


def parts(document: Document) -> tuple[str, str]:
    question, answer = document
    return question.text, answer.text


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.__name__)
@given(seed=seeds)
def test_a_lesson_is_its_seeds_and_asks_before_it_answers(lesson: Lesson, seed: int) -> None:
    document = lesson(Random(seed))
    assert document == lesson(Random(seed))
    assert document[0].weight == QUESTION
    assert document[-1].weight == ANSWER
    assert all(segment.text for segment in document)


@given(seeds)
def test_arithmetic_is_right(seed: int) -> None:
    question, answer = parts(lessons.do_arithmetic(Random(seed)))
    assert eval(question.removesuffix(" = ")) == int(answer)


@given(seeds)
def test_expressions_are_evaluated_rightly(seed: int) -> None:
    question, answer = parts(lessons.evaluate_expression(Random(seed)))
    assert eval(question.removesuffix(" = ")) == pytest.approx(float(answer))


@given(seeds)
def test_the_step_to_a_target_reaches_it(seed: int) -> None:
    question, answer = parts(lessons.approach_target(Random(seed)))
    target, start = re.findall(r"-?\d+", question)
    assert eval(answer) == int(target)
    assert answer.startswith(f"{start} ")


def ranks(order: str) -> dict[str, int]:
    return {item: rank for rank, item in enumerate(order.split(" < "))}


OPERATORS: dict[str, Callable[[int, int], bool]] = {"<": operator.lt, ">": operator.gt, "=": operator.eq}


@given(seeds)
def test_the_order_named_agrees_with_every_comparison_given(seed: int) -> None:
    question, answer = parts(lessons.name_order(Random(seed)))
    rank = ranks(answer)
    comparisons = re.findall(r"(\w+) ([<>]) (\w+)", question)
    assert {item for a, _, b in comparisons for item in (a, b)} == set(rank)
    assert all(OPERATORS[sign](rank[a], rank[b]) for a, sign, b in comparisons)


@given(seeds)
def test_compared_numbers_compare_so(seed: int) -> None:
    _, answer = parts(lessons.compare_numbers(Random(seed)))
    a, sign, b = answer.split()
    assert OPERATORS[sign](int(a), int(b))


@given(st.permutations(list("KCQXB")))
def test_swaps_lead_from_the_order_that_is_to_the_one_wanted_with_the_fewest(now: list[str]) -> None:
    wanted, state = sorted(now), list(now)
    swaps = find_swaps(now, wanted)
    for a, b in swaps:
        i, j = state.index(a), state.index(b)
        state[i], state[j] = state[j], state[i]
    assert state == wanted
    assert len(swaps) == len(now) - num_cycles([wanted.index(item) for item in now])


def num_cycles(permutation: list[int]) -> int:
    seen: set[int] = set()
    count = 0
    for start in range(len(permutation)):
        count += start not in seen
        while start not in seen:
            seen.add(start)
            start = permutation[start]
    return count


@given(seeds, st.integers(min_value=2, max_value=6))
def test_items_are_never_the_sorting_environments_own_set(seed: int, num: int) -> None:
    items = lessons.draw_items(Random(seed), num)
    assert len(set(items)) == num
    assert set(items) != set("ABCDEFGH"[:num])


@pytest.mark.parametrize(
    ("across", "ahead", "text"),
    [(-2, 1, "2 steps left and 1 step forward"), (3, 0, "3 steps right"), (0, 4, "4 steps forward")],
)
def test_objects_are_placed_in_words(across: int, ahead: int, text: str) -> None:
    assert place_object(Random(0), across, ahead) == text


@pytest.mark.parametrize(("number", "text"), [(0, "zero"), (13, "thirteen"), (40, "forty"), (99, "ninety-nine")])
def test_numbers_are_spoken(number: int, text: str) -> None:
    assert say_number(number) == text
