"""Logic: what follows is what a search backwards proves, at its depth; one fact decides; a coin is right half the
time."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.questions import logic
from rlx.env.questions.logic import Logic
from rlx.types import Action, Task
from tests.errors import raises_naming
from tests.loops import for_each

RULE = re.compile(r"If someone is (\w+)(?: and (\w+))? then they are (\w+)\.")
FACT = re.compile(r"([A-Z]\w+) is (\w+)\.")
ASKED = re.compile(r"Is it true that (\w+) is (not )?(\w+)\?")


def proved(text: str, person: str, word: str, depth: int) -> bool:
    """Backwards, from the text alone: whether at most `depth` rules in a row show it."""
    told = text.partition("\n")[0]
    if (person, word) in FACT.findall(RULE.sub("", told)):
        return True
    rules = [(tuple(filter(None, body)), head) for *body, head in RULE.findall(told)]
    return depth > 0 and any(
        head == word and all(proved(text, person, need, depth - 1) for need in body) for body, head in rules
    )


@pytest.mark.parametrize("num_distractors", [8, 16, 50])
def test_however_many_distractors_a_question_is_soon_found(
    monkeypatch: pytest.MonkeyPatch, num_distractors: int
) -> None:
    drawn = iter(range(500))
    draw = logic.draw_theory
    monkeypatch.setattr(logic, "draw_theory", lambda *given: (next(drawn), draw(*given))[1])
    assert len(tasks(3, depths=(20,), num_distractors=num_distractors)) == 3


def tasks(num: int, **keys: object) -> list[Task]:
    return list(islice(Logic(**keys).tasks("train", 0), num))  # type: ignore[arg-type]


@for_each("depth", range(6))
def test_an_answer_is_what_a_proof_of_that_depth_decides(depth: int) -> None:
    for task in tasks(30, depths=(depth,), num_distractors=3):
        text, key = task.prompt[0].text, task.data["key"]
        [(person, denied, word)] = ASKED.findall(text)
        follows = (key["answer"] == "yes") != bool(denied)
        assert proved(text, person, word, depth) == follows
        assert depth == 0 or not proved(text, person, word, depth - 1)
        assert proved(text, person, word, 8) == follows
        assert key["depth"] == depth
        assert f"{person} is {word}." in task.data["worked"]
        assert ("does not follow" in task.data["worked"]) == (not follows)


def test_answers_denials_and_depths_are_even() -> None:
    drawn = tasks(2000, depths=(0, 3))
    counts = Counter(
        (task.data["key"]["depth"], task.data["key"]["answer"], "is not" in task.prompt[0].text.rpartition("\n")[2])
        for task in drawn
    )
    assert len(counts) == 8
    assert min(counts.values()) > 200
    assert max(counts.values()) < 300


def test_how_often_the_person_is_named_does_not_give_the_answer_away() -> None:
    named: dict[bool, list[int]] = {True: [], False: []}
    for task in tasks(800, depths=(2,)):
        text = task.prompt[0].text
        [(person, denied, _)] = ASKED.findall(text)
        named[(task.data["key"]["answer"] == "yes") != bool(denied)].append(text.count(person))
    means = {follows: sum(counts) / len(counts) for follows, counts in named.items()}
    assert 0.0 < means[True] - means[False] < 1.1  # one fact makes the difference


@for_each("text, reward", [("yes", 1.0), (" Yes.", 1.0), ("TRUE", 1.0), ("no", 0.0), ("yes no", 0.0)])
def test_yes_may_be_said_as_true(text: str, reward: float) -> None:
    task = next(task for task in tasks(20) if task.data["answer"] == "yes")
    step = Logic().start(task).step(Action(kind="answer", text=text))
    assert step.reward == reward
    assert step.metrics == {f"depth_{task.data['key']['depth']}": reward}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 10), st.integers(0, 5))
def test_questions_have_the_depths_that_are_asked_for(depths: list[int], num_distractors: int, seed: int) -> None:
    env = Logic(depths=tuple(depths), num_distractors=num_distractors)
    assert {task.data["key"]["depth"] for task in islice(env.tasks("train", seed), 5)} <= set(depths)


@pytest.mark.parametrize("depths", [(), (-1,), (21,)])
def test_depths_that_cannot_be_are_refused(depths: tuple[int, ...]) -> None:
    with raises_naming(ValueError, "depths=", 0, 20):
        Logic(depths=depths)
