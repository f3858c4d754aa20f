"""Samplers as coroutines: trees of many tasks that grow at once, on the real engine, on one rank and on two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, takewhile
from math import inf
from typing import Any

import pytest

from rlx.algo.parts import Ask, Growth, Sampler, SamplerContext
from rlx.algo.samplers import SamplerError, leave, stable_index
from rlx.commands.last_words import one_line_of
from rlx.environment import Environment, Episode, Pace
from rlx.rollout.distributed import DistributedPlayer
from rlx.rollout.engine import RequestError
from rlx.rollout.growth import MOST_EMPTY
from rlx.rollout.play import Rollout
from rlx.types import Action, Fork, Group, Sampling, Start, Step, Task, Text

NUM_TASKS, NUM_SAMPLES = 16, 16


@dataclass(frozen=True)
class Corridor(Environment):
    """Some rooms long, each passed by any word; the last word's length is the reward."""

    max_rounds: int = 6
    pace: Pace = "ticks"

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        yield from (Task(id=f"{split}{i}", prompt=(Text(f"task {i}:"),), data={"rooms": 4}) for i in range(100))

    def start(self, task: Task) -> Walk:
        return Walk(task.data["rooms"])


@dataclass
class Walk(Episode):
    rooms: int

    def step(self, action: Action) -> Step:
        self.rooms -= 1
        done = not self.rooms
        return Step(
            observation=(Text("\nnext:"),) * (not done), reward=float(len(action.text)), done=done, success=done
        )


def one_by_one(context: SamplerContext) -> Growth:
    """Each episode leaves another where all that were played before it say so: in the middle of the turn in which that
    one was least sure of its words."""
    task = context.task
    played = yield [Start(task=task, sample=0)]
    for sample in range(1, NUM_SAMPLES):
        parent = played[stable_index(str([t.turns for t in played]), len(played))]
        sure = [sum(turn.completion.logprobs) for turn in parent.turns]
        turn = sure.index(min(sure))
        token = len(parent.turns[turn].completion.token_ids) // 2
        played += yield [leave(parent, sample=sample, turn=turn, token=token, forced=(100 + sample,))]
    return Group(task=task, trajectories=tuple(played))


def grown(grow: Any, watches: bool = True) -> Sampler:
    """Return a sampler of such coroutines."""
    return Sampler(num_episodes=NUM_SAMPLES, num_forks=NUM_SAMPLES, grow=grow, watches=watches)


@pytest.fixture
def player(qwen2: Any, tokenizer: Any, kit: Any) -> Any:
    def build(num_slots: int, pace: Pace = "ticks") -> Rollout:
        engine = kit.watched(kit.engine(qwen2, tokenizer, num_slots=num_slots, eos_ids=range(8)))
        sampling = Sampling(max_new_tokens=24, max_context=400)
        env = Corridor(pace=pace)
        return Rollout(env=env, speech=kit.aloud(tokenizer), engine=engine, sampling=sampling, stream=(5,))

    return build


def tasks(num: int) -> list[Task]:
    return [task for task, _ in zip(Corridor().tasks("train", 0), range(num))]


