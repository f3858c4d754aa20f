"""A policy that is a table, and the luck of an environment: replays and forks repeat it, on one process and on two."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.algo.samplers import independent, leave
from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.evaluation.replay import replay
from rlx.protocol.direct import Direct
from rlx.rollout.distributed import distribute
from rlx.rollout.engine import RequestError
from rlx.rollout.play import Rollout
from rlx.rollout.table import TableEngine, Words
from rlx.runs.store import load, save
from rlx.types import Group, Request, Sampling, Start, Turn
from tests.errors import raises_naming

ENV = Bifurcation(slip=0.5)
TABLE = {"left\n": 0.3, "right\n": 0.3, "up_up_up\n": 0.3, "?\n": 0.1}


def rollout() -> Rollout:
    words = Words()
    engine: Any = TableEngine(table=lambda context: TABLE, words=words)
    sampling = Sampling(max_new_tokens=8, max_context=10_000)
    return Rollout(env=ENV, speech=words.speech(Direct()), engine=engine, sampling=sampling, stream=("test",))


def some(num: int) -> list[Any]:
    return list(islice(ENV.tasks("train", 0), num))


def forked(context: SamplerContext) -> Growth:
    """Three fresh episodes, four forks of the first, and a fork of the first fork."""
    task = context.task
    fresh = yield [Start(task=task, sample=number) for number in range(3)]
    turn = len(fresh[0].turns) // 2
    forks = yield [leave(fresh[0], sample=3 + number, turn=turn) for number in range(4)]
    last = yield [leave(forks[0], sample=7, turn=len(forks[0].turns) - 1)]
    return Group(task=task, trajectories=(*fresh, *forks, *last))


SAMPLER = Sampler(num_episodes=3, num_forks=5, forks_always=True, grow=forked)


def lucks(turns: tuple[Turn, ...]) -> list[int]:
    return [turn.luck for turn in turns]


def test_samples_have_luck_of_their_own_and_a_fork_from_its_turn_on() -> None:
    for group in rollout().sample(SAMPLER, some(4)):
        seen = [number for one in group.trajectories for number in lucks(one.new_turns)]
        assert len(seen) == len(set(seen))
        assert all(seen)
        by_sample = {one.sample: one for one in group.trajectories}
        for one in group.trajectories[3:]:
            assert one.fork is not None
            parent = by_sample[one.fork.parent]
            assert lucks(one.turns)[: one.fork.turn] == lucks(parent.turns)[: one.fork.turn]
            assert one.status != "error"


def test_the_same_action_in_the_same_state_meets_other_chances() -> None:
    ends = Counter(
        (one.turns[1].action.name, one.turns[1].reward)
        for group in rollout().sample(independent(200), some(1))
        for one in group.trajectories
        if [turn.action.kind for turn in one.turns[:2]] == ["act", "act"]
    )
    assert len({reward for name, reward in ends if name == "left"}) == 2


def test_stored_trees_replay_with_their_luck_and_not_without(tmp_path: Path) -> None:
    groups = rollout().sample(SAMPLER, some(8))
    save(tmp_path / "trajectories" / "step-000001.jsonl", groups, max_rounds=None)
    report = replay(tmp_path, ENV)
    assert report.ok, str(report)
    assert load(tmp_path / "trajectories" / "step-000001.jsonl") == groups
    unlucky = [
        replace(
            group,
            trajectories=tuple(
                replace(one, turns=tuple(replace(turn, luck=0) for turn in one.turns)) for one in group.trajectories
            ),
        )
        for group in groups
    ]
    save(tmp_path / "trajectories" / "step-000001.jsonl", unlucky, max_rounds=None)
    assert not replay(tmp_path, ENV).ok


def test_two_processes_play_the_tree_of_one(kit: Any) -> None:
    alone = rollout().sample(SAMPLER, some(5))
    assert rollout().sample(SAMPLER, some(5)) == alone

    def live(ranks: Any) -> Any:
        return distribute(rollout(), ranks, (0, 1)).sample(SAMPLER, some(5))

    assert all(told(groups) == told(alone) for groups in kit.on_ranks(2, live))


def told(groups: list[Group]) -> list[Any]:
    """Everything but token ids, which each process numbers as words come."""
    return [
        (one.sample, one.status, [(turn.action, turn.observation, turn.reward, turn.luck) for turn in one.turns])
        for group in groups
        for one in group.trajectories
    ]


def request(words: Words, **keys: Any) -> Request:
    sampling = keys.pop("sampling", Sampling(max_new_tokens=8))
    return Request(session=0, prompt_ids=tuple(words.encode("x\n")), sampling=sampling, **keys)


def test_log_probs_are_of_tokens_and_multiply_to_the_completions() -> None:
    words = Words()
    table = {"up_up\n": 0.2, "up\n": 0.3, "left\n": 0.5}
    engine = TableEngine(table=lambda context: table, words=words)
    seen: Counter[str] = Counter()
    for stream in range(2000):
        engine.add(request(words, stream=stream))
        ((_, done),) = engine.step()
        text = words.decode(done.token_ids)
        seen[text] += 1
        assert math.exp(sum(done.logprobs)) == pytest.approx(table[text])
    assert all(seen[text] / 2000 == pytest.approx(p, abs=0.05) for text, p in table.items())
    assert engine.counts.num_sampled == sum(len(words.encode(text)) * num for text, num in seen.items())


def test_the_entropy_of_the_likeliest_tokens_is_exact() -> None:
    words = Words()
    engine = TableEngine(table=lambda context: {"a\n": 0.5, "b\n": 0.3, "c\n": 0.2}, words=words)
    engine.add(request(words, stream=1, entropy_of=2))
    ((_, done),) = engine.step()
    assert done.watched == ((pytest.approx(-0.5 * math.log(0.5) - 0.3 * math.log(0.3)),), (0.0,))


def test_a_completion_goes_on_from_what_it_is_given_and_watches_tokens() -> None:
    words = Words()
    engine = TableEngine(table=lambda context: {"up_up\n": 0.24, "up\n": 0.36, "left\n": 0.4}, words=words)
    up, left = words.id_of("up"), words.id_of("left")
    engine.add(request(words, stream=1, completion_prefix=(up,), watch=(left, words.id_of("_up"))))
    ((_, done),) = engine.step()
    assert done.token_ids[0] == up
    assert done.logprobs[0] == 0.0
    assert done.watched[0] == ()
    assert done.watched[1] == (pytest.approx(-1e4), pytest.approx(math.log(0.4)))
    assert engine.counts.num_sampled == len(done.token_ids) - 1
    engine.add(request(words, stream=1, sampling=Sampling(temperature=0.0)))
    assert words.decode(engine.step()[0][1].token_ids) == "up\n"
    engine.add(request(words, stream=1, completion_prefix=(words.id_of("z"),)))
    with raises_naming(RequestError, "no completion"):
        engine.step()
    with raises_naming(RequestError, "top_k"):
        engine.add(request(words, stream=1, sampling=Sampling(top_k=3)))
