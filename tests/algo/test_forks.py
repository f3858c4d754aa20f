"""Samplers that fork: places, costs, rounds and what is left out; and bad values of every method."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from typing import Any

import pytest

from rlx.algo.aepo import aepo, clip_with_gradient, num_fresh_of, tired_chance
from rlx.algo.arpo import arpo, chance
from rlx.algo.at2po import at2po
from rlx.algo.branches import contrasts, outcomes_of, turns_back, until_contrast
from rlx.algo.branpo import branpo
from rlx.algo.carl import carl
from rlx.algo.coins import Uncertainty, by_coin, uncertainties
from rlx.algo.forks import in_rounds, keep_some, new_states, root_of, sampled_tokens, surest_last, uniform_states
from rlx.algo.g2po import g2po
from rlx.algo.gigpo import gigpo
from rlx.algo.losses import policy_loss
from rlx.algo.parts import Algorithm, Optimizer, Sampler
from rlx.algo.tree_grpo import tree_grpo
from rlx.algo.treerl import treerl
from rlx.algo.turn_grpo import turn_grpo
from rlx.algo.vineppo import vineppo
from rlx.plan.stage import episodes_a_task
from rlx.types import Action, Completion, Fork, Trajectory, Turn
from tests.algo import trees
from tests.algo.test_methods import random_tree
from tests.algo.trees import Process, grow
from tests.errors import raises_naming
from tests.loops import for_each


def test_places_are_drawn_uniformly_from_root_and_inner_turns_and_never_after_a_leaf() -> None:
    tree = random_tree(5, fresh=1, forks=1)
    choose, counts = uniform_states(1), Counter[tuple[int, int]]()
    for seed in range(6000):
        (place,) = choose(tree.trajectories, Random(seed))
        counts[place.parent.sample, place.turn] += 1
    states = [(place.parent.sample, place.turn) for one in tree.trajectories for place in new_states(one)]
    assert len(states) == len(set(states)) == 1 + sum(len(one.new_turns) - 1 for one in tree.trajectories)
    assert set(counts) == set(states)
    expected = 6000 / len(states)
    chi_square = sum((counts[state] - expected) ** 2 / expected for state in states)
    assert chi_square < len(states) - 1 + 4 * (2 * (len(states) - 1)) ** 0.5


def test_random_leaves_of_each_tree_are_kept_and_the_others_left_out() -> None:
    seen = Counter[int]()
    for seed in range(300):
        sampler = in_rounds(2, 1, 8, uniform_states(4), finish=keep_some(3))
        group = grow(sampler, Process(seed).play, Random(seed))
        kept = [one.sample for one in group.trajectories if not one.spare]
        assert [len([s for s in kept if root == root_of(group.trajectories)[s]]) for root in (0, 1)] == [3, 3]
        seen.update(kept)
    assert set(seen) == set(range(10))
    assert max(seen.values()) < 250


COSTS: Mapping[str, tuple[Callable[..., Algorithm], Callable[[int], float]]] = {
    "carl": (carl, lambda T: 8 * T + 16 * (T + 1) / 2),
    "tree_grpo": (tree_grpo, lambda T: 4 * T + 2),
    "treerl": (treerl, lambda T: 6 * T + 24 * T / 2),
    "vineppo": (partial(vineppo, num_rollouts=3), lambda T: 8 * T + 3 * (T + 8 * T * (T - 1) / 2)),
    "at2po": (partial(at2po, num_fresh=1, num_rounds=1), lambda T: T + 6 * ((T + 3) / 2 - 1 / T)),
}
"""Turns that a task samples for chains of T turns, with forks uniform over places (AT2PO: of a chain and its root)."""


@for_each("length, name", product([1, 3, 5], COSTS))
def test_forks_of_a_chain_play_the_turns_that_a_plan_says(name: str, length: int) -> None:
    make, cost = COSTS[name]
    sampler = make(optimizer=Optimizer()).sample
    assert episodes_a_task(sampler, length) * length == pytest.approx(cost(length))
    if name in ("tree_grpo", "vineppo"):  # places of the others depend on surprise
        num, tokens = (300, 1) if name == "tree_grpo" else (1, 16)  # so that no two states are equal
        turns = [turns_of(sampler, length, seed, tokens) for seed in range(num)]
        assert sum(turns) / len(turns) == pytest.approx(cost(length), rel=0.05)


def test_at2po_has_22_leaves_and_never_takes_an_episodes_last_turn_again() -> None:
    for seed in range(20):
        group = grow(at2po(optimizer=Optimizer()).sample, Process(seed, varied=True).play)
        assert len(group.trajectories) == 22
        by_sample = {one.sample: one for one in group.trajectories}
        forks = [one.fork for one in group.trajectories if one.fork]
        assert all(fork.turn == 0 or fork.turn + 1 < len(by_sample[fork.parent].turns) for fork in forks)


def test_at2po_takes_the_turns_again_that_surprised_most_less_a_penalty_for_siblings() -> None:
    """Surprises .5, .4, .3 and a last turn that does not count; the fork makes two siblings of .5 and .42."""
    first = told(0, 0.5, 0.4, 0.3, 9.0)
    places = surest_last(3, 0.05)([first], Random(0))
    assert [place.turn for place in places] == [0, 1, 2]
    assert [place.turn for place in surest_last(6, 0.05)([first], Random(0))] == [0, 1, 2, 0, 0, 1]
    fork = replace(told(1, 0.42, 0.1, 9.0), fork=Fork(parent=0, turn=0))
    ranked = [(place.parent.sample, place.turn) for place in surest_last(3, 0.2)([first, fork], Random(0))]
    assert ranked == [(0, 1), (0, 0), (0, 2)]


def told(sample: int, *surprises: float) -> Trajectory:
    """An episode whose turns have these surprises."""
    said = [Completion(token_ids=(1,), logprobs=(-one,), stop="stop") for one in surprises]
    turns = [Turn(prompt_ids=(i,), completion=one, action=Action(kind="act", text="")) for i, one in enumerate(said)]
    return Trajectory(task=trees.TASK, sample=sample, turns=tuple(turns), status="done")


def turns_of(sampler: Sampler, length: int, seed: int, tokens: int) -> int:
    process = Process(seed, length, tokens)
    grow(sampler, process.play, Random(seed))
    return process.num_turns


def test_without_a_gain_in_surprise_arpo_forks_half_of_the_time_and_with_a_gain_of_one_seven_tenths() -> None:
    assert [chance(0.2 * gain) for gain in (0.0, 1.0, 3.0, -3.0)] == pytest.approx([0.5, 0.7, 1.0, 0.0])
    sampler = by_coin(40, 20, lambda gain, _: chance(0.2 * (gain + 1)), num_ids=2, uncertainty="surprise")
    forks = [
        one.fork
        for seed in range(60)
        for one in grow(sampler, even_process(2).play, Random(seed)).trajectories
        if one.fork and one.fork.parent < 20
    ]
    assert {fork.turn for fork in forks} == {1}
    assert abs(len(forks) / (60 * 20) - 0.7) < 0.05


def even_process(length: int) -> Process:
    """A process each token of which is as surprising as any other."""

    class Even(Process):
        def turn(self, past: Any, num: int, given: Any, *, is_last: bool) -> Turn:
            made = super().turn(past, num, given, is_last=is_last)
            said = replace(made.completion, logprobs=(-1.0,) * len(made.completion.token_ids))
            return replace(made, completion=said)

    return Even(0, length)


@pytest.mark.parametrize("make", [arpo, aepo])
def test_forks_of_a_task_do_not_depend_on_the_tasks_before_it(make: Callable[..., Algorithm]) -> None:
    sampler = make(optimizer=Optimizer()).sample

    def forks(seed: int) -> list[Fork | None]:
        group = grow(sampler, Process(seed, varied=True).play, Random(seed))
        return [one.fork for one in group.trajectories]

    assert [forks(1), forks(2)] == [forks(2), forks(1)][::-1]
    assert all(len(forks(seed)) == 16 for seed in range(5))


@pytest.mark.parametrize(("uncertainty", "watches"), [("surprise", False), ("top10", True)])
def test_likely_tokens_are_asked_for_where_their_entropy_is_the_uncertainty(
    uncertainty: Uncertainty, watches: bool
) -> None:
    sampler = by_coin(4, 2, lambda gain, streak: 0.5, num_ids=20, uncertainty=uncertainty)
    assert sampler.watches is watches


def test_each_episode_forks_once_a_round_at_most_and_a_fresh_one_begins_where_none_goes_on() -> None:
    never = grow(by_coin(6, 3, lambda gain, streak: 0.0, num_ids=2, uncertainty="surprise"), Process(0).play)
    assert [one.fork for one in never.trajectories] == [None] * 6
    always = grow(
        by_coin(16, 2, lambda gain, streak: 1.0, num_ids=2, uncertainty="surprise"), Process(0, length=4).play
    )
    turns = [one.fork.turn for one in always.trajectories if one.fork]
    assert turns == [1, 1, 2, 2, 2, 2, *[3] * 8]


def test_aepo_forks_less_after_forks_in_a_row_and_never_after_twenty() -> None:
    assert [tired_chance(0.0, 0.05 * streak) for streak in (0, 4, 10, 20, 30)] == pytest.approx([0.5, 0.375, 0, 0, 0])
    assert tired_chance(0.2, 0.0) == pytest.approx(0.7)
    first_turns: list[list[float]] = [[], [1.0], [1.0, 1.0], [9, 0, 0], [0, 99.0]]
    assert [num_fresh_of(16, surprises) for surprises in first_turns] == [9, 9, 9, 16, 1]


def test_aepos_upper_bound_keeps_a_gradient(tokens: Any, totals: Any) -> None:
    seen = tokens([0.5, 0.5, -0.5], [0.0, 0.0, 0.0], advantage=[1.0, -1.0, 1.0])
    result = policy_loss(clip_with_gradient(0.2, 0.2))(seen, totals(seen))
    high, low = math.exp(0.5), math.exp(-0.5)
    assert result.value.item() == pytest.approx((-1.2 + high - low) / 3)
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-1.2 / 3, high / 3, -low / 3])


def test_treerl_forks_the_tokens_that_surprised_most_but_not_an_episodes_first() -> None:
    group = grow(treerl(optimizer=Optimizer(), num_trees=1).sample, Process(3, length=3, tokens=4).play)
    first, *forks = group.trajectories
    tokens = [logp for turn in first.turns for logp in turn.completion.logprobs]
    worst = sorted(tokens[1:])[:2]
    left = [first.turns[one.fork.turn].completion.logprobs[one.fork.token] for one in forks if one.fork]
    assert left == [worst[0]] * 2 + [worst[1]] * 2
    assert all(one.turns[: one.fork.turn] == first.turns[: one.fork.turn] for one in forks if one.fork)


def test_the_first_token_that_an_episode_sampled_is_no_place_to_fork() -> None:
    group = grow(treerl(optimizer=Optimizer(), num_trees=1).sample, Process(3, length=3, tokens=4).play)
    for one in group.trajectories:
        skipped = one.fork.num_prefix if one.fork else 0
        begin = one.fork.turn if one.fork else 0
        sampled = [(turn, token) for turn in range(begin, len(one.turns)) for token in range(4)][skipped:]
        assert [(place.turn, place.token) for _, place in sampled_tokens(one)] == sampled[1:]


def test_treerl_trains_sixteen_episodes_one_of_them_a_success() -> None:
    for seed in range(30):
        group = grow(treerl(optimizer=Optimizer()).sample, Process(seed, tokens=3).play, Random(seed))
        assert len(group.trajectories) == 30
        kept = [one for one in group.trajectories if not one.spare]
        assert len(kept) == 16
        assert any(one.success for one in kept) == any(one.success for one in group.trajectories)


def test_vineppo_measures_each_state_of_fresh_episodes_once() -> None:
    process = Process(1, length=3)
    group = grow(vineppo(optimizer=Optimizer(), num_samples=2, num_rollouts=3).sample, process.play)
    places = Counter((one.fork.parent, one.fork.turn) for one in group.trajectories if one.fork)
    states = {turn.prompt_ids for one in group.trajectories[:2] for turn in one.turns}
    assert len(places) == len(states)
    assert set(places.values()) == {3}


RIGHT, WRONG = 1.0, 0.0


def ended(sample: int, reward: float, num_turns: int) -> Trajectory:
    one = told(sample, *[0.1] * num_turns)
    turns = (*one.turns[:-1], replace(one.turns[-1], reward=reward))
    return replace(one, turns=turns, success=reward > 0)


@for_each(
    "rewards, backs",
    [
        ((1, 1, 1, 0), [[], [], [2] * 5, [1, 1, 2, 2]]),
        ((1, 1, 1, 1), [[1]] * 4),
        ((0, 0, 0, 1), [[1, 1, 2, 2, 3, 3]] * 3 + [[1, 1, 2, 2]]),
        ((1, 1, 0, 0), [[1, 1, 2, 2]] * 4),
    ],
)
def test_branpo_takes_turns_again_by_the_rate_of_success_and_the_episodes_reward(rewards: Any, backs: Any) -> None:
    """The third of four episodes has more turns than the others. With a rate of 3/4 every right one has a rule."""
    episodes = [ended(i, reward, 5 if i == 2 else 4) for i, reward in enumerate(rewards)]
    task = outcomes_of(episodes, 0.8)
    found = [turns_back(one, task) for one in episodes]
    if rewards == (1, 1, 1, 0):
        backs = [[1, 1, 2, 2], [1, 1, 2, 2], [2] * 5, [1, 1, 2, 2]]
    assert found == backs


def test_branpo_keeps_the_first_branch_that_contrasts_and_leaves_the_others_out() -> None:
    for seed in range(20):
        group = grow(until_contrast(4, 0.8), Process(seed, length=4).play)
        fresh = {one.sample: one for one in group.trajectories if not one.fork}
        task = outcomes_of(list(fresh.values()), 0.8)
        for sample, one in fresh.items():
            branches = [branch for branch in group.trajectories if branch.fork and branch.fork.parent == sample]
            kept = [branch for branch in branches if not branch.spare]
            assert len(branches) <= 6
            assert len(kept) <= 1
            assert all(contrasts(one, branch, task) for branch in kept)
            assert branches[-1:] == kept or not kept


@for_each(
    "make, bad",
    [
        (tree_grpo, {"num_trees": 0}),
        (tree_grpo, {"num_forks": -1}),
        (tree_grpo, {"num_leaves": 0}),
        (tree_grpo, {"num_rounds": -1}),
        (at2po, {"num_fresh": 0}),
        (at2po, {"num_forks": -2}),
        (arpo, {"num_fresh": 0}),
        (arpo, {"num_samples": 4}),
        (arpo, {"num_ids": 1}),
        (aepo, {"num_samples": 0}),
        (aepo, {"fatigue": -1.0}),
        (treerl, {"num_trees": 0}),
        (treerl, {"num_branches": 0}),
        (vineppo, {"num_rollouts": 0}),
        (vineppo, {"max_states": 0}),
        (branpo, {"num_samples": 1}),
        (gigpo, {"gamma": 2.0}),
        (g2po, {"step_weight": -1.0}),
        (turn_grpo, {"eps": -1.0}),
    ],
)
def test_a_method_that_cannot_be_is_refused_by_its_key(make: Any, bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        make(optimizer=Optimizer(), **bad)


def test_the_uncertainty_of_a_turn_is_over_its_first_twenty_tokens() -> None:
    done = Completion(token_ids=(1,) * 30, logprobs=(-1.0,) * 30, watched=((9.0, 0.5),) * 30, stop="stop")
    one = told(0, 1.0)
    long = replace(one, turns=(replace(one.turns[0], completion=done),))
    assert uncertainties(long, 10, "surprise") == [pytest.approx(20 / math.log(10))]
    assert uncertainties(long, 10, "top10") == [pytest.approx(10 / math.log(10))]


@for_each("make", [aepo, arpo, at2po, branpo, carl, tree_grpo, treerl, vineppo])
def test_a_method_that_forks_says_so_so_that_a_run_can_refuse_what_does_not_replay(make: Any) -> None:
    assert make(optimizer=Optimizer()).sample.num_forks > 0
