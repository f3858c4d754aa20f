"""Faults that an expert meets before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlx.env.countdown.countdown import Countdown, CountdownEpisode
from rlx.protocol.direct import Direct
from rlx.protocol.tags import Tags
from rlx.run.rehearsal import script_of
from rlx.types import Action, Step, Task


class Faulty(CountdownEpisode):
    def step(self, action: Action) -> Step:
        return undefined  # type: ignore[name-defined]  # noqa: F821


@dataclass(frozen=True, kw_only=True)
class FaultyCountdown(Countdown):
    def start(self, task: Task) -> Any:
        return Faulty(env=self, task=task)


def failure_of(env: Countdown, dialect: Any) -> str:
    return script_of(env, dialect, next(env.tasks("train", 0)), 0)[1]


def test_an_environment_that_fails_at_the_experts_first_move_is_named() -> None:
    assert "undefined" in failure_of(FaultyCountdown(), Tags())


def test_an_expert_that_works_or_lacks_a_tool_is_no_fault() -> None:
    assert not failure_of(Countdown(), Tags())
    assert not failure_of(Countdown(), Direct())
