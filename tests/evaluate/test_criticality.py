"""Criticality of turns on a hand-made game, and its figures by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any

import pytest

from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.environment.world import dialect_of
from rlx.lab.criticality import (
    Inspection,
    State,
    draws_of,
    earned,
    measure_states,
    rank_correlation,
    ranks,
    share_critical,
    share_flat,
    state_figures,
    state_of,
    uncertainty_ratio,
)
from rlx.lab.laboratory import Policy
from rlx.protocol.direct import Direct
from rlx.rollout.play import Rollout
from rlx.rollout.table import TableEngine, Words
from rlx.types import Action, Completion, Sampling, Start, Task, Text, Trajectory, Turn
from tests.errors import raises_naming

TASK = Task(id="t", prompt=(Text("?"),), data={})


def turn(text: str, logprob: float, reward: float = 0.0) -> Turn:
    said = Completion(token_ids=(1, 2), logprobs=(logprob, logprob), stop="stop")
    return Turn(prompt_ids=(), completion=said, action=Action(kind="act", name="go", text=text), reward=reward)


class Coin:
    """The first turn does not matter; the second wins half of the time, and greedily always."""

    def __init__(self) -> None:
        self.played: list[Start] = []

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        self.played += starts
        return [self.one(start) for start in starts]

    def one(self, start: Start) -> Trajectory:
        luck = Random(f"{start.task.id}/{start.sample}").random() < 0.5
        is_free = start.first is not None and start.fork is not None and start.fork.turn == 1
        wins = luck if is_free else True
        turns = (turn("a", -0.1), turn("b", -2.0 if is_free else -0.3, float(wins)))
        return Trajectory(task=start.task, sample=start.sample, turns=turns, status="done", fork=start.fork)


def state(spread: float, uncertainty: float, task: str = "t") -> State:
    return State(task=task, turn=0, action="act", uncertainty=uncertainty, spread=spread, mean=0.5)


def test_a_turn_that_changes_the_reward_is_critical_and_another_is_flat() -> None:
    tasks = [replace(TASK, id=str(number)) for number in range(20)]
    states = measure_states(Coin(), tasks, Sampling(), 16)  # type: ignore[arg-type]
    first, second = ([one for one in states if one.turn == number] for number in (0, 1))
    assert {one.spread for one in first} == {0.0}
    assert all(0.2 < one.spread <= 0.5 for one in second)
    assert {one.uncertainty for one in second} == {2.0}
    assert share_flat(states) == 0.5
    assert 0.0 < share_critical(states) <= 0.5


def test_only_the_first_turn_of_a_draw_is_sampled_as_in_training() -> None:
    (parent,) = Coin().play([Start(task=TASK, sample=0)])
    sampling = Sampling(temperature=0.7, top_p=0.9)
    starts = draws_of(parent, 1, sampling, 3)
    assert [start.sample for start in starts] == [4, 5, 6]
    assert {start.first for start in starts} == {sampling}
    assert {start.sampling.temperature for start in starts if start.sampling} == {0.0}


def test_ranks_share_the_mean_of_equal_values() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]).tolist() == [3.5, 1.0, 3.5, 2.0]


def test_the_rank_correlation_is_spearmans() -> None:
    states = [state(spread, uncertainty) for spread, uncertainty in ((0.1, 1.0), (0.2, 3.0), (0.3, 2.0), (0.4, 4.0))]
    assert rank_correlation(states) == pytest.approx(0.8)
    assert rank_correlation([state(0.0, 1.0), state(0.0, 2.0)]) == 0.0


def test_the_ratio_compares_the_tenth_with_the_largest_spread_with_the_rest() -> None:
    states = [state(0.5, 6.0), *(state(0.0, float(number % 3 + 1)) for number in range(9))]
    assert uncertainty_ratio(states) == 3.0


def test_intervals_hold_the_figures_and_depend_on_the_seed_alone() -> None:
    states = [state(0.1 * (number % 5), number % 7, str(number // 2)) for number in range(40)]
    found = state_figures(states, Inspection(num_resamples=200))
    assert found == state_figures(states, Inspection(num_resamples=200))
    assert all(one.low <= one.value <= one.high for one in found.values())
    assert found["critical"].low < found["critical"].value < found["critical"].high


def test_spread_and_uncertainty_come_from_separate_draws() -> None:
    player = Coin()
    states = measure_states(player, [TASK], Sampling(), 4)  # type: ignore[arg-type]
    played = player.played[1:]
    assert len({start.sample for start in played}) == len(played) == 2 * 2 * 4
    assert [start.max_turns for start in played] == [None] * 8 + [1] * 8
    rewards, alone = [[1.0, 0.0], [0.0, 0.0]], [[-1.0, -2.0], [-3.0, -6.0]]
    draws = [
        [Trajectory(task=TASK, sample=0, turns=(turn("a", p, r),), status="done") for p, r in zip(*of)]
        for of in zip(alone, rewards)
    ]
    (parent,) = Coin().play([Start(task=TASK, sample=0)])
    found = state_of(parent, 0, *draws)
    assert found is not None
    assert (found.spread, found.mean, found.uncertainty) == (0.5, 0.5, 4.5)
    assert state_of(parent, 0, draws[0], draws[1][:1]) is None
    assert len(states) == 2


def test_a_state_is_measured_by_what_the_agent_earns_that_acts_there() -> None:
    mine, other = turn("a", -1.0, 0.5), replace(turn("b", -1.0, 3.0), agent="B", rewards={"A": -1.0})
    episode = Trajectory(
        task=TASK, sample=0, turns=(replace(mine, agent="A", rewards={"B": 0.25}), other), status="done"
    )
    assert (earned(episode, "A"), earned(episode, "B"), earned(episode, "")) == (-0.5, 3.25, 3.5)


@dataclass
class OneSet:
    """A player that gives a state the draws of its spread for its uncertainty too."""

    player: Rollout

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        followed = [start for start in starts if start.max_turns is None]
        return self.player.play(followed) * (len(starts) // len(followed))


def test_uncertainty_does_not_rise_with_spread_where_critical_doors_are_the_sure_ones() -> None:
    """Only critical doors have hints, and chance turns nothing round. One set of draws for both measures lets them rise
    together all the same, as a rare action raises both."""
    env = Bifurcation(alignment=0.0, slip=0.0)
    policy = Policy(env=env, dialect=dialect_of(env, Direct()))
    words, tasks = Words(), list(islice(env.tasks("test", 0), 60))
    engine = TableEngine(table=policy.table, words=words)
    sampling = Sampling(max_new_tokens=64, max_context=100_000)
    player = Rollout(env=env, speech=words.speech(policy.dialect), engine=engine, sampling=sampling, tool_ticks=1)
    measure: Callable[[Any], float] = lambda of: rank_correlation(measure_states(of, tasks, sampling, 8))  # noqa: E731
    assert -0.3 < measure(player) < 0.1
    assert measure(OneSet(player)) > 0.3


@pytest.mark.parametrize(("key", "value"), [("tasks", 0), ("draws", 1)])
def test_a_wrong_size_is_refused_with_its_key(key: str, value: int) -> None:
    with raises_naming(ValueError, f"{key}={value}"):
        Inspection(**{key: value})
