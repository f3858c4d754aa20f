"""Questions that a project's own generator draws, or that come from a data set with a question and an answer in each
row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from random import Random
from typing import Any, Literal

from rlx.base.limits import refuse
from rlx.env import hub
from rlx.env.hub import DataError
from rlx.env.questions.question import DrawnQuestions, Question, describe
from rlx.env.split import is_held_out
from rlx.types import Task


@dataclass(frozen=True, kw_only=True)
class SourcedQuestions(DrawnQuestions):
    """A hash of a data set's question says to which split it belongs, unless the data set has one for the test."""

    source: Literal["generated", "hub"] = "generated"
    """Source of the questions: generated (rlx makes them) or hub (the data set below)."""
    hub: str = ""
    """Name of a data set, a folder or a jsonl file (source=hub)."""
    table: str | None = None
    """Table of the data set, or a jsonl file in it; null: the data set has only one (source=hub)."""
    split: str = "train"
    """Split of the data set for training questions."""
    test_split: str | None = None
    """Split of the data set for test questions; null: a quarter of the training split, by a hash of the question;
    "": none."""
    question_key: str = "question"
    """The data set's column of questions."""
    answer_key: str = "answer"
    """The data set's column of right answers: a text or a number, or a list of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == "hub" and not self.hub.strip():
            refuse("hub", self.hub, "a data set's name, a folder or a jsonl file")
        for name in ("hub", "table", "split", "test_split"):
            unread = self.__dataclass_fields__[name].default
            if self.source == "generated" and getattr(self, name) != unread:
                refuse(name, getattr(self, name), f"{unread or 'nothing'} beside source=generated: give source=hub too")

    @abstractmethod
    def read(self, row: Mapping[str, Any]) -> Question | None:
        """Return the question of a data set's row; None if it asks nothing that can be judged."""

    @property
    def columns(self) -> dict[str, str]:
        """Return the columns that a row must have, by the keys that name them."""
        return {"question_key": self.question_key, "answer_key": self.answer_key}

    @property
    def is_remote(self) -> bool:
        """Tasks come from a file or a hub: a plan does not wait for them."""
        return self.source == "hub"

    @property
    def hub_data(self) -> str:
        """Name of the hub data set; empty for other sources."""
        return self.hub if self.source == "hub" and hub.is_elsewhere(self.hub) else ""

    def data_version(self) -> str:
        """Return a name for what is in the data set, where that is here."""
        return hub.edition(self.hub) if self.source == "hub" else ""

    def check_inputs(self) -> None:
        """Refuse a data set that is here and cannot be asked."""
        if self.source == "hub":
            rows = hub.first_rows(self.hub)
            if hub.is_file(self.hub) and not rows:
                hub.refuse(self.hub, "it has no rows")
            for index, row in enumerate(rows):
                self.ask(index, row)

    def ask(self, index: int, row: Any) -> Task:
        hub.require_columns(self.hub, index, row, self.columns)
        question = self.read(row) if hub.text_of(row[self.question_key]).strip() else None
        if question is None:
            return hub.refuse(self.hub, f"row {index} has no question with an answer to judge by")
        return describe(question)

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        if self.source == "generated" or split not in ("train", "test"):
            return super().tasks(split, seed)
        if split == "test":
            return islice(distinct(self.held_out_rows()), self.num_test)
        return self.passes(Random(f"{self.stream}/hub/train/{seed}"))

    def rows(self, split: str, order: Random | None = None) -> Iterator[Task]:
        """All of a split of the data set, in its own order or in a random one."""
        rows = hub.load_rows(self.hub, split, self.table)
        numbers = range(len(rows))
        for index in numbers if order is None else order.sample(numbers, len(numbers)):
            yield self.ask(index, rows[index])

    def held_out_rows(self) -> Iterator[Task]:
        if self.test_split is not None:
            return self.rows(self.test_split) if self.test_split else iter(())
        return filter(is_held_out, self.rows(self.split, Random(f"{self.stream}/hub/test")))

    def passes(self, rng: Random) -> Iterator[Task]:
        """Endless passes over what is not held out, each in a new order."""
        is_other = self.is_of_test()
        while True:
            num_found = 0
            for task in self.rows(self.split, rng):
                if not is_other(task):
                    num_found += 1
                    yield task
            if not num_found:
                raise DataError(f"env.hub={self.hub}: all of split {self.split!r} is held out for the test")

    def is_of_test(self) -> Callable[[Task], bool]:
        if self.test_split is None:
            return is_held_out
        test_task_ids = test_ids(self)
        return lambda task: task.id in test_task_ids


@cache
def test_ids(questions: SourcedQuestions) -> frozenset[str]:
    return frozenset(task.id for task in questions.held_out_rows())


def distinct(tasks: Iterator[Task]) -> Iterator[Task]:
    task_ids: set[str] = set()
    for task in tasks:
        if task.id not in task_ids:
            task_ids.add(task.id)
            yield task
