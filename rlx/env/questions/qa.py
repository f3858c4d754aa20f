"""Questions answered in a few words: token F1 and exact match, the best of several right answers.

The project's own are on an invented world (rlx.env.questions.invented_world): its pages are given with the question,
or must be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, ClassVar, Literal

from rlx.base.limits import refuse, within
from rlx.env.questions.invented_world import (
    LONGEST,
    InventedWorld,
    Names,
    Path,
    World,
    draw_pages,
    draw_path,
    make_world,
    world_of,
)
from rlx.env.questions.question import Question, end_judged
from rlx.env.questions.relations import chains
from rlx.env.questions.sourced import SourcedQuestions
from rlx.env.questions.wording import exact_match, f1, right_answers
from rlx.types import Action, Move, Step, Task

NAME = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)*|(?<!\d)\d+ [A-Z][a-z]+|\d{4}")


@dataclass(frozen=True, kw_only=True)
class WordQuestions(SourcedQuestions):
    """Questions whose answers are a few words. A success is an exact match; the reward is that, or the F1."""

    discount: ClassVar = 0.9

    reward: Literal["f1", "em"] = "f1"
    """Reward: f1 (word overlap with a right answer) or em (exact match); success is an exact match."""
    hops: tuple[int, ...] = (1, 2)
    """Facts that a question needs: one of these, drawn evenly, each from 1 to 4 (source=generated)."""
    world: int = 0
    """Number of the invented world (source=generated)."""
    names: Names = "invented"
    """Words that the world's names are made of: invented, or known (to the embedded model) (source=generated)."""
    relations: tuple[str, ...] | None = None
    """Relations of the world: born, birthday, job, school, teacher, place, country, ruler, author, year; null: all
    that suit its names."""
    sizes: Mapping[str, int] | None = None
    """Numbers of names where they differ from the default, such as {person: 60, town: 10}; kinds: person, town,
    school, country, book."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hops", tuple(self.hops))
        if not self.hops or not all(1 <= hops <= LONGEST for hops in self.hops):
            refuse("hops", list(self.hops), f"integers from 1 to {LONGEST}, at least one")
        for hops in self.hops if self.source == "generated" else ():
            if not chains(hops, self.settings.active_relations):
                refuse("hops", list(self.hops), f"lengths of chains of {', '.join(self.relations or ())}")

    @cached_property
    def settings(self) -> World:
        """Settings of the invented world."""
        return world_of(self.world, self.names, self.relations, self.sizes)

    def draw_way(self, rng: Random) -> tuple[InventedWorld, Path]:
        """Draw a question on the world."""
        world = make_world(self.settings)
        return world, draw_path(rng, world, rng.choice(self.hops), self.settings.active_relations)

    def read(self, row: Mapping[str, Any]) -> Question | None:
        golds = right_answers(row[self.answer_key])
        return self.put(str(row[self.question_key]), golds) if golds else None

    def put(self, question: str, golds: list[str], before: str = "") -> Question:
        """Return a question. Its split depends on what is asked alone, whatever stands before it."""
        return Question(text=f"{before}Question: {question}", identity=question, key={"golds": golds}, answer=golds[0])

    def judge(self, task: Task, text: str) -> Step:
        golds = task.data["key"]["golds"]
        match, score = exact_match(text, golds), f1(text, golds)
        reward = score if self.reward == "f1" else float(match)
        return end_judged(reward, match, {"f1": score, "exact_match": float(match)})

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """The honest floor: distinct names, dates and years that the task shows (fewer, if there are no more)."""
        names = sorted(set(NAME.findall(task.prompt[0].text.replace("Question: ", ""))))
        return Random(f"qa/random/{seed}/{task.id}").sample(names, min(num, len(names)))


@dataclass(frozen=True, kw_only=True)
class QA(WordQuestions):
    """Questions with the pages that they need, or without."""

    context: Literal["given", "none"] = "given"
    """Pages that the answer needs: given (they come with the question) or none."""
    num_distractors: int = 3
    """Pages given beside those that are needed (source=generated)."""
    context_key: str | None = None
    """The data set's column of what to read; null: it has none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(0, 100, num_distractors=self.num_distractors)

    @property
    def stream(self) -> str:
        return f"qa/{self.world}"

    @property
    def columns(self) -> dict[str, str]:
        return super().columns | ({"context_key": self.context_key} if self.context_key else {})

    def draw(self, rng: Random) -> Question:
        world, path = self.draw_way(rng)
        pages = draw_pages(Random(f"{self.stream}/{path.question}"), world, path, self.num_distractors)
        question = self.put(path.question, path.golds, self.preamble("\n".join(pages)))
        return replace(question, worked=" ".join(path.sentences), key={**question.key, "searches": path.met[:-1]})

    def read(self, row: Mapping[str, Any]) -> Question | None:
        golds = right_answers(row[self.answer_key])
        context = row[self.context_key] if self.context_key else None
        before = self.preamble("" if context is None else str(context))
        return self.put(str(row[self.question_key]), golds, before) if golds else None

    def preamble(self, context: str) -> str:
        """Return the context as the lines before the question; an empty text if the prompt shows no context."""
        return f"{context}\n" if context and self.context == "given" else ""

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Yield the searches that an answer needs, where the agent has a search; then the answer."""
        for name in task.data["key"].get("searches", ()) if "search" in tools and self.context == "none" else ():
            yield Move(thought=f"I need the page of {name}.", action=Action(kind="call", name="search", text=name))
        yield from super().demonstrate(task, seed, tools)
