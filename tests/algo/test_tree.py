"""Trees of episodes: by hand, against identities, and on a process whose values are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.algo.carl import carl, tree_outcome
from rlx.algo.credit import group_centred
from rlx.algo.parts import Ask, Optimizer, PerRow, SamplerContext
from rlx.algo.rows import Rows
from rlx.algo.states import by_path, by_text
from rlx.algo.tree import Growing, State, choose_state, progressive, surprise, tree_difference
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.types import Action, Completion, Fork, Group, Start, Task, Trajectory, Turn
from tests.algo import trees

TASK = Task(id="t", prompt=(), data={})
EDGES = "acdbefgh"
"""s0 -a-> s1, s0 -b-> s2; s1 -c-> 1, s1 -d-> 0; s2 -e-> s3; s3 -f-> 1, -g-> 1, -h-> 0."""


def by_hand() -> Rows:
    parent = (-1, 0, 0, -1, 3, 4, 4, 4)
    return Rows(
        group=(0,) * 8,
        trajectory=(0, 0, 1, 2, 2, 2, 3, 4),
        turn=(0, 1, 1, 0, 1, 2, 2, 2),
        parent=parent,
        reward=(0, 1, 0, 0, 0, 1, 1, 0),
        num_tokens=(1,) * 8,
        success=(True,) * 8,
    )


def worth(found: Any) -> dict[str, float]:
    return dict(zip(EDGES, found.advantage.values, strict=True))


CRITICAL = {"a": -1 / 12, "b": 1 / 12, "c": 1 / 2, "d": -1 / 2, "f": 1 / 3, "g": 1 / 3, "h": -2 / 3}


def test_a_tree_drawn_by_hand_gives_each_edge_its_gain() -> None:
    found = tree_difference("critical")(by_hand())
    assert {edge: value for edge, value in worth(found).items() if edge != "e"} == pytest.approx(CRITICAL)
    assert [edge for edge, kept in zip(EDGES, found.keep.values) if not kept] == ["e"]  # type: ignore[union-attr]
    assert found.metrics == {"tree/edges": 8, "tree/critical": 7}


def test_with_all_edges_one_without_siblings_has_the_advantage_before_it() -> None:
    found = tree_difference("all")(by_hand())
    assert worth(found) == pytest.approx(CRITICAL | {"e": 1 / 12})
    assert all(found.keep.values)  # type: ignore[union-attr]


def test_equal_turns_of_equal_contexts_are_worth_the_same_where_states_are_merged() -> None:
    """Two episodes say the same first turn, and part in the second."""
    table = Rows(
        group=(0,) * 4,
        trajectory=(0, 0, 1, 1),
        turn=(0, 1, 0, 1),
        parent=(-1, 0, -1, 2),
        reward=(0, 1, 0, 0),
        num_tokens=(1,) * 4,
        success=(True,) * 4,
        state=(0, 1, 0, 1),
    )
    apart, merged = tree_difference("critical")(table), tree_difference("critical", merge=True)(table)
    assert list(apart.advantage.values) == [0.5, 0.0, -0.5, 0.0]
    assert apart.keep.values == [True, False, True, False]  # type: ignore[union-attr]
    assert list(merged.advantage.values) == [0.0, 0.5, 0.0, -0.5]
    assert merged.keep.values == [False, True, False, True]  # type: ignore[union-attr]
    assert merged.metrics == {"tree/edges": 4, "tree/critical": 4}
    assert (apart.selected, merged.selected) == (PerRow([True, False, True, False]), PerRow([True] * 4))


def test_turns_that_say_the_same_have_one_outcome_where_states_are_merged() -> None:
    """Two episodes say the same first turn and part in the second; a third says another first turn. z is of 1, 0, 0."""
    table = Rows(
        group=(0,) * 5,
        trajectory=(0, 0, 1, 1, 2),
        turn=(0, 1, 0, 1, 0),
        parent=(-1, 0, -1, 2, -1),
        reward=(0, 1, 0, 0, 0),
        num_tokens=(1,) * 5,
        success=(True,) * 5,
        fork=(-1,) * 5,
        fork_token=(0,) * 5,
        state=(0, 1, 0, 1, 0),
    )
    won, lost = 2 / 3 / math.sqrt(1 / 3), -1 / 3 / math.sqrt(1 / 3)
    apart, merged = tree_outcome("critical")(table), tree_outcome("critical", merge=True)(table)
    assert list(apart.advantage.values) == pytest.approx([won, won, lost, lost, lost], abs=1e-5)
    assert list(apart.keep.values) == [1, 0, 1, 0, 1]  # type: ignore[union-attr]
    both = (won + lost) / 2
    assert list(merged.advantage.values) == pytest.approx([both, won, both, lost, lost], abs=1e-5)
    assert list(merged.keep.values) == [1] * 5  # type: ignore[union-attr]
    assert list(merged.multiplicity.values) == [1] * 5  # type: ignore[union-attr]


def test_a_merged_outcome_of_zero_is_selected_and_not_trained() -> None:
    merged = tree_outcome("critical", merge=True)(replace(flat([[1, 0, 0.5]]), state=(0, 0, 0)))
    assert (list(merged.selected.values), list(merged.keep.values)) == ([1, 1, 1], [1, 1, 0])  # type: ignore[union-attr]


def flat(rewards: Sequence[Sequence[float]]) -> Rows:
    group = tuple(g for g, of in enumerate(rewards) for _ in of)
    num = len(group)
    return Rows(
        group=group,
        trajectory=tuple(range(num)),
        turn=(0,) * num,
        parent=(-1,) * num,
        reward=tuple(one for of in rewards for one in of),
        num_tokens=(1,) * num,
        success=(True,) * num,
    )


@given(st.lists(st.lists(st.floats(-2, 2), min_size=2, max_size=5), min_size=1, max_size=4))
def test_a_flat_tree_of_one_turn_is_grpo_without_a_divisor(rewards: list[list[float]]) -> None:
    given_rows = flat(rewards)
    centred = group_centred(scale="none", std="sample", eps=0.0, gamma=None)(given_rows)
    assert list(tree_difference("critical")(given_rows).advantage.values) == pytest.approx(
        list(centred.advantage.values), abs=1e-9
    )


def test_groups_that_all_earned_the_same_are_left_out_and_the_others_kept() -> None:
    found = tree_difference("critical")(flat([[1, 1, 1], [0, 1]]))
    assert list(found.keep.values) == [0, 0, 0, 1, 1]  # type: ignore[union-attr]
    assert found.metrics["tree/critical"] == 2.5
    assert found.selected == PerRow([True] * 5)


class Chance:
    """A process of up to four turns; each turn is 0 or 1 by chance, and the reward depends on all of them."""

    def __init__(self, seed: int, length: int = 3) -> None:
        self.rng, self.length, self.num_turns = Random(seed), length, 0

    def chance(self, past: tuple[int, ...]) -> float:
        """Return the probability of a 1."""
        return (0.5, 0.2, 0.9, 0.35)[(sum(past) + len(past)) % 4]

    def reward(self, past: tuple[int, ...]) -> float:
        return float(past[-1] == past[0]) + 0.5 * past[1]

    def value(self, past: tuple[int, ...] = ()) -> float:
        if len(past) == self.length:
            return self.reward(past)
        p = self.chance(past)
        return p * self.value((*past, 1)) + (1 - p) * self.value((*past, 0))

    def play(self, start: Start) -> Trajectory:
        turns = list(start.prefix[: start.fork.turn]) if start.fork else []
        past = tuple(turn.completion.token_ids[0] for turn in turns)
        while len(past) < self.length:
            p, context = self.chance(past), (9, *past)
            one = int(self.rng.random() < p)
            past = (*past, one)
            done = Completion(token_ids=(one,), logprobs=(math.log(p if one else 1 - p),), stop="stop")
            reward = self.reward(past) if len(past) == self.length else 0.0
            action = Action(kind="answer", text=str(one))
            turns.append(Turn(prompt_ids=context, completion=done, action=action, reward=reward))
            self.num_turns += 1
        return Trajectory(task=TASK, sample=start.sample, turns=tuple(turns), status="done", fork=start.fork)


def grown(process: Chance, rng: Random, *, fresh: int, forks: int, order: Any = "largest", live: int = 1) -> Group:
    growth = progressive(fresh, forks, order, live).grow(SamplerContext(task=TASK, rng=rng))  # type: ignore[misc]
    queue: list[Trajectory] = []
    try:
        asked = next(growth)
        while True:
            starts = asked.starts if isinstance(asked, Ask) else asked
            queue += [process.play(start) for start in starts]
            wait = asked.wait if isinstance(asked, Ask) else len(queue)
            ended, queue = queue[:wait], queue[wait:]
            asked = growth.send(ended)
    except StopIteration as end:
        return end.value


def table(group: Group) -> Rows:
    return rows([group], collate([group]))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 9), st.sampled_from(["largest", "smallest", "random"]))
def test_edges_are_counted_once_and_critical_ones_are_bounded(seed: int, fresh: int, forks: int, order: Any) -> None:
    process = Chance(seed)
    group = grown(process, Random(seed), fresh=fresh, forks=forks, order=order, live=1 + seed % 3)
    found = tree_difference("critical")(table(group))
    assert len(group.trajectories) == fresh + forks
    assert found.metrics["tree/edges"] == process.num_turns
    least = 0 if fresh + forks == 1 else fresh + forks if fresh > 1 else forks + 1
    assert least <= found.metrics["tree/critical"] <= fresh + 2 * forks


def test_siblings_advantages_sum_to_zero_and_a_root_is_one_state() -> None:
    given_rows = table(grown(Chance(5), Random(5), fresh=4, forks=12))
    found = tree_difference("critical")(given_rows)
    totals: dict[int, float] = {}
    for parent, value in zip(given_rows.parent, found.advantage.values, strict=True):
        totals[parent] = totals.get(parent, 0.0) + float(value)
    assert totals == pytest.approx(dict.fromkeys(totals, 0.0), abs=1e-12)
    assert sum(parent == -1 for parent in given_rows.parent) >= 4


@pytest.mark.parametrize("order", ["largest", "smallest", "random"])
def test_the_value_of_the_root_is_unbiased_whatever_the_shape_of_the_tree(order: Any) -> None:
    found = []
    for seed in range(1500):
        given_rows = table(grown(Chance(seed), Random(seed), fresh=2, forks=5, order=order))
        credited = tree_difference("critical")(given_rows)
        first = given_rows.parent.index(-1)
        found.append(edge_worth(given_rows, first) - float(credited.advantage.values[first]))
    mean = sum(found) / len(found)
    error = math.sqrt(sum((one - mean) ** 2 for one in found)) / len(found)
    assert abs(mean - Chance(0).value()) < 4 * error


def edge_worth(given_rows: Rows, row: int) -> float:
    """Q of an edge, by recursion."""
    after = [one for one, parent in enumerate(given_rows.parent) if parent == row]
    worths = [edge_worth(given_rows, one) for one in after]
    return given_rows.reward[row] + (sum(worths) / len(worths) if worths else 0.0)


def test_the_least_sure_state_is_forked_until_its_count_says_otherwise() -> None:
    parent = Chance(0).play(Start(task=TASK, sample=0))
    sure, unsure = (State(parent=parent, turn=0, uncertainty=h) for h in (0.1, 0.9))
    pick: Callable[[Any], State] = lambda order: choose_state([sure, unsure], order, Random(0))  # noqa: E731
    assert pick("largest") is unsure
    assert pick("smallest") is sure
    unsure.count = 10
    assert pick("largest") is sure
    unsure.add(0.1)
    assert unsure.uncertainty == pytest.approx(0.5)


def eight_alike(merge: bool) -> Growing:
    """A tree of eight episodes that say the same first turn, whose surprise is that of its number, and then differ."""
    tree = Growing(by_text if merge else by_path)
    episodes = []
    for sample in range(8):
        words = [
            Completion(token_ids=(5,), logprobs=(-float(sample),), stop="stop"),
            Completion(token_ids=(sample,), logprobs=(-2.0 - sample,), stop="stop"),
        ]
        turns = tuple(
            Turn(prompt_ids=prompt, completion=done, action=Action(kind="act", text="", name="go"))
            for prompt, done in zip(((9,), (9, 5)), words, strict=True)
        )
        episodes.append(Trajectory(task=TASK, sample=sample, turns=turns, status="done"))
    tree.plant(episodes)
    return tree


def test_equal_turns_lead_to_one_state_of_one_count_where_states_are_merged() -> None:
    root, *later = eight_alike(merge=False).states.values()
    assert (root.count, root.uncertainty) == (8, 3.5)
    assert [(state.count, state.uncertainty) for state in later] == [(1, 2.0 + sample) for sample in range(8)]
    tree = eight_alike(merge=True)
    root, after = tree.states.values()
    assert (root.count, root.uncertainty) == (8, 3.5)
    assert (after.count, after.num_edges, after.uncertainty) == (8, 8, 5.5)
    fork = replace(tree.played[3], sample=8, fork=Fork(parent=3, turn=0))
    root.count += 1
    tree.receive(fork, root)
    assert (root.count, after.count) == (9, 9), "what a fork says is counted in states that others reached before"


@pytest.mark.parametrize("reward", ["action", "outcome"])
def test_merged_states_are_those_of_credit(reward: Any) -> None:
    """The sampler counts as many edges in each state as credit finds in the rows."""
    algo = carl(optimizer=Optimizer(), num_fresh=4, num_forks=9, num_live=1, merge=True, reward=reward)
    for seed in range(5):
        group = trees.grow(algo.sample, Chance(seed, length=4).play, Random(seed))
        tree = Growing(by_text)
        tree.plant(group.trajectories[:4])
        for fork in group.trajectories[4:]:
            assert fork.fork is not None
            left = tree.states[by_text(tree.played, fork, fork.fork.turn)]
            left.count += 1
            tree.receive(fork, left)
        seen = table(group)
        counts = Counter(zip(seen.turn, seen.state, strict=True))
        assert sorted(state.count for state in tree.states.values()) == sorted(counts.values())
        assert algo.credit(seen).selected is not None


def test_surprise_is_the_mean_of_minus_log_p_over_tokens() -> None:
    done = Completion(token_ids=(1, 2), logprobs=(-1.0, -2.0), stop="stop")
    assert surprise(done) == 1.5
    assert surprise(Completion(token_ids=(), logprobs=(), stop="context")) == 0.0


def test_an_episode_that_ended_in_an_error_is_not_forked() -> None:
    growth = progressive(2, 2, "largest", 1).grow(SamplerContext(task=TASK))  # type: ignore[misc]
    starts = next(growth)
    failed = Trajectory(task=TASK, sample=0, turns=(), status="error", error="x")
    whole = Chance(0).play(starts[1])  # type: ignore[index]
    asked = growth.send([failed, whole])
    assert [start.fork.parent for start in asked.starts] == [1]  # type: ignore[union-attr]
    again = growth.send([Trajectory(task=TASK, sample=2, turns=(), status="error", error="x")])
    assert [start.fork.parent for start in again.starts] == [1]  # type: ignore[union-attr]
    nobody = progressive(1, 2, "largest", 1).grow(SamplerContext(task=TASK))  # type: ignore[misc]
    next(nobody)
    with pytest.raises(StopIteration) as end:
        nobody.send([failed])
    assert end.value.value.trajectories == (failed,)
