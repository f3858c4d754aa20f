"""Measurements of a reproduction's finished runs, and claims about their figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlx.base.limits import LARGEST, MANY, within
from rlx.lab.criticality import Inspection
from rlx.runs.form import FLAG, NATURAL, NUMBER, STRING, made, many


@dataclass(frozen=True, kw_only=True)
class Study:
    """Runs whose algorithms are measured in the laboratory."""

    runs: tuple[str, ...]
    tokens: int = 100_000
    tasks: int = 16
    budget: int = 1000

    def __post_init__(self) -> None:
        within(1, LARGEST, tokens=self.tokens)
        within(2, 1000, tasks=self.tasks)
        within(1, MANY, budget=self.budget)
        if not self.runs:
            raise ValueError("runs: expected at least one run")

    @property
    def rows(self) -> tuple[str, ...]:
        """Return the names that `expected` has for them."""
        return tuple(map(credit_row, self.runs))


def credit_row(run: str) -> str:
    return f"credit of {run}"


@dataclass(frozen=True, kw_only=True)
class Policies:
    """Policies whose turns are measured: of each run the one it began with (`RUN start`) or the last (`RUN eval`)."""

    policies: tuple[str, ...]
    tasks: int = 60
    draws: int = 8

    def __post_init__(self) -> None:
        _ = self.inspection
        if not self.policies or any(policy.split(" ")[1:] not in (["start"], ["eval"]) for policy in self.policies):
            raise ValueError("policies: expected at least one policy, such as `carl start` or `carl eval`")

    @property
    def inspection(self) -> Inspection:
        """Size of the measurement; ValueError for what is none."""
        return Inspection(tasks=self.tasks, draws=self.draws)

    @property
    def rows(self) -> tuple[str, ...]:
        """Return the names that `expected` has for them."""
        return tuple(map(criticality_row, self.policies))


def criticality_row(policy: str) -> str:
    return f"criticality of {policy}"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Meaning of a sentence of the source: a figure of a row or gain lies within bounds."""

    row: str
    figure: str
    least: float = -math.inf
    most: float = math.inf
    added_after_results: bool = False
    """Flag: the claim was written down when runs of it had been measured."""
    changed_after_results: str = ""
    """Earlier form of the claim or its bounds, where it was changed after the measurements."""
    untestable: str = ""
    """Reason for which the embedded model cannot test it here: a ceiling, a floor, its pretraining or its size."""
    note: str = ""
    """Condition that a reader of the verdict needs, such as a baseline that was not tuned."""

    def __post_init__(self) -> None:
        if math.isnan(self.least) or math.isnan(self.most):
            raise ValueError("least and most are numbers, and nan is none")
        if math.isinf(self.least) and math.isinf(self.most):
            raise ValueError("a claim needs least, most or both")
        if self.least > self.most:
            raise ValueError(f"least={self.least:g}: expected at most most={self.most:g}")

    @property
    def mark(self) -> str:
        """Return the words that every view shows beside a claim that is younger than its results."""
        added = ["added after results"] if self.added_after_results else []
        changed = [f"changed after results: {self.changed_after_results}"] if self.changed_after_results else []
        return "; ".join([*added, *changed])


STUDY = made(
    Study, runs=many(STRING), tokens=NATURAL.unless(100_000), tasks=NATURAL.unless(16), budget=NATURAL.unless(1000)
)
POLICIES = made(Policies, policies=many(STRING), tasks=NATURAL.unless(60), draws=NATURAL.unless(8))
CLAIM = made(
    Claim,
    row=STRING,
    figure=STRING,
    least=NUMBER.unless(-math.inf),
    most=NUMBER.unless(math.inf),
    added_after_results=FLAG.unless(False),
    changed_after_results=STRING.unless(""),
    untestable=STRING.unless(""),
    note=STRING.unless(""),
)