@pytest.mark.parametrize(("num_slots", "pace"), [(12, "inline"), (8, "ticks")])
@pytest.mark.parametrize("size", [1, 2])
def test_trees_that_grow_a_fork_at_a_time_keep_the_slots_full(
    player: Any, kit: Any, size: int, num_slots: int, pace: Pace
) -> None:
    def live(ranks: Any) -> tuple[list[Group], float, int]:
        act = player(num_slots // size, pace)
        together = DistributedPlayer(player=act, ranks=ranks, players=tuple(range(size)))
        return together.sample(grown(one_by_one), tasks(NUM_TASKS)), act.engine.occupancy, ranks.num_gathered

    first, again = kit.on_ranks(size, live), kit.on_ranks(size, live)
    groups = [told[0] for told in first]
    assert all(told == groups[0] for told in groups)
    assert [told[0] for told in again] == groups
    assert [group.task for group in groups[0]] == tasks(NUM_TASKS)
    assert [[t.sample for t in group.trajectories] for group in groups[0]] == [list(range(NUM_SAMPLES))] * NUM_TASKS
    assert len({t.fork for group in groups[0] for t in group.trajectories}) > 16
    assert min(told[1] for told in first) > 0.7
    assert {told[2] for told in first} == {1}


def test_a_task_that_comes_again_grows_another_tree_the_same_on_any_rank(player: Any, kit: Any) -> None:
    task, other = tasks(2)

    def live(ranks: Any) -> list[Group]:
        together = DistributedPlayer(player=player(4), ranks=ranks, players=tuple(range(ranks.size)))
        return together.sample(grown(two_by_two), [task, other, task])

    first, _, third = kit.on_ranks(1, live)[0]
    assert [t.turns[0].completion.token_ids for t in first.trajectories] != [
        t.turns[0].completion.token_ids for t in third.trajectories
    ]
    assert said(kit.on_ranks(3, live)[2]) == said(kit.on_ranks(1, live)[0])


def two_by_two(context: SamplerContext) -> Growth:
    task = context.task
    played = yield [Start(task=task, sample=0), Start(task=task, sample=1)]
    nothing = yield []
    played += yield [Start(task=task, sample=2)]
    return Group(task=task, trajectories=(*played, *nothing))


def window(size: int) -> Callable[[SamplerContext], Growth]:
    """Make a sampler with so many episodes under way, which notes in which order they come back."""

    def grow(context: SamplerContext) -> Growth:
        played = list((yield Ask(starts=[Start(task=context.task, sample=i) for i in range(size)], wait=1)))
        for sample in range(size, NUM_SAMPLES):
            parent = played[context.rng.randrange(len(played))]
            played += yield Ask(starts=[leave(parent, sample=sample, turn=0, forced=(100 + sample,))], wait=1)
        played += yield Ask(wait=size - 1) if size > 1 else ()
        return Group(task=context.task, trajectories=tuple(played))

    return grow


@pytest.mark.parametrize("pace", ["inline", "ticks"])
def test_a_window_of_episodes_gives_the_same_tree_on_any_number_of_ranks(player: Any, kit: Any, pace: Pace) -> None:
    def live(ranks: Any) -> list[Group]:
        together = DistributedPlayer(player=player(4, pace), ranks=ranks, players=tuple(range(ranks.size)))
        return together.sample(grown(window(3)), tasks(4))

    one, two = kit.on_ranks(1, live)[0], kit.on_ranks(2, live)[1]
    assert said(one) == said(two)
    assert [[t.sample for t in group.trajectories] for group in one] == [list(range(NUM_SAMPLES))] * 4


def test_a_window_of_episodes_fills_slots_that_one_at_a_time_leaves_empty(player: Any) -> None:
    occupancy = []
    for size in (1, 4):
        act = player(8)
        act.sample(grown(window(size)), tasks(2))
        occupancy.append(act.engine.occupancy)
    assert occupancy[1] > 2 * occupancy[0]


@pytest.mark.parametrize("wait", [0, 2, -1, None, 1.0])
def test_a_sampler_waits_for_episodes_that_are_under_way(player: Any, wait: Any) -> None:
    def grow(context: SamplerContext) -> Growth:
        played = yield Ask(starts=[Start(task=context.task, sample=0)], wait=wait)
        return Group(task=context.task, trajectories=tuple(played))

    assert f"wait={wait!r}: expected an integer from 1 to 1" in refused(player(2), grow)


def test_a_sampler_that_returns_before_its_episodes_end_is_told_in_a_line(player: Any) -> None:
    def grow(context: SamplerContext) -> Growth:
        played = yield Ask(starts=[Start(task=context.task, sample=i) for i in range(2)], wait=1)
        return Group(task=context.task, trajectories=tuple(played))

    assert "it returned while 1 of its episodes were under way" in refused(player(2), grow)


GREEDY = Sampling(max_new_tokens=8, max_context=400, temperature=0.0)


def test_a_start_may_set_its_sampling_and_the_number_of_its_turns(player: Any) -> None:
    found: list[Any] = []

    def grow(context: SamplerContext) -> Growth:
        (root,) = yield [Start(task=context.task, sample=0, max_turns=2)]
        fork = replace(leave(root, sample=1, turn=1), max_turns=1)
        greedy = [replace(leave(root, sample=2 + i, turn=1), sampling=GREEDY) for i in range(2)]
        found.extend((yield [fork, *greedy]))
        return Group(task=context.task, trajectories=(root, found[0]))

    (group,) = player(4).sample(grown(grow), tasks(1))
    root, fork = group.trajectories
    assert [(len(one.turns), len(one.new_turns), one.status) for one in (root, fork)] == [
        (2, 2, "truncated"),
        (2, 1, "truncated"),
    ]
    first, second = found[1:]
    assert first.status == "done"
    assert [turn.completion.token_ids for turn in first.turns] == [turn.completion.token_ids for turn in second.turns]
    assert all(len(turn.completion.token_ids) <= 8 for turn in first.new_turns)


def test_an_episode_with_sampling_of_its_own_is_in_no_group(player: Any) -> None:
    def grow(context: SamplerContext) -> Growth:
        played = yield [Start(task=context.task, sample=0, sampling=GREEDY)]
        return Group(task=context.task, trajectories=tuple(played))

    assert "sample 0 has sampling of its own" in refused(player(2), grow)


def said(groups: list[Group]) -> list[list[tuple[int, ...]]]:
    return [[turn.completion.token_ids for turn in t.turns] for group in groups for t in group.trajectories]


def mistaken(say: Callable[[Task], Any]) -> Callable[[SamplerContext], Growth]:
    """A sampler that yields what it should not."""

    def sample(context: SamplerContext) -> Growth:
        task = context.task
        played = yield [Start(task=task, sample=1)]
        played += yield say(task)
        return Group(task=task, trajectories=tuple(played))

    return sample


OTHER = Task(id="other", prompt=(), data={})
WRONG_STARTS: list[tuple[Callable[[Task], Any], str]] = [
    (lambda task: Start(task=task, sample=0), "it yielded a Start; yield a list of Starts"),
    (lambda task: [task, 1], "it yielded a list of Task, int; yield a list of Starts"),
    (lambda task: None, "it yielded nothing; yield a list of Starts"),
    (lambda task: [Start(task=task, sample=1)], "sample 1 of task 'train0' was begun twice; count from 0"),
    (lambda task: [Start(task=task, sample=2)] * 2, "sample 2 of task 'train0' was begun twice; count from 0"),
    (lambda task: 3, "it yielded an int; yield a list of Starts"),
    (lambda task: [Start(task=OTHER, sample=0)], "it started task 'other'; play the one it is given"),
    (lambda task: [Start(task=task, sample=0, watch=7)], "watch=7: expected a list of token ids"),  # type: ignore[arg-type]
    (lambda task: [Start(task=task, sample=0, watch=(9, 280))], "an id to watch is outside the model's vocabulary"),
]


@pytest.mark.parametrize(("say", "told"), WRONG_STARTS)
def test_what_a_sampler_may_not_yield_is_told_in_a_line(player: Any, say: Any, told: str) -> None:
    assert told in refused(player(2), mistaken(say))


@pytest.mark.parametrize("asked", [{"watch": (7,)}, {"entropy_of": 2}])
def test_a_sampler_that_asks_for_ids_undeclared_is_named(player: Any, asked: dict[str, Any]) -> None:
    def curious(context: SamplerContext) -> Growth:
        played = yield [Start(task=context.task, sample=0, **asked)]
        return Group(task=context.task, trajectories=tuple(played))

    told = refused(player(2), curious, watches=False)
    assert "curious" in told
    assert "watches=True" in told
    assert len(player(2).sample(grown(curious), tasks(1))) == 1


def refused(player: Rollout, sampler: Any, watches: bool = True) -> str:
    """The line that a user reads."""
    with pytest.raises((SamplerError, RequestError)) as error:
        player.sample(grown(sampler, watches), tasks(1))
    line = one_line_of(error.value)
    assert line is not None
    assert error.value.exit_code == 2
    assert "\n" not in line
    assert "task 'train0'" in line or "expected" in line
    return line


def leaving(**how: Any) -> Callable[[SamplerContext], Growth]:
    """A sampler whose fork is wrong."""

    def sample(context: SamplerContext) -> Growth:
        task = context.task
        (root,) = yield [Start(task=task, sample=0)]
        forks = yield [leave(root, sample=1, **({"turn": 0} | how))]
        return Group(task=task, trajectories=(root, *forks))

    return sample


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"turn": 9}, "leave sample 0 of task 'train0': turn=9: expected an integer from 0 to 3"),
        ({"token": 999}, "leave sample 0 of task 'train0': token=999: expected an integer from 0 to"),
        ({"forced": 7}, "forced=7: expected a list of token ids"),
        ({"forced": "go on"}, "forced='go on': expected a list of token ids"),
        ({"watch": (1.5,)}, "watch=(1.5,): expected a list of token ids"),
        ({"forced": (280,)}, "an id that is given is outside the model's vocabulary, 0 to 279"),
        ({"forced": (-1,)}, "an id that is given is outside the model's vocabulary, 0 to 279"),
        ({"forced": (0, 9)}, "ids given end the turn after"),
    ],
)
def test_a_fork_that_cannot_be_is_told_in_a_line(player: Any, how: dict[str, Any], told: str) -> None:
    assert told in refused(player(2), leaving(**how))


