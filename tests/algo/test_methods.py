"""Credit by trees and turns: every method on the two fixtures, and what holds for all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from rlx.algo.at2po import at2po, backed_up_values
from rlx.algo.carl import tree_outcome
from rlx.algo.credit import group_centred
from rlx.algo.forks import in_rounds, keep_some, new_states, root_of, surest_last, uniform_states
from rlx.algo.gigpo import group_in_group
from rlx.algo.parts import Algorithm, Credit, Optimizer, PerRow, Sampler
from rlx.algo.rows import Rows
from rlx.algo.tree import tree_difference
from rlx.algo.tree_grpo import levels_of_leaves, tree_grpo
from rlx.algo.turn_grpo import first_turn_apart
from rlx.run.duration import episodes_a_task
from rlx.types import Action, Completion, Fork, Group, Start, Trajectory, Turn
from tests.algo import trees
from tests.algo.trees import Process, by_place, copies_of, grow, of_edges, shuffled, table, tree_by_hand, values_of

ESTIMATORS: Mapping[str, Credit] = {
    "carl": tree_difference("critical"),
    "carl_all": tree_difference("all"),
    "carl_outcome": tree_outcome("critical"),
    "carl_outcome_all": tree_outcome("all"),
    "at2po": backed_up_values("child_softmax", "value"),
    "at2po_mean": backed_up_values("child_mean", "both"),
    "at2po_leaves": backed_up_values("leaf_mean", "parent"),
    "at2po_leaf": backed_up_values("child_mean", "leaf"),
    "tree_grpo": levels_of_leaves("both"),
    "tree_grpo_tree": levels_of_leaves("tree"),
    "tree_grpo_task": levels_of_leaves("task"),
    "gigpo": group_in_group(0.95, 1.0, "std", "trajectories"),
    "gigpo_steps": group_in_group(0.95, 1.0, "none", "steps"),
    "turn_grpo": first_turn_apart(1.0, 1e-4),
}
FLAT = ("gigpo", "gigpo_steps", "turn_grpo")
"""Methods without forks."""
GRPO_ON_CHAINS = ("carl_outcome_all", "tree_grpo_task")
UNMOVED = tuple(name for name in ESTIMATORS if name not in FLAT)
TREES = tuple(name for name in UNMOVED if name not in ("carl", "carl_all"))
ONE, ZERO = 0.7302967, -1.0954451
"""z of a success and of a failure among the five leaves, with the sample deviation."""


def test_tree_grpo_is_twice_grpo_where_the_task_has_one_tree() -> None:
    found = levels_of_leaves("both")(tree_by_hand())
    leaves = {"c": ONE, "d": ZERO, "f": ONE, "g": ONE, "h": ZERO}
    above = {"a": (ONE + ZERO) / 2, "b": (2 * ONE + ZERO) / 3, "e": (2 * ONE + ZERO) / 3}
    assert of_edges(found) == pytest.approx({edge: 2 * value for edge, value in (leaves | above).items()}, abs=1e-5)
    assert copies_of(found) == [2, 1, 1, 3, 3, 1, 1, 1]
    assert found.metrics == {"tree/edges": 8, "tree/critical": 7, "tree/copies": 13 / 8}


def test_an_episode_left_out_is_no_leaf_and_what_it_shares_is_trained() -> None:
    rows = replace(tree_by_hand(), spare=(True, True, False, False, False, False, False, False))
    found = levels_of_leaves("task")(rows)
    assert copies_of(found) == [1, 0, 1, 3, 3, 1, 1, 1]
    assert isinstance(found.keep, PerRow)
    assert list(found.keep.values) == [1, 0, 1, 1, 1, 1, 1, 1]
    assert of_edges(found)["a"] == of_edges(found)["d"] == pytest.approx(-0.8660254, abs=1e-5)


def test_the_outcome_row_of_carl_gives_an_edge_the_outcomes_of_the_episodes_that_it_is_in() -> None:
    found = tree_outcome("critical")(tree_by_hand())
    assert of_edges(found)["a"] == pytest.approx((ONE + ZERO) / 2, abs=1e-5)
    assert of_edges(found)["b"] == pytest.approx((2 * ONE + ZERO) / 3, abs=1e-5)
    assert copies_of(found) == [2, 1, 1, 3, 0, 1, 1, 1]
    assert copies_of(tree_outcome("all")(tree_by_hand())) == [2, 1, 1, 3, 3, 1, 1, 1]


@pytest.mark.parametrize(
    ("advantage", "a", "b", "c"),
    [
        ("value", -0.2041, 0.1361, 0.8165),
        ("parent", -0.2041 + 0.0340, 0.1361 + 0.0340, 0.8165 + 0.2041),
        ("root", -0.2041 + 0.0340, 0.1361 + 0.0340, 0.8165 + 0.0340),
        ("both", 2 * (-0.2041 + 0.0340), 2 * (0.1361 + 0.0340), 2 * 0.8165 + 0.2041 + 0.0340),
        ("leaf", -0.2041, 0.1361, 0.8165),
    ],
)
def test_at2po_backs_the_z_of_leaves_up(advantage: Any, a: float, b: float, c: float) -> None:
    """With equal surprise, whatever its name, a mean over children is the same."""
    for values in ("child_softmax", "child_mean"):
        found = backed_up_values(values, advantage)(tree_by_hand())  # type: ignore[arg-type]
        edges = of_edges(found)
        assert (edges["a"], edges["b"], edges["c"]) == pytest.approx((a, b, c), abs=2e-4)
        assert copies_of(found) == [2, 1, 1, 3, 3, 1, 1, 1]
    assert of_edges(backed_up_values("child_softmax", "value")(tree_by_hand())) == pytest.approx(
        {"a": -0.2041, "b": 0.1361, "e": 0.1361, "c": 0.8165, "f": 0.8165, "g": 0.8165, "d": -1.2247, "h": -1.2247},
        abs=1e-4,
    )


def test_at2po_weighs_children_by_the_softmax_of_their_surprise() -> None:
    rows = replace(tree_by_hand(), logp=((-1.0,), (-1.0,), (-1.0 - math.log(3),), *((-1.0,),) * 5))
    assert of_edges(backed_up_values("child_softmax", "value")(rows))["a"] == pytest.approx(
        (0.8165 - 3 * 1.2247) / 4, abs=1e-4
    )


def test_copies_of_the_last_leaf_are_counted_where_asked_for_and_flagged() -> None:
    rows = tree_by_hand()
    plain, filled = (backed_up_values("child_mean", "value", num)(rows) for num in (0, 7))
    assert "tree/duplicates" not in plain.metrics
    assert filled.metrics["tree/duplicates"] == 2
    assert copies_of(filled) == [2, 1, 1, 5, 5, 1, 1, 3]
    edges = of_edges(filled)
    won, lost = 4 / math.sqrt(12), -3 / math.sqrt(12)
    assert (edges["c"], edges["h"]) == pytest.approx((won, lost), abs=1e-5)
    assert edges["e"] == pytest.approx((2 * won + 3 * lost) / 5, abs=1e-5)


@pytest.mark.parametrize(
    ("stats", "won", "lost"), [("steps", 1.0690450, -0.8017837), ("trajectories", 0.7071068, -0.7071068)]
)
def test_gigpo_compares_whole_episodes_and_turns_with_equal_observations(stats: str, won: float, lost: float) -> None:
    found = values_of(group_in_group(0.95, 1.0, "std", stats)(trees.steps_by_hand()))  # type: ignore[arg-type]
    step = [1.1547, 0.7071, 0, -0.57735, -0.7071, -0.57735, 0]
    assert found == pytest.approx([whole + part for whole, part in zip([won] * 3 + [lost] * 4, step)], abs=1e-4)


def test_gigpo_without_weight_of_turns_is_grpo() -> None:
    rows = trees.steps_by_hand()
    assert values_of(group_in_group(0.95, 0.0, "std", "trajectories")(rows)) == values_of(group_centred()(rows))


def two_turns(*rewards: tuple[float, ...]) -> Rows:
    of = [(t, turn, reward) for t, own in enumerate(rewards) for turn, reward in enumerate(own)]
    return Rows(
        group=(0,) * len(of),
        trajectory=tuple(t for t, _, _ in of),
        turn=tuple(turn for _, turn, _ in of),
        parent=tuple(row - 1 if turn else -1 for row, (_, turn, _) in enumerate(of)),
        reward=tuple(reward for _, _, reward in of),
        num_tokens=(1,) * len(of),
        success=(True,) * len(of),
    )


def test_the_first_of_two_turns_has_an_advantage_of_its_own() -> None:
    found = values_of(first_turn_apart(1.0, 0.0)(two_turns((0.2, 1), (0.2, 0), (0, 0), (0, 1))))
    z = 0.8660254
    assert found == pytest.approx([2 * z, z, 0, -z, -2 * z, -z, 0, z], abs=1e-6)


def test_episodes_of_one_turn_and_of_three_have_the_stated_fallback() -> None:
    """First rewards .2, 0, 0; outcomes 1, 1, 0, of which the third is spread over two turns; sums 1.2, 1, 0."""
    found = values_of(first_turn_apart(1.0, 0.0)(two_turns((0.2, 1), (1,), (0, 0.5, -0.5))))
    first, outcome = [1.1547005, -0.5773503, -0.5773503], [0.5773503, 0.5773503, -1.1547005]
    alone = (1 - 2.2 / 3) / 0.6429101
    later = outcome[2]
    assert found == pytest.approx([first[0] + outcome[0], outcome[0], alone, first[2] + later, later, later], abs=1e-6)


def random_tree(seed: int, fresh: int = 3, forks: int = 2) -> Group:
    """A group of trees that are forked at random."""
    sampler = in_rounds(fresh, 2, 2 * fresh * forks, uniform_states(forks))
    return grow(sampler, Process(seed, varied=True).play, Random(seed))


def chains(seed: int, num: int = 4) -> Group:
    process = Process(seed, varied=True)
    starts = [Start(task=trees.TASK, sample=sample) for sample in range(num)]
    return Group(task=trees.TASK, trajectories=tuple(map(process.play, starts)))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("seed", range(4))
def test_order_of_samples_and_the_rest_of_the_batch_do_not_change_an_advantage(name: str, seed: int) -> None:
    credit, make = ESTIMATORS[name], chains if name in FLAT else random_tree
    one, other = make(seed), make(seed + 100)
    alone = by_place(one, credit(table(one)))
    mixed = shuffled(one, seed)
    assert by_place(mixed, credit(table(mixed))) == pytest.approx(alone)
    assert by_place(one, credit(table(one, other))) == pytest.approx(alone)
    assert by_place(one, credit(table(other, one)), len(table(other).turn)) == pytest.approx(alone)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_group_of_one_and_groups_that_earned_the_same_have_advantages_of_zero(name: str) -> None:
    lonely = ESTIMATORS[name](table(chains(1, num=1)))
    assert values_of(lonely) == [0.0] * len(values_of(lonely))
    same = replace(table(chains(2)), reward=(0.0,) * len(table(chains(2)).turn))
    assert set(values_of(ESTIMATORS[name](same))) == {0.0}


@pytest.mark.parametrize("name", GRPO_ON_CHAINS)
def test_chains_without_forks_have_the_advantages_of_grpo(name: str) -> None:
    rows = table(chains(3))
    assert values_of(ESTIMATORS[name](rows)) == pytest.approx(values_of(group_centred()(rows)))


@pytest.mark.parametrize("name", UNMOVED)
def test_a_turn_without_siblings_changes_no_other_advantage(name: str) -> None:
    """A turn is put between `b` and `e`, which has none either."""
    rows, put = tree_by_hand(), 4
    more = [*range(put), put, *range(put, len(rows.turn))]
    moved = [row + (row >= put) for row in range(len(rows.turn))]
    longer = Rows(
        group=(0,) * 9,
        trajectory=tuple(rows.trajectory[row] for row in more),
        turn=tuple(rows.turn[row] + (number > put) for number, row in enumerate(more)),
        parent=(-1, 0, 0, -1, 3, 4, 5, 5, 5),
        reward=tuple(rows.reward[row] if number != put else 0 for number, row in enumerate(more)),
        num_tokens=(1,) * 9,
        success=tuple(rows.success[row] for row in more),
        fork=(-1, -1, 1, 0, -1, -1, -1, 6, 6),
        fork_token=(0,) * 9,
        logp=((-1.0,),) * 9,
    )
    before, after = (values_of(ESTIMATORS[name](one)) for one in (rows, longer))
    assert [after[row] for row in moved] == pytest.approx(before)


@pytest.mark.parametrize("name", TREES)
def test_the_mean_multiplicity_of_a_sampled_token_is_reported(name: str) -> None:
    rows = tree_by_hand()
    found = ESTIMATORS[name](rows)
    assert found.metrics["tree/copies"] == pytest.approx(sum(copies_of(found)) / 8)


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
    "tree_grpo": (tree_grpo, lambda T: 4 * T + 2),
    "at2po": (partial(at2po, num_fresh=1, num_rounds=1), lambda T: T + 6 * ((T + 3) / 2 - 1 / T)),
}
"""Turns that a task samples for chains of T turns, with forks uniform over places (AT2PO: of a chain and its root)."""


@pytest.mark.parametrize("length", [1, 3, 5])
@pytest.mark.parametrize("name", COSTS)
def test_forks_of_a_chain_play_the_turns_that_a_plan_says(name: str, length: int) -> None:
    make, cost = COSTS[name]
    sampler = make(optimizer=Optimizer()).sample
    assert episodes_a_task(sampler, length) * length == pytest.approx(cost(length))
    turns = [turns_of(sampler, length, seed) for seed in range(300)]
    if name != "at2po":  # its places depend on surprise
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


def turns_of(sampler: Sampler, length: int, seed: int) -> int:
    process = Process(seed, length)
    grow(sampler, process.play, Random(seed))
    return process.num_turns
