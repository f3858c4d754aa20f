"""Rules for the steps of an environment of several agents, and what is told where one breaks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from rlx.environment import Episode
from rlx.environment.world import lawful
from rlx.rollout.play import Rollout
from rlx.types import Action, Sampling, Start, Step, Task, Trajectory
from tests.duel import Duel
from tests.errors import raises_naming
from tests.test_agents import SPEECH, TASK, Saying

Change = Callable[[int, Step], Step]


@dataclass(frozen=True, kw_only=True)
class Changed(Duel):
    """The same, with steps that `change` makes of its own, by number; 0 is the opening."""

    change: Change

    def start(self, task: Task) -> Episode:
        return ChangedEpisode(super().start(task), self.change)


class ChangedEpisode(Episode):
    def __init__(self, episode: Episode, change: Change) -> None:
        self.episode, self.change, self.turn = episode, change, 0

    def opening(self) -> Step:
        return self.change(0, self.episode.opening())

    def step(self, action: Action) -> Step:
        self.turn += 1
        return self.change(self.turn, self.episode.step(action))


class Alone(Duel):
    agents: ClassVar = ("",)


def at(turn: int, **fields: Any) -> Change:
    """Change fields of one step alone."""
    return lambda number, step: replace(step, **fields) if number == turn else step


def played(change: Change) -> Trajectory:
    engine: Any = Saying()
    rollout = Rollout(env=Changed(change=change), speech=SPEECH, engine=engine, sampling=Sampling())
    (episode,) = rollout.play([Start(task=TASK, sample=0)])
    return episode


@pytest.mark.parametrize("name", ["", "green"])
@pytest.mark.parametrize(("turn", "place"), [(0, "the opening"), (2, "turn 2")])
def test_a_wrong_next_agent_is_told_with_the_turn_that_names_it(turn: int, place: str, name: str) -> None:
    episode = played(at(turn, next_agent=name))
    assert (episode.status, len(episode.turns)) == ("error", max(0, turn - 1))
    for found in (place, "Step(next_agent=…)", "'red' or 'blue'", *([repr(name)] if name else [])):
        assert found in episode.error


def test_an_environment_of_one_agent_is_told_to_leave_its_next_agent_out() -> None:
    with raises_naming(ValueError, "env:", "turn 1", "'red'", "next_agent", "`agents`"):
        lawful(Alone(), Step(next_agent="red"), Step(), turn=1)