@pytest.mark.parametrize(
    ("fork", "told"),
    [
        (Fork(parent=0, turn=99), "sample 1 forks at turn 99, and its prefix has 4 turns"),
        (Fork(parent=0, turn=-1), "sample 1 forks at turn -1, and its prefix has 4 turns"),
        (Fork(parent=0, turn=4, token=1), "sample 1 forks at token 1 of a turn of 0"),
        (Fork(parent=0, turn=0, token=999), "sample 1 forks at token 999 of a turn of"),
    ],
)
def test_a_fork_made_by_hand_begins_at_a_place_of_its_prefix(player: Any, fork: Fork, told: str) -> None:
    def grow(context: SamplerContext) -> Growth:
        (root,) = yield [Start(task=context.task, sample=0)]
        forks = yield [Start(task=context.task, sample=1, prefix=root.turns, fork=fork)]
        return Group(task=context.task, trajectories=(root, *forks))

    assert told in refused(player(2), grow)


@pytest.mark.parametrize("begin", [None, 0])
def test_a_sampler_that_never_ends_is_stopped_by_the_numbers_it_declares(player: Any, begin: int | None) -> None:
    def grow(context: SamplerContext) -> Growth:
        played = yield [Start(task=context.task, sample=0)]
        for sample in count(1):
            start = Start(task=context.task, sample=sample)
            yield [start if begin is None else leave(played[begin], sample=sample, turn=begin)]
        return Group(task=context.task, trajectories=tuple(played))

    told = refused(player(2), grow)
    assert "num_episodes=16" in told
    assert "num_forks=16" in told


