"""Twins: when they are played, where they leave, what their pair is worth, and what is remembered of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from rlx.algo.cpo import cpo
from rlx.algo.entry import Entry, Probe
from rlx.algo.parts import Optimizer, PerRow, PerToken, SamplerContext, adapt_state, begin_state, recall
from rlx.algo.rows import Rows
from rlx.algo.samplers import SamplerError
from rlx.algo.twins import (
    FIRST_GAIN,
    Twins,
    begin_twins,
    draw_entry,
    draw_place,
    has_failed,
    places_of,
    text_before,
    twin_difference,
    watched_of,
    weigh_places,
    with_twins,
)
from rlx.types import Action, Completion, Fork, Group, Task, Trajectory, Turn
from tests.errors import raises_naming
from tests.loops import for_each

TASK = Task(id="t", prompt=(), data={})
COMPARE = Entry(name="compare", chosen=(100,), words=(7,))
SWAP = Entry(name="swap", chosen=(101,), words=(8,))
WATCH = (7, 100, 8, 101)
NEVER = -1e30


def turn(ids: Sequence[int], watched: Sequence[Sequence[float]] = (), reward: float = 0.0) -> Turn:
    done = Completion(
        token_ids=tuple(min(i, 99) for i in ids),
        chosen_ids=tuple(ids),
        logprobs=(-1.0,) * len(ids),
        watched=tuple(map(tuple, watched)) or ((-1.0, -2.0, -3.0, -4.0),) * len(ids),
        stop="stop",
    )
    return Turn(prompt_ids=(1,), completion=done, action=Action(kind="answer", text=""), reward=reward)


def episode(sample: int, *turns: Turn, fork: Fork | None = None, status: Any = "done") -> Trajectory:
    return Trajectory(task=TASK, sample=sample, turns=turns, status=status, fork=fork)


def test_places_are_before_the_text_s_own_entry_and_where_a_route_may_come() -> None:
    watched = [(-1.0, -5.0, 0, 0), (-2.0, -0.5, 0, 0), (-3.0, NEVER, 0, 0), (-4.0, -6.0, 0, 0)]
    one = episode(0, turn((5, 6, 9, 5), watched), turn((5, 100, 9), watched[:3]))
    by_name = list(places_of(one, COMPARE, WATCH, "name"))
    assert by_name == [(-1.0, (0, 0)), (-2.0, (0, 1)), (-4.0, (0, 3)), (-1.0, (1, 0)), (-2.0, (1, 1))]
    assert list(places_of(one, COMPARE, WATCH, "either"))[1] == (-0.5, (0, 1))
    tag = Entry(name="python", chosen=(60, 61), words=(7,))
    assert text_before(turn((5, 60, 62, 60, 61, 3)).completion, tag) == 4


def test_a_place_is_drawn_by_its_weight() -> None:
    places = [(math.log(0.5), (0, 0)), (math.log(0.3), (0, 1)), (math.log(0.2), (1, 4))]
    rng = Random(0)
    drawn = Counter(draw_place(places, Twins(), rng) for _ in range(4000))
    assert [drawn[place] / 4000 for _, place in places] == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    two = Counter(draw_place(places, Twins(top_k=2), rng) for _ in range(2000))
    assert two[0, 0] / 2000 == pytest.approx(0.625, abs=0.03)
    assert (1, 4) not in two
    assert {draw_place(places, Twins(top_p=0.5), rng) for _ in range(50)} == {(0, 0)}
    flat = Counter(draw_place(places, Twins(temperature=1000), rng) for _ in range(3000))
    assert min(flat.values()) / 3000 == pytest.approx(1 / 3, abs=0.03)


def test_a_verb_is_drawn_by_what_its_twins_gained() -> None:
    gains, rng = {"100": math.log(3)}, Random(0)
    drawn = Counter(draw_entry((COMPARE, SWAP), gains, rng).name for _ in range(4000))
    assert drawn["compare"] / 4000 == pytest.approx(3 / (3 + math.exp(FIRST_GAIN)), abs=0.03)


@for_each(
    "rewards, none_positive, zero_sum",
    [((0.0, 0.0), True, True), ((-0.1, 0.0), True, False), ((-1.0, 1.0), False, True), ((0.0, 0.5), False, False)],
)
def test_a_group_has_failed(rewards: Sequence[float], none_positive: bool, zero_sum: bool) -> None:
    factual = [episode(i, turn((5,), reward=reward)) for i, reward in enumerate(rewards)]
    assert has_failed(factual, "none_positive") is none_positive
    assert has_failed(factual, "zero_sum") is zero_sum


def test_twins_are_played_only_where_all_failed_and_leave_where_their_episode_might_have_entered() -> None:
    sampler = with_twins(2, Twins())
    growth = sampler.grow(SamplerContext(task=TASK, entries=(COMPARE, SWAP)))
    starts = next(growth)
    assert [(start.sample, start.watch) for start in starts] == [(0, WATCH), (1, WATCH)]
    factual = [episode(i, turn((5, 6, 9), reward=0.0)) for i in range(2)]
    twins = growth.send(factual)
    assert [start.sample for start in twins] == [2, 3]
    for start, one in zip(twins, factual, strict=True):
        assert start.fork is not None
        assert (start.fork.parent, start.fork.learned) == (one.sample, True)
        assert start.fork.forced in ((100,), (101,))
        assert start.prefix == one.turns[: start.fork.turn + 1]
    played = [episode(start.sample, turn((5, 100, 3), reward=1.0), fork=start.fork) for start in twins]
    with pytest.raises(StopIteration) as end:
        growth.send(played)
    assert end.value.value == Group(task=TASK, trajectories=(*factual, *played))

    growth = sampler.grow(SamplerContext(task=TASK, entries=(COMPARE,)))
    next(growth)
    with pytest.raises(StopIteration) as end:
        growth.send([episode(0, turn((5,))), episode(1, turn((5,), reward=1.0))])
    assert [one.sample for one in end.value.value.trajectories] == [0, 1]


def starts_of(likely: Any, entries: Sequence[Entry], log_probs: Sequence[float] = ()) -> tuple[list[Any], list[Probe]]:
    """The twins of two failed episodes, and what the policy was probed for in order to place them."""
    growth = with_twins(2, Twins(likely=likely)).grow(SamplerContext(task=TASK, entries=entries, rng=Random(3)))
    watch = next(growth)[0].watch
    by_place = [[-1.0 - place - at for at in range(len(watch))] for place in range(3)]
    asked = growth.send([episode(i, turn((5, 6, 9), by_place)) for i in range(2)])
    probes = list(asked) if isinstance(asked[0], Probe) else []
    try:
        return list(growth.send(log_probs) if probes else asked), probes
    except StopIteration:  # without a twin the group is whole
        return [], probes


def test_a_place_is_weighed_by_all_tokens_of_the_description() -> None:
    tag = Entry(name="python", chosen=(60, 61, 62), words=(7,), description=(60, 61, 62))
    sure = [-50.0, 40.0, -50.0, -50.0, -50.0, 45.0]  # beside -1, -2, -3 of the first token
    starts, probes = starts_of("description", (tag,), sure)
    assert [(probe.token, probe.ids, probe.skip) for probe in probes] == [(i, (60, 61, 62), 1) for i in (0, 1, 2)] * 2
    assert [start.fork.token for start in starts] == [1, 2]
    for likely in ("name", "either"):
        assert starts_of(likely, (tag,))[1] == []
    nowhere, _ = starts_of("description", (tag,), [-math.inf] * 6)
    assert nowhere == []


def test_the_weight_of_a_tag_of_one_token_is_the_tag_s_alone() -> None:
    tag = Entry(name="python", chosen=(60,), words=(7, 60), description=(60,))
    one = episode(0, turn((5, 6), [(-1.0, -4.0), (-1.0, -5.0)]))
    assert list(places_of(one, tag, (7, 60), "description")) == [(-4.0, (0, 0)), (-5.0, (0, 1))]
    assert list(places_of(one, tag, (7, 60), "name")) == [(-1.0, (0, 0)), (-1.0, (0, 1))]


def test_a_description_of_one_token_costs_nothing_and_no_other_spelling_counts() -> None:
    routes = (
        Entry(name="compare", chosen=(100,), words=(7, 9), description=(7,)),
        Entry(name="swap", chosen=(101,), words=(8,), description=(8,)),
    )
    watch = watched_of(routes)
    assert watch == (7, 9, 100, 8, 101)
    assert starts_of("description", routes)[1] == []
    one = episode(0, turn((5, 6), [(-4.0, -1.0, -9.0, -2.0, -9.0), (-5.0, -1.0, -9.0, -2.0, -9.0)]))
    assert list(places_of(one, routes[0], watch, "description")) == [(-4.0, (0, 0)), (-5.0, (0, 1))]
    assert list(places_of(one, routes[0], watch, "name")) == [(-1.0, (0, 0)), (-1.0, (0, 1))]


def test_an_episode_that_failed_by_an_error_has_no_twin() -> None:
    growth = with_twins(2, Twins()).grow(SamplerContext(task=TASK, entries=(COMPARE,)))
    next(growth)
    twins = growth.send([episode(0, turn((5,)), status="error"), episode(1, turn((5,)))])
    assert [(start.sample, start.fork and start.fork.parent) for start in twins] == [(2, 1)]


def test_a_protocol_without_a_way_in_is_refused() -> None:
    with raises_naming(SamplerError, f"task {TASK.id!r}", "expa", "tags"):
        next(with_twins(2, Twins()).grow(SamplerContext(task=TASK, entries=())))


def table() -> Rows:
    """Group 0 failed: episode 0 of two turns, left by its twin (3) in turn 1 after two tokens; episode 1, left by its
    twin (4) in turn 0 after one; episode 2 has no twin. Group 1: rewards 0 and 1."""
    return Rows(
        group=(0, 0, 0, 0, 0, 0, 0, 1, 1),
        trajectory=(0, 0, 1, 2, 3, 3, 4, 5, 6),
        turn=(0, 1, 0, 0, 1, 2, 0, 0, 0),
        parent=(-1, 0, -1, -1, 0, 4, -1, -1, -1),
        reward=(-0.1, 0.0, 0.0, 0.0, 0.4, 0.5, -0.2, 0.0, 1.0),
        num_tokens=(2, 3, 2, 2, 2, 1, 3, 1, 2),
        success=(False,) * 8 + (True,),
        fork=(-1, -1, -1, -1, 1, -1, 2, -1, -1),
        fork_token=(0, 0, 0, 0, 2, 0, 1, 0, 0),
        status=("done",) * 9,
        replayed=(0.0, 0.0, 0.0, 0.0, -0.1, -0.1, 0.0, 0.0, 0.0),
    )


def test_a_pair_is_worth_what_its_twin_earned_more_and_other_groups_are_credited_as_by_grpo() -> None:
    found = twin_difference(std="population", eps=0.0)(table())
    assert isinstance(found.advantage, PerRow)
    assert isinstance(found.keep, PerToken)
    first = (-0.1 + 0.4 + 0.5) - -0.1  # D.2: r' - r, no division
    second = -0.2 - 0.0
    expected = [first, first, second, 0.0, first, first, second, -1.0, 1.0]
    assert list(found.advantage.values) == pytest.approx(expected)
    yes, no = True, False
    assert [list(own) for own in found.keep.values] == [
        [yes, yes], [yes, yes, no], [yes, no], [no, no], [yes, yes], [yes], [yes, yes, yes], [yes], [yes, yes],
    ]  # fmt: skip


def test_a_twin_and_the_prefix_that_it_shares_count_as_one_trajectory() -> None:
    assert list(twin_difference()(table()).counts_as or ()) == [3, 3, 4, 2, 3, 3, 4, 5, 6]


def test_gains_follow_the_twins_of_each_entry_and_choose_the_next() -> None:
    algorithm = cpo(optimizer=Optimizer(), num_samples=2)
    state = begin_state(algorithm)
    assert state == {"gains": {}}
    pair = (
        episode(0, turn((5,), reward=-0.5)),
        episode(1, turn((5,), reward=0.0)),
        episode(2, turn((100,), reward=0.5), fork=Fork(parent=0, turn=0, forced=(100,))),
        episode(3, turn((100,), reward=0.2), fork=Fork(parent=1, turn=0, forced=(100,))),
    )
    after = adapt_state(algorithm, state, [Group(task=TASK, trajectories=pair)], {})
    assert after["gains"] == pytest.approx({"100": 0.9 * FIRST_GAIN + 0.1 * 0.6})
    assert recall(algorithm, after).sample is not algorithm.sample


@for_each("bad", [{"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}, {"gain_rate": 0.0}])
def test_settings_that_mean_nothing_are_refused(bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        Twins(**bad)


def test_only_the_likeliest_places_by_the_first_token_are_probed() -> None:
    tag = Entry(name="python", chosen=(60, 61), words=(7,), description=(60, 61))
    one = episode(0, turn((5, 6, 8, 9), [(-1.0, -4.0), (-1.0, -2.0), (-1.0, -3.0), (-1.0, -5.0)]))
    for num, expected in ((2, [1, 2]), (0, [1, 2, 0, 3]), (9, [1, 2, 0, 3])):
        twins = Twins(num_probed=num)
        left = list(begin_twins([one, one], (tag,), (7, 60), twins, {}, Random(0)))
        probes = next(weigh_places(left[:1], twins))
        assert [probe.token for probe in probes] == expected
