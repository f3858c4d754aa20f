"""Questions that one answer ends: what they have in common.

drawn from   a generator of the project, or the rows of a data set (rlx.env.hub)
Question     text  key  answer  worked
Task         its prompt is the text, its data all the rest, its id a hash of what is asked, which says its split too
answer       --judge(task, text)--> reward and success, which ends the episode
else         told so: a turn of the `max_rounds` that may pass, which the player counts
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any, ClassVar

from rlx.env.split import split_tasks
from rlx.limits import MANY, within
from rlx.types import Action, Move, Step, Task, Text, ToolUse

LONGEST = 20_000
"""Characters of an answer that are judged; a longer one is wrong."""


@dataclass(frozen=True, kw_only=True)
class Question:
    text: str
    key: Any
    """What answers are judged by, as JSON."""
    answer: str = ""
    """What an expert says; empty where no one knows it."""
    worked: str = ""
    """How it is found."""
    identity: str = ""
    """What the split goes by, where that is not all of the text."""


@dataclass(frozen=True, kw_only=True)
class Questions(ABC):
    """A family of them: where they are from, and how an answer is judged."""

    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    num_test: int = 500
    """Test questions, at most."""
    max_rounds: int = 0
    """Turns that may pass before the answer: calls of tools and invalid ones. The player counts them."""

    def __post_init__(self) -> None:
        within(1, MANY, num_test=self.num_test)
        within(0, MANY, max_rounds=self.max_rounds)

    @abstractmethod
    def tasks(self, split: str, seed: int) -> Iterator[Task]: ...

    @abstractmethod
    def judge(self, task: Task, text: str) -> Step:
        """What an answer is worth, whatever it says."""

    def start(self, task: Task) -> QuestionEpisode:
        return QuestionEpisode(self, task)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        if not task.data["answer"]:
            raise ValueError("env: no answer of an expert comes with these questions")
        yield Move(thought=task.data["worked"], action=Action(kind="answer", text=task.data["answer"]))


@dataclass(frozen=True, kw_only=True)
class DrawnQuestions(Questions):
    """A family with a generator."""

    @property
    @abstractmethod
    def stream(self) -> str:
        """What keys its random numbers."""

    @abstractmethod
    def draw(self, rng: Random) -> Question: ...

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return split_tasks(self.stream, lambda rng: describe(self.draw(rng)), split, seed, self.num_test)


class QuestionEpisode:
    def __init__(self, questions: Questions, task: Task) -> None:
        self.questions, self.task = questions, task

    def step(self, action: Action) -> Step:
        if action.kind == "answer":
            return self.questions.judge(self.task, action.text) if len(action.text) <= LONGEST else judged(0.0)
        if action.kind == "call":
            return Step(observation=(Text("Error: there is no such tool"),), tool=ToolUse(num_calls=1, num_failed=1))
        return Step(observation=(Text(f"Error: {action.text:.200}"),))


def describe(question: Question) -> Task:
    data = {"key": question.key, "answer": question.answer, "worked": question.worked}
    identity = sha256((question.identity or question.text).encode(errors="replace")).hexdigest()[:16]
    return Task(id=identity, prompt=(Text(question.text),), data=data)


def judged(reward: float, success: bool | None = None, metrics: Mapping[str, float] | None = None) -> Step:
    """The end; a success is an answer of full reward, unless it is said."""
    return Step(reward=reward, done=True, success=reward == 1.0 if success is None else success, metrics=metrics or {})
