"""The common part of questions that one answer ends.

drawn from   a generator, or the rows of a data set (rlx.env.hub).
Question     text, key, answer, worked.
Task         its prompt is the text, its data all the rest; its id is a hash of the question: the split goes by it
answer       --judge(task, text)--> reward and success, which ends the episode
else         told so: a turn of the `max_rounds` that may pass, which the player counts
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from random import Random
from typing import Any

from rlx.base.limits import MANY, within
from rlx.env.split import split_tasks
from rlx.environment import Environment, Episode
from rlx.types import Action, Move, Step, Task, Text, ToolUse

LONGEST = 20_000
"""Characters of an answer that are judged; a longer one is wrong."""


@dataclass(frozen=True, kw_only=True)
class Question:
    text: str
    key: Any
    """The key that answers are judged by, as JSON."""
    answer: str = ""
    """The expert's answer; empty if unknown."""
    worked: str = ""
    """The way to find it."""
    identity: str = ""
    """The text that decides the split, where that is not all of the question."""


@dataclass(frozen=True, kw_only=True)
class Questions(Environment):
    """A family of them: where they are from, and how an answer is judged."""

    reward_wrong: float = 0.0
    """Reward of an answer with a score of 0; -1 punishes wrong answers."""
    num_test: int = 500
    """Largest number of test questions, which are the same for every seed."""
    max_rounds: int = 0
    """Turns before the answer: tool calls and invalid turns."""

    def __post_init__(self) -> None:
        within(1, MANY, num_test=self.num_test)
        within(0, MANY, max_rounds=self.max_rounds)
        within(-1000, 0, reward_wrong=self.reward_wrong)

    @property
    def reward_range(self) -> tuple[float, float]:
        return min(0.0, self.reward_wrong), 1.0

    @abstractmethod
    def tasks(self, split: str, seed: int) -> Iterator[Task]: ...

    @abstractmethod
    def judge(self, task: Task, text: str) -> Step:
        """Return the worth of an answer, whatever it says."""

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
        """Return the key of its random numbers."""

    @abstractmethod
    def draw(self, rng: Random) -> Question: ...

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return split_tasks(self.stream, lambda rng: describe(self.draw(rng)), split, seed, self.num_test)


class QuestionEpisode(Episode):
    def __init__(self, questions: Questions, task: Task) -> None:
        self.questions, self.task = questions, task

    def step(self, action: Action) -> Step:
        if action.kind == "answer":
            step = self.questions.judge(self.task, action.text) if len(action.text) <= LONGEST else end_judged(0.0)
            return step if step.reward else replace(step, reward=self.questions.reward_wrong)
        if action.kind == "call":
            return Step(observation=(Text("Error: there is no such tool"),), tool=ToolUse(num_calls=1, num_failed=1))
        return Step(observation=(Text(f"Error: {action.text:.200}"),))


def describe(question: Question) -> Task:
    data = {"key": question.key, "answer": question.answer, "worked": question.worked}
    identity = sha256((question.identity or question.text).encode(errors="replace")).hexdigest()[:16]
    return Task(id=identity, prompt=(Text(question.text),), data=data)


def end_judged(
    reward: float, success: bool | None = None, metrics: Mapping[str, float] | None = None, num_stopped: int = 0
) -> Step:
    """The end; a success is an answer of full reward, unless it is said. The clock ended `num_stopped` judgements."""
    success = reward == 1.0 if success is None else success
    tool = ToolUse(num_stopped=num_stopped)
    return Step(reward=reward, done=True, success=success, metrics=metrics or {}, tool=tool)