def test_fresh_episodes_may_be_begun_in_place_of_forks(player: Any) -> None:
    def grow(context: SamplerContext) -> Growth:
        played = yield [Start(task=context.task, sample=i) for i in range(3)]
        return Group(task=context.task, trajectories=tuple(played))

    (group,) = player(2).sample(Sampler(num_episodes=1, num_forks=2, grow=grow), tasks(1))
    assert len(group.trajectories) == 3


@pytest.mark.parametrize("asked", [(), Ask(wait=0)])
def test_a_sampler_may_ask_for_nothing_often_but_not_for_ever(player: Any, asked: Any) -> None:
    def grow(num: float) -> Callable[[SamplerContext], Growth]:
        def sample(context: SamplerContext) -> Growth:
            played = yield [Start(task=context.task, sample=0)]
            for _ in takewhile(lambda index: index < num, count()):
                yield asked
            return Group(task=context.task, trajectories=tuple(played))

        return sample

    assert len(player(2).sample(grown(grow(MOST_EMPTY)), tasks(1))[0].trajectories) == 1
    assert "asked for nothing" in refused(player(2), grow(inf))


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda task, played: Group(task=task, trajectories=()), "it returned a Group without trajectories"),
        (lambda task, played: None, "it returned nothing; return the Group"),
        (lambda task, played: played, "it returned a list of Trajectory; return the Group"),
        (
            lambda task, played: Group(task=task, trajectories=tuple(played[1:])),
            "sample 1 is a fork of sample 0, which the Group lacks; return it too",
        ),
    ],
)
def test_what_a_sampler_may_not_return_is_told_in_a_line(player: Any, returned: Any, told: str) -> None:
    def sample(context: SamplerContext) -> Growth:
        task = context.task
        played = yield [Start(task=task, sample=0)]
        played += yield [leave(played[0], sample=1, turn=0)]
        return returned(task, played)

    assert told in refused(player(2), sample)


def test_a_sampler_that_is_no_coroutine_is_told_in_a_line(player: Any) -> None:
    assert "it gave a list of Start at once" in refused(player(2), lambda context: [Start(task=context.task, sample=0)])


def test_an_error_in_a_sampler_is_told_by_every_rank(player: Any, kit: Any) -> None:
    def broken(context: SamplerContext) -> Growth:
        task = context.task
        yield [Start(task=task, sample=0)]
        raise KeyError("no such turn")

    def live(ranks: Any) -> str:
        act = player(2)
        together = DistributedPlayer(player=act, ranks=ranks, players=(0, 1))
        with pytest.raises(Exception) as told:  # noqa: PT011
            together.sample(grown(broken), tasks(1))
        return f"{type(told.value).__name__}: {told.value}"

    assert kit.on_ranks(2, live) == ["KeyError: 'no such turn'", "RanksError: rank 0: KeyError: 'no such turn'"]
