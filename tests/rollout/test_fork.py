"""Forks in mid-turn on the real engine and learner: what they are given, what is computed, what is their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.algo.samplers import leave
from rlx.evaluation.replay import replay
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.rollout.measure import measure
from rlx.runs.store import load, save
from rlx.types import Group, Start, Trajectory
from tests.errors import raises_naming

FORCED = (40, 41, 42)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, small_run: Any) -> Any:
    return small_run(tmp_path_factory.mktemp("forks"), "env.max_rounds=3", "sampling.max_new_tokens=24")


@pytest.fixture(scope="module")
def agent(run: Any) -> Any:
    from rlx.run.trainee import build_trainee

    return build_trainee(run, run.model)


def tree(context: SamplerContext) -> Growth:
    """A root, a fork of it in mid-turn, and a fork of that, before its last token."""
    task = context.task
    (root,) = yield [Start(task=task, sample=0)]
    turn = len(root.turns) - 1
    (fork,) = yield [leave(root, sample=1, turn=turn, token=5, forced=FORCED)]
    (leaf,) = yield [leave(fork, sample=2, turn=turn, token=len(ids(fork, turn)) - 1, forced=FORCED[:1])]
    return Group(task=task, trajectories=(root, fork, leaf))


def play(run: Any, agent: Any, grow: Any, num: int = 4) -> list[Group]:
    rollout = agent.policy.rollout(run.env, run.sampling, ("test",))
    sampler = Sampler(num_episodes=1, num_forks=4, grow=grow, watches=True)
    return rollout.sample(sampler, list(islice(run.env.tasks("train", 0), num)))


def ids(trajectory: Trajectory, turn: int) -> tuple[int, ...]:
    return trajectory.turns[turn].completion.token_ids


@pytest.fixture(scope="module")
def groups(run: Any, agent: Any) -> list[Group]:
    return play(run, agent, tree)


def test_a_fork_says_what_its_parent_said_what_it_is_forced_to_say_and_goes_on(groups: list[Group]) -> None:
    for group in groups:
        root, fork, leaf = group.trajectories
        turn = len(root.turns) - 1
        assert ids(fork, turn)[:8] == ids(root, turn)[:5] + FORCED
        assert ids(leaf, turn)[: len(ids(fork, turn))] == ids(fork, turn)[:-1] + FORCED[:1]
        assert fork.turns[:turn] == leaf.turns[:turn] == root.turns[:turn]
        assert fork.turns[turn].prompt_ids == root.turns[turn].prompt_ids
        assert fork.turns[turn].completion.logprobs[:8] == root.turns[turn].completion.logprobs[:5] + (0.0,) * 3
        assert all(len(t.turns[turn].completion.token_ids) <= 24 for t in group.trajectories)


def test_its_log_probs_are_the_learner_s_and_it_trains_only_what_is_its_own(agent: Any, groups: list[Group]) -> None:
    batch = collate(groups)
    assert torch.allclose(agent.learner.measure(batch)["logp"], batch.engine_logp_M, atol=1e-4)
    everything = [trajectory for group in groups for trajectory in group.trajectories]
    assert batch.num_tokens == sum(rows(groups, batch).num_tokens) == sum(t.num_sampled for t in everything)
    assert all(t.num_sampled <= t.num_tokens - 8 for t in everything if t.fork)


def test_what_is_forced_may_be_learned_from_as_if_it_had_been_sampled(run: Any, agent: Any) -> None:
    def pair(context: SamplerContext) -> Growth:
        task = context.task
        (root,) = yield [Start(task=task, sample=0, watch=FORCED[:1])]
        (fork,) = yield [leave(root, sample=1, turn=0, token=5, forced=FORCED, learned=True)]
        return Group(task=task, trajectories=(root, fork))

    groups = play(run, agent, pair)
    batch = collate(groups)
    annotated = agent.learner.annotate(batch, frozenset())
    told = rows(groups, annotated)
    assert batch.engine_logp_M.isnan().sum() == len(groups) * len(FORCED)
    assert not annotated.engine_logp_M.isnan().any()
    for group, first in zip(groups, (row for row, at in enumerate(told.fork) if at >= 0), strict=True):
        root, fork = group.trajectories
        assert told.num_tokens[first] == len(ids(fork, 0)) - 5
        assert told.fork_token[first] == 5
        assert told.logp[first][0] == pytest.approx(root.turns[0].completion.watched[5][0], abs=1e-4)
        assert told.logp[first][3:] == pytest.approx(fork.turns[0].completion.logprobs[8:], abs=1e-6)


def test_a_fork_s_prefix_is_not_computed_again(run: Any, agent: Any) -> None:
    def forks(context: SamplerContext) -> Growth:
        task = context.task
        (root,) = yield [Start(task=task, sample=0)]
        twins = yield [leave(root, sample=i, turn=0, token=i, forced=FORCED) for i in range(1, 5)]
        return Group(task=task, trajectories=(root, *twins))

    engine = agent.policy.engine
    before = engine.counts.num_prefilled
    groups = play(run, agent, forks)
    roots = sum(len(g.trajectories[0].turns[0].prompt_ids) + later_prompts(g.trajectories[0]) for g in groups)
    forks_own = [len(FORCED) + later_prompts(fork) for group in groups for fork in group.trajectories[1:]]
    assert engine.counts.num_prefilled - before <= roots + sum(forks_own)
    assert not engine._store._saved


def later_prompts(fork: Trajectory) -> int:
    """Tokens of observations after the turn it left, each with the sampled token before it, which no cache has yet."""
    before = [turn.prompt_ids + turn.completion.token_ids for turn in fork.turns]
    return sum(len(turn.prompt_ids) - len(context) + 1 for turn, context in zip(fork.turns[1:], before))


def test_a_fork_with_the_stream_of_its_parent_and_nothing_forced_goes_on_as_its_parent_did(
    run: Any, agent: Any, groups: list[Group]
) -> None:
    root = groups[0].trajectories[0]
    for turn, token in ((0, 0), (0, 7), (len(root.turns) - 1, 3)):
        rollout = agent.policy.rollout(run.env, run.sampling, ("test",))
        (again,) = rollout.play([leave(root, sample=0, turn=turn, token=token)])
        assert [ids(again, i) for i in range(len(again.turns))] == [ids(root, i) for i in range(len(root.turns))]
        assert (again.status, again.reward) == (root.status, root.reward)


def test_a_stored_fork_replays_and_can_be_left_again(run: Any, agent: Any, groups: list[Group], tmp_path: Path) -> None:

    (tmp_path / "trajectories").mkdir()
    save(tmp_path / "trajectories" / "forks.jsonl", groups, max_rounds=3)
    report = replay(tmp_path, run.env, speech=agent.policy.speech)
    assert report.ok, report
    found = load(tmp_path / "trajectories" / "forks.jsonl")
    assert found == groups
    leaf = found[0].trajectories[2]
    rollout = agent.policy.rollout(run.env, run.sampling, ("test",))
    (again,) = rollout.play([leave(leaf, sample=3, turn=len(leaf.turns) - 1, token=4, forced=FORCED)])
    assert ids(again, len(leaf.turns) - 1)[:7] == ids(leaf, len(leaf.turns) - 1)[:4] + FORCED


def test_forks_move_no_mean_and_say_how_many_they_are(groups: list[Group]) -> None:
    roots = [replace(group, trajectories=group.trajectories[:1]) for group in groups]
    measured, alone = measure(groups), measure(roots)
    same = {name for name in alone if not name.startswith("group/")}
    assert {name: measured[name] for name in same} == {name: alone[name] for name in same}
    assert not any(name.startswith("fork/") for name in alone)
    assert measured["fork/episodes"] == 2
    forks = [t for group in groups for t in group.trajectories if t.fork]
    assert measured["fork/reward"] == pytest.approx(sum(t.reward for t in forks) / len(forks))
    assert measured["fork/tokens"] == pytest.approx(sum(t.num_sampled for t in forks) / len(forks))


def test_a_group_is_informative_where_a_fork_alone_earned_something_else(groups: list[Group]) -> None:
    root, fork = groups[0].trajectories[:2]
    better = replace(fork, turns=(*fork.turns[:-1], replace(fork.turns[-1], reward=root.reward + 1)))
    assert measure([replace(groups[0], trajectories=(root, root))])["group/informative"] == 0
    assert measure([replace(groups[0], trajectories=(root, better))])["group/informative"] == 1


def test_what_cannot_be_left_is_refused(groups: list[Group]) -> None:
    root = groups[0].trajectories[0]
    with raises_naming(ValueError, "sample 0", repr(root.task.id), "turn=9"):
        leave(root, sample=1, turn=9)
    with raises_naming(ValueError, "sample 0", repr(root.task.id), "token=999"):
        leave(root, sample=1, turn=0, token=999)
