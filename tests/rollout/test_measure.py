"""What is told of actions: by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlx.rollout.measure import gpu_peak, measure, with_credit_figures
from rlx.types import Action, Completion, Fork, Group, Task, Trajectory, Turn
from tests.errors import raises_naming

TASK = Task(id="t", prompt=(), data={})


def act(said: str) -> Action:
    """`name text`, of the kind that its first letter says."""
    name, _, text = said.partition(" ")
    kinds = {"c": "call", "d": "act", "a": "answer", "i": "invalid"}
    return Action(kind=kinds[name[0]], name=name, text=text)  # type: ignore[arg-type]


def episode(sample: int, *said: str, fork: Fork | None = None) -> Trajectory:
    done = Completion(token_ids=(1,), logprobs=(0.0,), stop="stop")
    turns = tuple(Turn(prompt_ids=(0,), completion=done, action=act(one)) for one in said)
    return Trajectory(task=TASK, sample=sample, turns=turns, status="done", fork=fork)


def told(*groups: list[Trajectory]) -> dict[str, float]:
    return measure([Group(task=TASK, trajectories=tuple(of)) for of in groups])


def test_shares_of_invalid_and_of_cut_turns_are_over_turns_and_there_for_each_part() -> None:
    cut = replace(episode(0, "invalid").turns[0], completion=Completion(token_ids=(1,), logprobs=(0.0,), stop="length"))
    long = replace(episode(0, "call 1", "invalid", "answer 1"), turns=(*episode(0, "call 1", "answer 1").turns, cut))
    part = replace(TASK, env="part")
    groups = [Group(task=TASK, trajectories=(long,)), Group(task=part, trajectories=(episode(1, "invalid"),))]
    summary = replace(episode(0, "answer 1").turns[0], action=Action(kind="summary", text=""))
    found = measure(groups)
    assert (found["turn/invalid"], found["turn/truncated"]) == (2 / 4, 1 / 4)
    assert (found["part/turn/invalid"], found["part/turn/truncated"]) == (1.0, 0.0)
    assert told([replace(long, turns=(*long.turns, summary))])["turn/invalid"] == 1 / 3, "a summary is no turn"


def test_an_action_repeats_an_earlier_one_of_its_own_episode_by_kind_name_and_text() -> None:
    once = [episode(0, "call 1", "call 2", "c 1", "do 1", "answer 1"), episode(1, "call 1", "do 1")]
    assert told(once)["action/repeated"] == 0.0
    again = [episode(0, "call 1", "call 1", "call 2", "call 1"), episode(1, "do 3", "do 3"), episode(2, "answer 3")]
    assert told(again)["action/repeated"] == pytest.approx(3 / 7), "two in the first, one in the second"


def test_the_deviation_of_rewards_is_over_all_episodes() -> None:
    def earning(sample: int, reward: float) -> Trajectory:
        one = episode(sample, "answer 1")
        return replace(one, turns=(replace(one.turns[0], reward=reward),))

    found = told([earning(0, 1.0), earning(1, 0.0)], [earning(0, -1.0)])
    assert found["reward/mean"] == 0.0
    assert found["reward/std"] == pytest.approx((2 / 3) ** 0.5)
    assert told([episode(0, "answer 1")])["reward/std"] == 0.0


def test_what_a_group_does_is_distinct_where_no_other_of_its_episodes_does_it() -> None:
    same = [episode(sample, "call 1", "answer 2") for sample in range(4)]
    other = [episode(0, "call 1", "answer 2"), episode(1, "call 3", "answer 2")]
    assert told(same)["group/distinct"] == 2 / 8
    assert told(other)["group/distinct"] == 3 / 4
    assert told(same, other)["group/distinct"] == (2 / 8 + 3 / 4) / 2, "groups of whatever size weigh the same"


def test_what_could_not_be_read_is_no_action() -> None:
    silent = [episode(0, "i why", "i why"), episode(1)]
    assert (told(silent)["action/repeated"], told(silent)["group/distinct"]) == (0.0, 0.0)
    assert told(silent, [episode(0, "i why", "call 1")])["group/distinct"] == 1.0


def test_what_a_fork_does_is_not_counted() -> None:
    root = episode(0, "call 1", "answer 2")
    fork = episode(1, "call 1", "call 1", fork=Fork(parent=0, turn=1))
    assert told([root, fork])["group/distinct"] == 1.0
    assert told([root, fork])["action/repeated"] == 0.0


def test_peaks_of_a_gpu_are_told_by_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    resets: list[int] = []
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: resets.append(1))
    assert gpu_peak("rollout", "cpu") == {}
    assert gpu_peak("update", "cuda") == {"memory/gpu_update": 3.0}
    assert resets == [1]


def test_credit_adds_figures_of_its_own_and_hides_none() -> None:
    assert with_credit_figures({"reward/mean": 1.0}, {"tree/size": 3}) == {"reward/mean": 1.0, "tree/size": 3}
    for wrong in ({"reward/mean": 2.0}, {"tree/size": float("nan")}, {"tree/size": "3"}):
        with raises_naming(ValueError, "credit:", "metric"):
            with_credit_figures({"reward/mean": 1.0}, wrong)  # type: ignore[arg-type]


def test_the_policy_s_entropy_is_that_of_what_fresh_episodes_sampled() -> None:
    def with_logprobs(sample: int, *logprobs: float, fork: Fork | None = None) -> Trajectory:
        done = Completion(token_ids=tuple(range(len(logprobs))), logprobs=logprobs, stop="stop")
        whole = episode(sample, "answer 1")
        return replace(whole, turns=(replace(whole.turns[0], completion=done),), fork=fork)

    fork = with_logprobs(2, -9.0, fork=Fork(parent=0, turn=0))
    assert told([with_logprobs(0, -1.0, -2.0), with_logprobs(1, -3.0), fork])["policy/entropy"] == 2.0
    assert "policy/entropy" not in told([with_logprobs(0, 0.0, 0.0)])
