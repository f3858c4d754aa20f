"""Credit by trees and turns: every method on the two fixtures, and what holds for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from rlx.algo.credit import group_centred
from rlx.algo.forks import in_rounds, keep_some, new_states, root_of, uniform_states
from rlx.algo.gigpo import group_in_group
from rlx.algo.parts import Credit, Optimizer, PerRow, Sampler
from rlx.algo.rows import Rows
from rlx.algo.tree import tree_difference
from rlx.algo.tree_grpo import levels_of_leaves, tree_grpo
from rlx.algo.turn_grpo import first_turn_apart
from rlx.run.duration import episodes_a_task
from rlx.types import Group, Start
from tests.algo import trees
from tests.algo.trees import Process, by_place, copies_of, grow, of_edges, shuffled, table, tree_by_hand, values_of

ESTIMATORS: Mapping[str, Credit] = {
    "carl": tree_difference("critical"),
    "carl_all": tree_difference("all"),
    "tree_grpo": levels_of_leaves("both"),
    "tree_grpo_tree": levels_of_leaves("tree"),
    "tree_grpo_task": levels_of_leaves("task"),
    "gigpo": group_in_group(0.95, 1.0, "std", "trajectories"),
    "gigpo_steps": group_in_group(0.95, 1.0, "none", "steps"),
    "turn_grpo": first_turn_apart(1.0, 1e-4),
}
FLAT = ("gigpo", "gigpo_steps", "turn_grpo")
"""Methods without forks."""
GRPO_ON_CHAINS = ("tree_grpo_task",)
UNMOVED = ("carl", "carl_all", "tree_grpo", "tree_grpo_tree", "tree_grpo_task")
TREES = ("tree_grpo", "tree_grpo_tree", "tree_grpo_task")
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


@pytest.mark.parametrize("length", [1, 3, 5])
def test_forks_of_a_chain_play_the_turns_that_a_plan_says(length: int) -> None:
    """Tree-GRPO: M T + M N L (T + 1) / 2, over uniform places."""
    sampler = tree_grpo(optimizer=Optimizer()).sample
    turns = [turns_of(sampler, length, seed) for seed in range(400)]
    assert sum(turns) / len(turns) == pytest.approx(episodes_a_task(sampler, length) * length, rel=0.05)
    assert episodes_a_task(sampler, length) * length == pytest.approx(4 * length + 2)


def turns_of(sampler: Sampler, length: int, seed: int) -> int:
    process = Process(seed, length)
    grow(sampler, process.play, Random(seed))
    return process.num_turns
