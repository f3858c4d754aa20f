from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.env.calc.numerals import hear_number, say_number
from scripts.nano.skills import SKILLS, numbers, order, places, reading, worked
from scripts.nano.skills.lesson import ANSWER, QUESTION, Lesson, answer_of, is_held_out, question_of

LESSONS = [lesson for skill in SKILLS.values() for lesson in skill.lessons]
seeds = st.integers(min_value=0, max_value=2**32)


def sizes(lesson: Lesson) -> Iterator[int]:
    yield from sorted({*lesson.sizes, lesson.harder})


@settings(max_examples=25)
@given(seed=seeds)
def test_a_lesson_is_its_seed_and_its_own_check_passes_its_answer(seed: int) -> None:
    def is_sound(lesson: Lesson, size: int) -> bool:
        document = lesson.draw(Random(seed), size)
        is_weighted = document[0].weight == QUESTION and document[-1].weight == ANSWER
        is_right = lesson.check(question_of(document), answer_of(document))
        return is_weighted and is_right and document == lesson.draw(Random(seed), size)

    drawn = [(lesson, size) for lesson in LESSONS for size in sizes(lesson)]
    assert [(lesson.name, size) for lesson, size in drawn if not is_sound(lesson, size)] == []


@settings(max_examples=25)
@given(seed=seeds, other=seeds)
def test_an_answer_altered_or_of_another_item_is_refused(seed: int, other: int) -> None:
    def passes_wrongly(lesson: Lesson) -> bool:
        document, foreign = (lesson.draw(Random(number), lesson.sizes[-1]) for number in (seed, other))
        question, answer, wrong = question_of(document), answer_of(document), answer_of(foreign)
        is_other = wrong.split("\n")[-1][-20:] != answer.split("\n")[-1][-20:] and lesson.draw is not order.name_swaps
        return (
            lesson.check(question, f"{answer}x")
            or bool(answer and lesson.check(question, ""))
            or (is_other and lesson.check(question, wrong))
        )

    assert [lesson.name for lesson in LESSONS if passes_wrongly(lesson)] == []


def test_a_harder_set_is_not_among_the_sizes_trained_on() -> None:
    assert [lesson.name for lesson in LESSONS if lesson.harder <= max(lesson.sizes)] == []


def test_names_of_lessons_are_their_own() -> None:
    assert len({lesson.name for lesson in LESSONS}) == len(LESSONS)
    assert sum(skill.share for skill in SKILLS.values()) == pytest.approx(1)


def test_some_items_are_held_out_and_most_are_not() -> None:
    def num_held_out(lesson: Lesson) -> int:
        return sum(is_held_out(lesson.draw(Random(seed), lesson.sizes[-1])) for seed in range(300))

    assert [lesson.name for lesson in LESSONS if not 0 < num_held_out(lesson) < 60] == []


@given(st.integers(0, 999_999))
def test_numbers_are_said_and_read_back(value: int) -> None:
    assert hear_number(say_number(value)) == value


def test_the_fewest_swaps_are_the_items_less_the_cycles() -> None:
    assert order.find_swaps("ABCD", "ABCD") == []
    assert order.find_swaps("BADC", "ABCD") == [("B", "A"), ("D", "C")]
    assert len(order.find_swaps("BCDA", "ABCD")) == 3


def test_other_swaps_than_the_expert_s_pass_if_they_are_as_few() -> None:
    question = "Now C < A < B. Want A < B < C: "
    assert order.check_name_swaps(question, "swap C A, swap C B")
    assert order.check_name_swaps(question, "swap B C, swap A B")
    assert not order.check_name_swaps(question, "swap C A, swap C A, swap C A, swap C B")


def test_comparisons_leave_open_what_no_chain_joins() -> None:
    above = order.read_below("Given A < B, C > B, D > A. ")
    assert order.relate(above, "A", "C") == "A < C"
    assert order.relate(above, "D", "A") == "D > A"
    assert order.relate(above, "D", "B") == "open"


def test_an_expression_is_worked_out_innermost_first() -> None:
    assert numbers.work_out("(3 + 4) * (9 - 4)") == ["3 + 4 = 7", "9 - 4 = 5", "7 * 5 = 35"]
    assert numbers.work_out("3 - (9 - 4)") == ["9 - 4 = 5", "3 - 5 = -2"]


@given(st.integers(-5, 5), st.integers(0, 5))
def test_four_turns_or_a_turn_and_its_inverse_change_nothing(across: int, ahead: int) -> None:
    place = (across, ahead)
    for moves in (["turn left"] * 4, ["turn right"] * 4, ["turn left", "turn right"]):
        seen = place
        for move in moves:
            seen = places.moved(seen, move)
        assert seen == place


def test_the_move_to_a_thing_goes_ahead_then_to_its_side_then_stops() -> None:
    assert places.choose_move("go to the red ball", (-2, 3)) == "go forward"
    assert places.choose_move("go to the red ball", (-2, 0)) == "turn left"
    assert places.choose_move("go to the red ball", (0, 1)) == "done"
    assert places.choose_move("pick up the red ball", (0, 1)) == "pick up"
    assert places.moved((0, 2), "turn left") == (2, 0)
    assert places.moved((3, 1), "go forward") == (3, 0)


def test_a_chain_of_facts_is_followed_over_pages() -> None:
    page = "The Red Door: The Red Door was written by Ada.\nAda: Ada was born in Arden. Ada was taught by Tom."
    asked = "Where was the author of The Red Door born?"
    assert reading.check_chain(f"{page}\nQuestion: {asked}\n", "<answer>Arden</answer>")
    assert not reading.check_chain(f"{page}\nQuestion: {asked}\n", "<answer>Tom</answer>")
    assert reading.look_up(page, "Who taught Bea?") == reading.NOT_STATED


def test_sums_are_worked_out_column_by_column_and_part_by_part() -> None:
    assert worked.work_sum(47, 38) == ["7 + 8 = 15", "4 + 3 + 1 = 8"]
    assert worked.work_difference(52, 7) == ["12 - 7 = 5", "4 - 0 = 4"]
    assert worked.work_difference(300, 1) == ["10 - 1 = 9", "9 - 0 = 9", "2 - 0 = 2"]
    assert worked.work_product(47, 8) == ["40 * 8 = 320", "7 * 8 = 56", "320 + 56 = 376"]
    assert worked.work_product(0, 8) == []


def test_what_an_item_is_below_is_found_one_from_another() -> None:
    assert order.think_of("Given A < B, C > B, D > A. ", "A", "C") == "A < B, D, C. A > none. A < C"


def test_a_thing_passed_is_followed_behind() -> None:
    assert places.show_each((1, 0), ["go forward", "turn left"]) == [
        "go forward: 1 step right and 1 step back",
        "turn left: 1 step left and 1 step back",
        places.OUT_OF_SIGHT,
    ]
