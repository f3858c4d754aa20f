"""Questions on an invented world: answers that its pages alone give, splits by what is asked, F1 or exact match."""

from __future__ import annotations

import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.questions.invented_world import JOBS, MONTHS, RELATIONS, World, draw_path, make_world, pages
from rlx.env.questions.qa import QA
from rlx.env.questions.wording import right_answers
from rlx.tool.lend import Lend
from rlx.tool.search import Search
from rlx.types import Action, Task
from tests.errors import raises_naming
from tests.loops import for_each


def look_up(told: str, asked: str) -> str | None:
    """From the text alone: the innermost description first, then the one around it."""
    for relation in RELATIONS:
        for template in (relation.question, relation.phrase):
            found = re.fullmatch(re.escape(template).replace(r"\{\}", "(.+)"), asked) if template else None
            if found:
                subject = look_up(told, found[1]) or found[1]
                sentence = re.escape(relation.sentence).replace(r"\{\}", "{}")
                value = re.search(sentence.format(re.escape(subject), r"([\w ]+)"), told)
                return value[1] if value else None
    return None


def split_prompt(task: Task) -> tuple[str, str]:
    told, _, asked = task.prompt[0].text.rpartition("Question: ")
    return told, asked


@for_each("hops", [1, 2, 3, 4])
def test_the_given_pages_and_no_fewer_give_the_answer(hops: int) -> None:
    for task in islice(QA(hops=(hops,)).tasks("train", 0), 40):
        told, asked = split_prompt(task)
        assert look_up(told, asked) == task.data["answer"] == task.data["key"]["golds"][0]
        assert len(told.splitlines()) == hops + 3
        found = [look_up("\n".join({*told.splitlines()} - {page}), asked) for page in told.splitlines()]
        assert found.count(None) == hops
        assert task.data["worked"].count(".") == hops


def test_without_context_only_the_question_is_told_and_the_splits_stay() -> None:
    given_ids = {task.id for task in QA(hops=(1,)).tasks("test", 0)}
    for task in QA(hops=(1,), context="none").tasks("test", 0):
        assert split_prompt(task)[0] == ""
        assert task.id in given_ids
    assert all(look_up("\n".join(pages()), split_prompt(task)[1]) for task in QA(context="none").tasks("test", 0))


def test_a_question_is_told_with_the_same_pages_each_time() -> None:
    told: dict[str, str] = {}
    for task in islice(QA(hops=(1,)).tasks("train", 3), 3000):
        assert told.setdefault(task.id, task.prompt[0].text) == task.prompt[0].text


def test_every_value_is_a_word_of_its_own() -> None:
    for subject, facts in make_world(World()).facts.items():
        assert all(len(word) > 2 or word.isdigit() or word == "a" for found in facts.values() for word in found.split())
        assert len(subject) > 4
    assert {
        found for facts in make_world(World()).facts.values() for r, found in facts.items() if r.object == "job"
    } == {*JOBS}
    assert len({*MONTHS}) == len(MONTHS) == 12


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_with_a_search_the_expert_finds_what_it_says(hops: int) -> None:
    env = Lend(env=QA(context="none", hops=(hops,), max_rounds=5), tool=Search(pages=pages()))
    for task in islice(env.tasks("train", 0), 20):
        episode, seen = env.start(task), ""
        *calls, last = env.demonstrate(task, 0, ("search",))
        assert len(calls) == hops
        for move in calls:
            seen += episode.step(move.action).observation[0].text
        assert all(sentence in seen for sentence in re.findall(r"\S[^.]+\.", task.data["worked"]))
        assert episode.step(last.action).success
        assert len(list(env.demonstrate(task, 0, ()))) == 1


def test_worlds_differ_and_names_in_one_do_not_repeat() -> None:
    assert make_world(World()).facts.keys().isdisjoint(set(make_world(World(number=1)).names["person"]))
    names = [name for kind in make_world(World()).names.values() for name in kind]
    assert len(set(names)) == len(names) == len(pages())
    families = [name.split()[1] for name in make_world(World()).names["person"]]
    assert len(set(families)) == len(families)


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_path_meets_nothing_twice(rng: object, length: int) -> None:
    path = draw_path(rng, make_world(World()), length)  # type: ignore[arg-type]
    assert len(set(path.met)) == length + 1 == len(path.relations) + 1


@for_each(
    "reward, text, paid",
    [("f1", "Mivo Lanopi", 1.0), ("f1", "it is Lanopi", 0.5), ("em", "it is Lanopi", 0.0), ("em", "the lanopi!", 1.0)],
)
def test_a_family_name_is_enough_and_words_too_many_cost_f1(reward: str, text: str, paid: float) -> None:
    env = QA(reward=reward)  # type: ignore[arg-type]
    data = {"key": {"golds": ["Mivo Lanopi", "Lanopi"]}, "answer": "Mivo Lanopi", "worked": ""}
    step = env.start(Task(id="x", prompt=(), data=data)).step(Action(kind="answer", text=text))
    assert step.reward == pytest.approx(paid)
    assert step.success == ("is" not in text)
    assert step.metrics["exact_match"] == float("is" not in text)


def test_dates_are_right_in_either_order() -> None:
    task = next(task for task in QA(hops=(1,)).tasks("train", 0) if "birthday" in task.prompt[0].text[-40:])
    day, month = task.data["answer"].split()
    for text in (f"{day} {month}", f"{month} {day}", f"on {month} {day}"):
        step = QA().start(task).step(Action(kind="answer", text=text))
        assert step.success == (not text.startswith("on"))


@for_each(
    "cell, golds",
    [
        ("Paris", ["Paris"]),
        (["a", "b"], ["a", "b"]),
        ({"text": ["a"], "answer_start": [1]}, ["a"]),
        (1873, ["1873"]),
        ([], []),
        (None, []),
        (" ", []),
        ({}, []),
    ],
)
def test_right_answers_may_be_one_or_several(cell: object, golds: list[str]) -> None:
    assert right_answers(cell) == golds


@for_each(
    "keys, place",
    [
        ({"hops": ()}, "hops="),
        ({"hops": (5,)}, "hops=[5]"),
        ({"num_distractors": -1}, "num_distractors=-1"),
        ({"num_test": 0}, "num_test=0"),
        ({"max_rounds": -1}, "max_rounds=-1"),
        ({"source": "hub"}, "hub="),
    ],
)
def test_what_cannot_be_is_refused(keys: dict, place: str) -> None:
    with raises_naming(ValueError, place):
        QA(**keys)
