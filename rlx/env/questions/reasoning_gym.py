"""Every task of reasoning-gym (Stojanovski et al. 2025, arXiv:2505.24760), drawn and scored by its own data sets, in
contained processes (rlx.env.questions.reasoning_gym_scorer).

The test is of the data sets of `seed` and the seeds after it, training of seeds drawn for the run's; a hash of the
question keeps them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from rlx.base.limits import MistakeError, Switch, above, near, within
from rlx.env.questions.question import Question, Questions, describe, end_judged
from rlx.env.split import test_tasks, train_tasks
from rlx.tool.contain.box import Box, Limits, box
from rlx.tool.contain.process import ChildError, LateError, StartError
from rlx.tool.processor import clock_limit
from rlx.types import Step, Task

SCORER = str(Path(__file__).with_name("reasoning_gym_scorer.py"))
LIMITS = Limits(memory_mb=4096, cpu_seconds=600)
LARGEST_SIZE = 2**31 - 1
"""Questions of a data set, which are drawn when they are asked: GEM's own scripts name a billion."""
PATIENCE = 300.0
"""Seconds for one question to be drawn."""


@dataclass(frozen=True, kw_only=True)
class ReasoningGym(Questions):
    """The reward is the score of the task's own data set, which may be a part of 1."""

    task: str = "leg_counting"
    """Name of the task in reasoning-gym: leg_counting, chain_sum, mini_sudoku …"""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The task's own options: +env.options.min_terms=2."""
    size: int = 500
    """Questions of one of its data sets."""
    seed: int = 42
    """Seed of the test's first data set; those of training are drawn for the run's seed, far from it."""
    seconds: float = 5.0
    """Seconds of processor time for a judgement; an answer that takes longer is wrong."""
    contained: Switch = True
    """The kernel contains the processes that score answers; false: what a model wrote is evaluated with all that you
    may do."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, LARGEST_SIZE, size=self.size)
        within(0, 2**31, seed=self.seed)
        above(0, 3600, seconds=self.seconds)

    def check_inputs(self) -> None:
        """Refuse a task or options that reasoning-gym does not have."""
        if not find_spec("reasoning_gym"):
            raise MistakeError("env: reasoning_gym is not installed: pip install 'rlx[rg]'")
        catalogue = self.ask({"do": "know", "task": self.task})
        if self.task not in catalogue["tasks"]:
            raise MistakeError(
                f"env.task={self.task:.80}: reasoning-gym has no such task{near(self.task, catalogue['tasks'])}"
            )
        for name in self.options:
            if name not in catalogue["options"]:
                raise MistakeError(f"env.options.{name:.80}: {self.task} has none{near(name, catalogue['options'])}")

    @property
    def box(self) -> Box:
        return box(SCORER, contained=self.contained)

    def ask(self, request: Mapping[str, Any]) -> Any:
        try:
            return self.box.ask_worker(request, PATIENCE, LIMITS)
        except (ChildError, StartError) as error:
            raise MistakeError(f"env.task={self.task}: {error}") from error

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        if split not in ("train", "test"):
            raise ValueError(f"split={split}: expected train or test")
        self.check_inputs()
        rng = Random(f"rg/{self.task}/train/{seed}")
        if split == "train":
            stream = self.entries(rng.randrange(2**31, 2**32 - self.size) for _ in count())
            return train_tasks(lambda _: next(stream), rng, apart=True)
        stream = self.entries(count(self.seed, self.size))
        return test_tasks(lambda _: next(stream), rng, self.num_test, apart=True)

    def entries(self, seeds: Iterator[int]) -> Iterator[Task]:
        """Data sets of these seeds, one after the other; a question's own seed there is the set's and its index."""
        for seed in seeds:
            for index in range(self.size):
                key = {
                    "task": self.task,
                    "options": dict(self.options),
                    "size": self.size,
                    "seed": seed,
                    "index": index,
                }
                drawn = self.ask({"do": "draw", "key": key})
                yield describe(Question(text=drawn["question"], key=key, answer=drawn["answer"] or ""))

    def judge(self, task: Task, text: str) -> Step:
        request = {"do": "score", "key": task.data["key"], "question": task.prompt[0].text, "text": text}
        try:
            score = self.box.ask(request, clock_limit(self.seconds), replace(LIMITS, cpu_seconds=self.seconds))
        except ChildError as error:
            return end_judged(0.0, num_stopped=int(isinstance(error, LateError)))
        return end_judged(score_of(score))


def score_of(value: Any) -> float:
    """Return a score from 0 to 1, whatever the process said."""
    return min(max(float(value), 0.0), 1.0) if isinstance(value, int | float) and value == value else 0.0
