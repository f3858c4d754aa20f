"""Acting: the tags and bare words of every protocol, and doing exactly what is asked: this tool, that form, or no
tool. When to act is not among it."""

from __future__ import annotations

import re
from random import Random

from rlx.env.questions.known_names import NAMES, TITLES
from scripts.nano.skills.lesson import ANSWER, QUESTION, Document, Lesson, Segment, ask
from scripts.nano.skills.numbers import compute
from scripts.nano.skills.reading import SIMPLE, check_passage, draw_fact
from scripts.nano.skills.words import WORDS, show_number

FORMS = {
    "in <answer> tags": "<answer>{}</answer>",
    "in <think> tags": "<think>{}</think>",
    "in \\boxed{}": "\\boxed{{{}}}",
    "after final answer": "final answer: {}",
    "as it is": "{}",
}
TOOLS = {
    "python": "<python>\n{}\n</python>",
    "the calculator": "<calculator>{}</calculator>",
    "calculate": "calculate {} = ",
    "search": "<search>{}</search>",
    "access": "<access>{}</access>",
}
ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
PLACED = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


def draw_words(rng: Random, num: int) -> str:
    return " ".join(rng.choices(WORDS, k=num))


def draw_sum(rng: Random) -> tuple[int, str, int]:
    return rng.randint(1, 99), rng.choice("+-*"), rng.randint(1, 99)


def say_in_form(rng: Random, size: int) -> Document:
    """`size` words, said in the form that is asked for."""
    form, text = rng.choice(list(FORMS)), draw_words(rng, size)
    return ask(f"Say {form}: {text}\n", FORMS[form].format(text))


def check_form(question: str, answer: str) -> bool:
    form, _, text = question.removeprefix("Say ").strip().partition(": ")
    return answer == FORMS[form].format(text)


def use_tool(rng: Random, size: int) -> Document:
    """The tool that is named, on what it is to be given; or the answer, where no tool is to be used."""
    a, symbol, b = draw_sum(rng)
    texts = {"search": draw_words(rng, size), "access": rng.choice(TITLES)}
    tool = rng.choice(list(TOOLS))
    text = texts.get(tool, f"{a} {symbol} {b}")
    if rng.random() < 0.3:
        form = rng.choice((f"Do not use {tool}. The answer is {text}.\n", f"Use no tool. The answer is {text}.\n"))
        return ask(form, f"<answer>{text}</answer>")
    return ask(f"Use {tool}: {text}\n", TOOLS[tool].format(text))


def check_tool(question: str, answer: str) -> bool:
    refused = re.search(r"The answer is (.*)\.\n", question)
    if refused:
        return answer == f"<answer>{refused[1]}</answer>"
    tool, _, text = question.removeprefix("Use ").strip().partition(": ")
    return answer == TOOLS[tool].format(text)


def choose_action(rng: Random, size: int) -> Document:
    """The one of `size` actions that is named by its place, or by itself, in the form asked for."""
    actions = rng.sample(ACTIONS, size)
    chosen = rng.randrange(size)
    form, name = rng.choice(list(FORMS)), rng.choice((PLACED[chosen], "last" if chosen == size - 1 else PLACED[chosen]))
    return ask(f"Actions: {', '.join(actions)}\nSay the {name} {form}: ", FORMS[form].format(actions[chosen]))


def check_action(question: str, answer: str) -> bool:
    listed, request = question.split("\n")
    actions = listed.removeprefix("Actions: ").split(", ")
    name, _, form = request.removeprefix("Say the ").removesuffix(": ").partition(" ")
    return answer == FORMS[form].format(actions[-1] if name == "last" else actions[PLACED.index(name)])


def read_result(rng: Random, size: int) -> Document:
    """A tool is used as asked, and what it shows is the answer: the value of the last of `size` calls."""
    tags = rng.choice((("<calculator>{}</calculator>", "<result>{}</result>"), ("calculate {} = ", "{}\n")))
    tags = rng.choice((tags, ("<python>\n{}\n</python>", "\n<observation>\n{}\n</observation>\n")))
    name = next(tool for tool, form in TOOLS.items() if form == tags[0])
    sums = [draw_sum(rng) for _ in range(size)]
    sum_texts = "; ".join(f"{a} {symbol} {b}" for a, symbol, b in sums)
    segments = [Segment(f"Use {name} for each, then answer with the last: {sum_texts}\n", QUESTION)]
    for a, symbol, b in sums:
        segments.append(Segment(tags[0].format(f"{a} {symbol} {b}"), ANSWER))
        segments.append(Segment(tags[1].format(show_number(compute(a, symbol, b))), QUESTION))
    value = show_number(compute(*sums[-1]))
    return (*segments, Segment(f"<answer>{value}</answer>", ANSWER))


def check_result(question: str, answer: str) -> bool:
    """Each call as it was asked for, then the value shown last."""
    first, _, results = question.partition("\n")
    tool, _, sum_texts = first.removeprefix("Use ").partition(" for each, then answer with the last: ")
    calls = "".join(TOOLS[tool].format(text) for text in sum_texts.split("; "))
    return answer == f"{calls}<answer>{re.findall(r'-?[0-9]+', results)[-1]}</answer>"


def search_passage(rng: Random, size: int) -> Document:
    """A question, the search that is asked for, what came back, and the answer read from it."""
    facts = [(rng.choice(SIMPLE), name) for name in rng.sample(NAMES, size)]
    objects = [draw_fact(rng, relation, name) for relation, name in facts]
    page = " ".join(
        relation.sentence.format(name, value) for (relation, name), value in zip(facts, objects, strict=True)
    )
    chosen = rng.randrange(size)
    question = facts[chosen][0].question.format(facts[chosen][1])
    return (
        Segment(f"Search, then answer. Question: {question}\n", QUESTION),
        Segment(f"<search>{question.rstrip('?')}</search>", ANSWER),
        Segment(f"<information>{page}</information>", QUESTION),
        Segment(f"<answer>{objects[chosen]}</answer>", ANSWER),
    )


def check_search(question: str, answer: str) -> bool:
    query, page = question.removeprefix("Search, then answer. Question: ").split("\n")
    search, _, rest = answer.partition("</search>")
    page = page.removeprefix("<information>").removesuffix("</information>")
    return search == f"<search>{query.rstrip('?')}" and check_passage(f"{page}\nQuestion: {query}\n", rest)


LESSONS = (
    Lesson(draw=say_in_form, check=check_form, sizes=(1, 1, 2, 3, 4), harder=8),
    Lesson(draw=use_tool, check=check_tool, sizes=(1, 2, 3, 4), harder=8),
    Lesson(draw=choose_action, check=check_action, sizes=(2, 3, 4, 5), harder=7),
    Lesson(draw=read_result, check=check_result, sizes=(1, 2), harder=4),
    Lesson(draw=search_passage, check=check_search, sizes=(1, 2, 3, 4, 5), harder=8),
)
