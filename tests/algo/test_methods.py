"""Credit by trees and turns: every method on the two fixtures, and what holds for all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from rlx.algo.aepo import by_surprise
from rlx.algo.arpo import outcome_of_leaves
from rlx.algo.at2po import backed_up_values
from rlx.algo.backup import forest_of
from rlx.algo.branpo import base_and_branches, branches_of, reward_of
from rlx.algo.carl import tree_outcome
from rlx.algo.credit import group_centred
from rlx.algo.forks import in_rounds, least_likely_tokens, uniform_states
from rlx.algo.g2po import graph_values
from rlx.algo.gigpo import group_in_group
from rlx.algo.parts import Credit, Credited, PerRow, PerToken
from rlx.algo.rows import Rows
from rlx.algo.tree import tree_difference
from rlx.algo.tree_grpo import levels_of_leaves
from rlx.algo.treerl import gain_and_value
from rlx.algo.turn_grpo import first_turn_apart
from rlx.algo.vineppo import measured_values
from rlx.types import Group, Start
from tests.algo import trees
from tests.algo.trees import Process, by_place, copies_of, grow, of_edges, shuffled, table, tree_by_hand, values_of
from tests.loops import for_each

ESTIMATORS: Mapping[str, Credit] = {
    "carl": tree_difference("critical"),
    "carl_all": tree_difference("all"),
    "carl_outcome": tree_outcome("critical"),
    "carl_outcome_all": tree_outcome("all"),
    "at2po": backed_up_values("child_softmax", "value"),
    "at2po_mean": backed_up_values("child_mean", "both"),
    "at2po_leaves": backed_up_values("leaf_mean", "parent"),
    "at2po_leaf": backed_up_values("child_mean", "leaf"),
    "arpo": outcome_of_leaves(),
    "aepo": by_surprise(outcome_of_leaves(), 0.2),
    "treerl": gain_and_value("none", "root"),
    "treerl_paper": gain_and_value("advantage", "root"),
    "treerl_released": gain_and_value("value", "tokens"),
    "branpo": base_and_branches("mean"),
    "branpo_max": base_and_branches("max"),
    "vineppo": measured_values(whiten=False),
    "g2po": graph_values(0.95, 1.0, 0.1, "std", "trajectories", None),
    "g2po_released": graph_values(0.95, 1.0, 0.1, "none", "steps", 1.0),
    "tree_grpo": levels_of_leaves("both"),
    "tree_grpo_tree": levels_of_leaves("tree"),
    "tree_grpo_task": levels_of_leaves("task"),
    "gigpo": group_in_group(0.95, 1.0, "std", "trajectories"),
    "gigpo_steps": group_in_group(0.95, 1.0, "none", "steps"),
    "turn_grpo": first_turn_apart(1.0, 1e-4),
}
FLAT = ("g2po", "g2po_released", "gigpo", "gigpo_steps", "turn_grpo")
"""Methods without forks."""
GRPO_ON_CHAINS = ("arpo", "carl_outcome_all", "tree_grpo_task")
TREES = tuple(name for name in ESTIMATORS if name not in (*FLAT, "carl", "carl_all"))
UNMOVED = tuple(
    name for name in ESTIMATORS if name not in (*FLAT, "aepo", "branpo", "branpo_max", "treerl_released", "vineppo")
)
"""Methods to which a turn without siblings is nothing; others standardise over tokens, or count turns from the end."""
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


@for_each(
    "advantage, a, b, c",
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


def test_treerl_adds_the_value_to_the_gain() -> None:
    found = gain_and_value("none", "root")(tree_by_hand())
    assert of_edges(found) == pytest.approx(
        {"a": -0.25, "b": 1 / 6, "c": 1.125, "d": -1.375, "e": 1 / 6, "f": 0.9167, "g": 0.9167, "h": -1.5833}, abs=1e-4
    )
    assert copies_of(found) == [2, 1, 1, 3, 3, 1, 1, 1]


def test_treerl_weighs_by_the_root_of_the_leaves_and_takes_the_mean_off_where_released() -> None:
    rows, root2, root3 = tree_by_hand(), math.sqrt(2), math.sqrt(3)
    paper = of_edges(gain_and_value("advantage", "root")(rows))
    assert (paper["a"], paper["e"], paper["c"]) == pytest.approx((-0.25 / root2, 1 / 6 / root3, 1.125))
    value = {"a": -0.125 / root2, "b": 1 / 12 / root3, "e": 1 / 12 / root3, "c": 0.5, "d": -0.75}
    mean = (sum(value.values()) + 0.5 + 0.5 - 0.75) / 8
    released = of_edges(gain_and_value("value", "tokens")(rows))
    assert released["a"] == pytest.approx(2 * value["a"] - mean)
    assert released["e"] == pytest.approx(value["b"] + value["e"] - mean)
    assert released["c"] == pytest.approx(value["c"] - value["a"] + value["c"] - mean)


def test_treerl_counts_leaves_that_are_not_trained_in_values_alone() -> None:
    rows = replace(tree_by_hand(), spare=(False,) * 7 + (True,))
    found = gain_and_value("none", "root")(rows)
    assert of_edges(found)["b"] == pytest.approx(1 / 6)
    assert copies_of(found) == [2, 1, 1, 2, 2, 1, 1, 0]


def test_a_fork_in_mid_turn_parts_the_tokens_before_it_from_those_after_it() -> None:
    """One turn of 5 tokens earns 1; a fork after 2 of them earns 0, and a fork of that, after 3, earns 1."""
    rows = Rows(
        group=(0,) * 3,
        trajectory=(0, 1, 2),
        turn=(0,) * 3,
        parent=(-1,) * 3,
        reward=(1, 0, 1),
        num_tokens=(5, 3, 2),
        success=(True, False, True),
        fork=(-1, 0, 1),
        fork_token=(0, 2, 3),
    )
    found = gain_and_value("none", "root")(rows)
    assert isinstance(found.multiplicity, PerToken)
    assert list(map(list, found.multiplicity.values)) == [[3, 3, 1, 1, 1], [2, 1, 1], [1, 1]]
    won, lost = 0.5, -1.0
    both = (won + lost) / 2
    assert list(map(list, found.advantage.values)) == [
        pytest.approx([0, 0, 2 * won, 2 * won, 2 * won]),
        pytest.approx([2 * both, 2 * lost - both, 2 * lost - both]),
        pytest.approx([2 * won - both] * 2),
    ]


def test_arpo_gives_an_edge_the_outcomes_of_the_episodes_below_and_aepo_weighs_them_by_surprise() -> None:
    rows = tree_by_hand()
    plain = of_edges(outcome_of_leaves()(rows))
    assert (plain["c"], plain["d"], plain["a"]) == pytest.approx((ONE, ZERO, (ONE + ZERO) / 2), abs=1e-5)
    even = by_surprise(outcome_of_leaves(), 0.2)(rows)
    assert by_row(even) == pytest.approx(list(plain.values()))
    unsure = replace(rows, logp=((-2.0,), *((-1.0,),) * 7))
    z = (7 / 8) / math.sqrt(1 / 8), (-1 / 8) / math.sqrt(1 / 8)
    weighed = by_row(by_surprise(outcome_of_leaves(), 0.2)(unsure))
    assert weighed[:2] == pytest.approx([plain["a"] * (1 + 0.2 * z[0]), plain["c"] * (1 + 0.2 * z[1])], abs=1e-5)


def test_g2po_joins_equal_observations_to_states_with_values() -> None:
    found = values_of(graph_values(0.95, 1.0, 0.1, "std", "trajectories", None)(trees.steps_by_hand(10.0)))
    first = [0.5774, 0.7071, 0, 0.5774, -0.7071, -1.1547, 0]
    second = [0.4095, 1.7188, -0.0440, 0.4095, -0.8904, -1.3631, -0.2404]
    whole = [0.7071] * 3 + [-0.7071] * 4
    assert found == pytest.approx([a + b + c for a, b, c in zip(whole, first, second, strict=True)], abs=2e-4)


def test_a_partial_reward_keeps_its_value_in_g2po_or_drops_to_zero_as_released() -> None:
    rows = trees.steps_by_hand(0.6)
    paper, released = (graph_values(0.95, 1.0, 0.1, "none", "trajectories", full)(rows) for full in (None, 1.0))
    assert values_of(paper) == pytest.approx(values_of(graph_values(0.95, 1.0, 0.1, "none", "trajectories", 0.6)(rows)))
    assert values_of(released) == pytest.approx([0.3] * 3 + [-0.3] * 4)


def test_vineppo_credits_gains_of_values_that_forks_measured_and_does_not_train_them() -> None:
    """Turns 0 and 1 of one episode that earns 1; V(root) = mean(1, 0, 0), V(after turn 0) = mean(1, 0)."""
    rows = Rows(
        group=(0,) * 10,
        trajectory=(0, 0, 1, 1, 2, 2, 3, 3, 4, 5),
        turn=(0, 1, 0, 1, 0, 1, 0, 1, 1, 1),
        parent=(-1, 0, -1, 2, -1, 4, -1, 6, 0, 0),
        reward=(0, 1, 0, 1, 0, 0, 0, 0, 1, 0),
        num_tokens=(1,) * 10,
        success=(True,) * 10,
        fork=(-1, -1, 0, -1, 0, -1, 0, -1, 1, 1),
        fork_token=(0,) * 10,
        state=(0, 1, 0, 2, 0, 3, 0, 4, 1, 1),
    )
    found = measured_values(whiten=False)(rows)
    assert values_of(found)[:2] == pytest.approx([1 / 2 - 1 / 3, 1 - 1 / 2])
    assert isinstance(found.keep, PerRow)
    assert list(found.keep.values) == [True] * 2 + [False] * 8
    white = values_of(measured_values(whiten=True)(rows))[:2]
    assert white == pytest.approx([-1, 1], abs=1e-5)


def pair_by_hand(*returns: tuple[float, float]) -> Rows:
    """Episodes of three turns, each with a branch that takes the last turn again; their returns."""
    num = len(returns)
    return Rows(
        group=(0,) * 4 * num,
        trajectory=tuple(t for pair in range(num) for t in (2 * pair, 2 * pair, 2 * pair, 2 * pair + 1)),
        turn=(0, 1, 2, 2) * num,
        parent=tuple(4 * pair + row for pair in range(num) for row in (-1 - 4 * pair, 0, 1, 1)),
        reward=tuple(x for one, other in returns for x in (0, 0, one, other)),
        num_tokens=(1,) * 4 * num,
        success=(True,) * 4 * num,
        fork=tuple(row for pair in range(num) for row in (-1, -1, -1, 4 * pair + 2)),
        fork_token=(0,) * 4 * num,
    )


def test_branpo_compares_bases_with_bases_and_branches_with_branches() -> None:
    """Bases .5 and 0, of max 1 and 0; branches 1, 0, 0, 0."""
    rows = pair_by_hand((1, 0), (0, 0))
    for base in ("mean", "max"):
        found = values_of(base_and_branches(base)(rows))  # type: ignore[arg-type]
        assert found == pytest.approx([0.7071, 0.7071, 1.5, -0.5, -0.7071, -0.7071, -0.5, -0.5], abs=1e-4)
    assert reward_of("mean", branches_of(rows)[0]) == 0.5
    assert reward_of("max", branches_of(rows)[0]) == 1.0


def test_the_worse_branch_of_a_pair_is_never_rewarded() -> None:
    found = values_of(base_and_branches("mean")(pair_by_hand((1.0, 0.9), (0, 0))))
    assert found[2] > 0
    assert found[3] == 0.0


def test_a_branch_that_takes_all_turns_again_shares_no_base() -> None:
    """Four wrong episodes of three turns; a branch from turn 0 of the first is right. Branches: 0, 1, 0, 0, 0."""
    rows = Rows(
        group=(0,) * 15,
        trajectory=tuple(row // 3 for row in range(15)),
        turn=(0, 1, 2) * 5,
        parent=(-1, 0, 1, -1, 3, 4, -1, 6, 7, -1, 9, 10, -1, 12, 13),
        reward=(0,) * 14 + (1,),
        num_tokens=(1,) * 15,
        success=(True,) * 15,
        fork=(-1,) * 12 + (0, -1, -1),
        fork_token=(0,) * 15,
    )
    lost, won = -0.2 / math.sqrt(0.2), 0.8 / math.sqrt(0.2)  # z of branches, whose sample variance is .8 / 4
    for base in ("mean", "max"):
        found = values_of(base_and_branches(base)(rows))  # type: ignore[arg-type]
        assert found[:3] == pytest.approx([lost] * 3, abs=1e-5), "the episode that lost"
        assert found[12:] == pytest.approx([won] * 3, abs=1e-5), "the branch that won"
        # the others have a base each, their first turn, and all bases earned the same
        assert found[3:12] == pytest.approx([0, lost, lost] * 3, abs=1e-5)


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


@for_each("name, seed", product(ESTIMATORS, range(4)))
def test_order_of_samples_and_the_rest_of_the_batch_do_not_change_an_advantage(name: str, seed: int) -> None:
    credit, make = ESTIMATORS[name], chains if name in FLAT else random_tree
    one, other = make(seed), make(seed + 100)
    alone = by_place(one, credit(table(one)))
    mixed = shuffled(one, seed)
    assert by_place(mixed, credit(table(mixed))) == pytest.approx(alone)
    assert by_place(one, credit(table(one, other))) == pytest.approx(alone)
    assert by_place(one, credit(table(other, one)), len(table(other).turn)) == pytest.approx(alone)


def tree_in_mid_turn(seed: int) -> Group:
    """A group of trees that are forked inside turns, and forks of these."""
    sampler = in_rounds(2, 3, 24, least_likely_tokens(2, 2))
    return grow(sampler, Process(seed, length=3, tokens=4, varied=True).play, Random(seed))


@for_each("seed", range(12))
def test_the_edges_above_a_leaf_are_the_tokens_of_its_episode(seed: int) -> None:
    group = tree_in_mid_turn(seed)
    rows = table(group)
    forest = forest_of(rows)
    assert sum(edge.num_tokens for edge in forest.edges) == sum(rows.num_tokens)
    for trajectory, one in enumerate(group.trajectories):
        path = [edge for edge, below in zip(forest.edges, forest.below, strict=True) if trajectory in below]
        assert sum(edge.num_tokens for edge in path) == one.num_tokens
        assert all(edge.parent < number for number, edge in enumerate(forest.edges))


@for_each(
    "name, seed",
    product(["aepo", "arpo", "at2po", "carl_outcome_all", "treerl", "treerl_paper", "treerl_released"], range(3)),
)
def test_forks_in_mid_turn_change_with_order_and_batch_as_little(name: str, seed: int) -> None:
    credit, one, other = ESTIMATORS[name], tree_in_mid_turn(seed), tree_in_mid_turn(seed + 50)
    alone, mixed = by_place(one, credit(table(one))), shuffled(one, seed)
    assert by_place(mixed, credit(table(mixed))) == pytest.approx(alone)
    assert by_place(one, credit(table(other, one)), len(table(other).turn)) == pytest.approx(alone)


@for_each("name", ESTIMATORS)
def test_a_group_of_one_and_groups_that_earned_the_same_have_advantages_of_zero(name: str) -> None:
    lonely, same = table(chains(1, num=1)), table(chains(2))
    if name in ("g2po", "g2po_released"):  # its gains of value are compared within one episode too
        lonely = replace(lonely, reward=(0.0,) * len(lonely.turn), success=(False,) * len(lonely.turn))
    same = replace(same, reward=(0.0,) * len(same.turn), success=(False,) * len(same.turn))
    for rows in (lonely, same):
        assert set(by_row(ESTIMATORS[name](rows))) == {0.0}


def by_row(found: Credited) -> list[float]:
    """All advantages, of rows or of tokens."""
    return [float(x) for value in found.advantage.values for x in (value if isinstance(value, list) else [value])]


@pytest.mark.parametrize(("name", "num"), [("vineppo", 4), ("carl", 1), ("carl_all", 1)])
def test_chains_without_forks_have_nothing_to_measure(name: str, num: int) -> None:
    assert set(by_row(ESTIMATORS[name](table(chains(3, num))))) == {0.0}


@pytest.mark.parametrize("name", GRPO_ON_CHAINS)
def test_chains_without_forks_have_the_advantages_of_grpo(name: str) -> None:
    rows = table(chains(3))
    assert values_of(ESTIMATORS[name](rows)) == pytest.approx(values_of(group_centred()(rows)))


@for_each("name", UNMOVED)
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


@for_each("name", TREES)
def test_the_mean_multiplicity_of_a_sampled_token_is_reported(name: str) -> None:
    rows = tree_by_hand()
    found = ESTIMATORS[name](rows)
    copies = copies_of(found) if found.multiplicity else list(found.keep.values)  # type: ignore[union-attr]
    assert found.metrics["tree/copies"] == pytest.approx(sum(copies) / 8)
