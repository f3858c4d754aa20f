"""Stories of GSM8K*: enough of them, split by template, with answers that a second calculation agrees with."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import islice
from random import Random

from rlx.env.calc.gsm8k import SCALED, GSM8KStar
from rlx.env.calc.stories import Story, read_stories, stories_of, tell
from rlx.env.questions.word_problems import BOXES, NAMES, THINGS
from rlx.types import Task
from tests.loops import for_each

WORDS = re.compile("|".join((*NAMES, *THINGS, *BOXES, r"\d+")))


def blank(text: str) -> str:
    """Return a question without what differs between two questions of one template."""
    return WORDS.sub("_", text)


@cache
def drawn(split: str, num: int) -> tuple[Task, ...]:
    return tuple(islice(GSM8KStar(num_train=5317, num_test=579).tasks(split, 0), num))


def test_no_template_of_the_test_is_in_training() -> None:
    train, test = (stories_of(is_test) for is_test in (False, True))
    assert len({blank(story.text) for story in read_stories()}) >= 100
    assert not {story.text for story in train} & {story.text for story in test}
    assert len(train) + len(test) == len(read_stories())
    seen = {split: {blank(task.prompt[0].text) for task in drawn(split, 579)} for split in ("train", "test")}
    assert not seen["train"] & seen["test"]
    assert len(seen["test"]) >= 24
    assert len(seen["train"]) >= 75


def test_problems_have_1_to_5_steps_in_both_splits_and_few_have_one() -> None:
    for split in ("train", "test"):
        steps = Counter(len(task.data["key"]["sums"]) for task in drawn(split, 579))
        assert set(steps) == {1, 2, 3, 4, 5}
        assert steps[1] / 579 < 0.15
        assert {
            sign for task in drawn(split, 579) for step in task.data["key"]["sums"] for sign in step.split()[1]
        } == {*"+-*/"}


@for_each("story", read_stories())
def test_every_story_is_told_and_its_answer_follows_from_its_letters(story: Story) -> None:
    rng, told = Random(story.text), 0
    for _ in range(200):
        found = tell(story, rng, 20)
        if found is None:
            continue
        told += 1
        problem, answer = found
        assert "{" not in problem.text
        assert problem.text.endswith("?")
        values: list[Fraction] = []
        for step, meant in zip(problem.steps, story.steps, strict=True):
            left, sign, right = step.split()
            for token, name in ((left, meant.split()[0]), (right, meant.split()[2])):
                if name.startswith("#"):
                    assert Fraction(token) == values[int(name[1:]) - 1]
                elif name.isalpha():
                    assert re.search(rf"(?<!\d){token}(?!\d)", problem.text)
            a, b = Fraction(left), Fraction(right)
            values.append({"+": a + b, "-": a - b, "*": a * b, "/": a / b}[sign])
            assert values[-1] > 0
            assert values[-1].denominator == 1
        assert values[-1] == answer
    assert told >= 10


def test_scaled_answers_follow_from_the_steps_and_numbers_are_large() -> None:
    largest = 0
    for task in drawn("train", 300):
        worked = task.data["worked"].removeprefix("I calculate ").removesuffix(".").split(", then ")
        value = Fraction(0)
        for step in worked:
            left, sign, right = step.split()
            a, b = Fraction(left), Fraction(right)
            value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[sign]
        assert value == Fraction(task.data["answer"])
        largest = max(largest, *map(int, re.findall(r"\d+", task.prompt[0].text)))
    assert 10**5 < largest <= 10**6


def test_kinds_are_the_same_in_both_splits_as_before() -> None:
    env = GSM8KStar(kinds=SCALED)
    first = next(env.tasks("train", 0))
    assert len({blank(task.prompt[0].text) for task in islice(env.tasks("test", 0), 200)}) <= 11
    assert first.data["key"]["sums"]
