from __future__ import annotations

from dataclasses import replace
from itertools import chain
from math import inf
from random import Random
from statistics import pstdev
from typing import Any

import pytest

from rlx.evaluation.figures import (
    Score,
    attainable,
    figures,
    gains,
    gains_of_each,
    mean_gains,
    mean_ratios,
    score,
    values,
)
from rlx.evaluation.intervals import Ratio
from rlx.evaluation.passk import estimates
from rlx.rollout.measure import measure
from rlx.runs.summary import Estimate
from rlx.types import Action, Completion, Group, Status, Task, ToolUse, Trajectory, Turn
from tests.errors import raises_naming


def turn(num_tokens: int, reward: float, tool: ToolUse) -> Turn:
    done = Completion(token_ids=(1,) * num_tokens, logprobs=(0.0,) * num_tokens, stop="stop")
    return Turn(prompt_ids=(1,), completion=done, action=Action(kind="answer", text=""), reward=reward, tool=tool)


def episode(task: Task, sample: int, turns: tuple[Turn, ...], status: Status, success: bool) -> Trajectory:
    return Trajectory(task=task, sample=sample, turns=turns, status=status, success=success)


B: dict[str, Any] = {"task": "b", "num_samples": 2}
TASK, OTHER = (Task(id=name, prompt=(), data={}) for name in ("a", "other"))
CALL = turn(5, -0.02, ToolUse(num_calls=1, num_tokens=2))
FAILED = turn(3, -0.12, ToolUse(num_calls=1, num_failed=1, num_tokens=4))
RIGHT = turn(2, 1.0, ToolUse())
WRONG = turn(2, -0.3, ToolUse(num_mismatches=1))
GROUP = Group(
    task=TASK,
    trajectories=(
        episode(TASK, 0, (CALL, RIGHT), "done", True),
        episode(TASK, 1, (FAILED, CALL, WRONG), "done", False),
        episode(TASK, 2, (CALL,), "truncated", False),
        episode(TASK, 3, (), "error", True),
    ),
)


SPREAD = 0.85**2 + 0.57**2 + 0.15**2 + 0.13**2
"""Of .98, -.44, -.02 and 0, whose mean is .13."""


def test_the_interval_of_a_count_is_never_below_0_and_that_of_a_reward_may_be() -> None:
    tasks = [Task(id=name, prompt=(), data={}) for name in "abc"]
    played = [episode(task, 0, (FAILED,) * num, "done", True) for task, num in zip(tasks, (1, 1, 20), strict=True)]
    rows = [score(Group(task=one.task, trajectories=(one,))) for one in played]
    found = figures(rows, ks=(1,))
    assert (found["eval/episode/turns"].low, found["eval/episode/tokens"].low) == (0.0, 0.0)
    assert found["eval/reward"].low < 0
    assert mean_ratios([rows, rows], (1,))["episode/turns"].least == 0.0


def test_a_group_becomes_the_hand_counted_row() -> None:
    assert score(GROUP) == Score(
        task="a",
        num_samples=4,
        num_correct=1,
        sums={
            "reward": pytest.approx(1.0 - 0.02 - 0.12 - 0.02 - 0.3 - 0.02),
            "tool/calls": 4,
            "tool/failed": 1,
            "tool/mismatch_rate": 1,
            "tool/tokens": 2 + 4 + 2 + 2,
            "episode/turns": 6,
            "episode/tokens": 7 + 10 + 5,
            "episode/truncated": 1,
            "episode/errors": 1,
        },
        spread=pytest.approx(SPREAD),
    )


def test_figures_of_several_runs_are_the_mean_of_theirs_and_not_those_of_one_heap() -> None:
    able = [
        Score(task="a", num_samples=2, num_correct=2, sums={"tool/calls": 4, "tool/failed": 1}),
        Score(**B, num_correct=2),
    ]
    unable = [
        Score(**B, num_correct=0),
        Score(task="a", num_samples=2, num_correct=0, sums={"tool/calls": 2, "tool/failed": 2}),
    ]
    found = {name: estimate.value for name, estimate in estimates(mean_ratios([able, unable], (1, 2))).items()}
    assert found["pass@1"] == found["pass@2"] == 1 / 2, "one heap of four samples would pass five times in six"
    assert found["tool/failed_rate"] == (1 / 4 + 2 / 2) / 2, "the mean of their rates, whoever calls more"
    with raises_naming(ValueError, "tasks"):
        mean_ratios([able, unable[:1]], (1,))


def test_figures_of_one_problem_are_its_means() -> None:
    found = values(figures([score(GROUP)], ks=(1, 2, 8), num_resamples=10))
    assert found == pytest.approx(
        {
            "eval/pass@1": 1 / 4,
            "eval/pass@2": 1 / 2,
            "eval/reward": 0.52 / 4,
            "eval/reward_std": (SPREAD / 4) ** 0.5,
            "eval/tool/calls": 1.0,
            "eval/tool/failed_rate": 1 / 4,
            "eval/tool/mismatch_rate": 1 / 4,
            "eval/tool/tokens": 10 / 4,
            "eval/episode/turns": 6 / 4,
            "eval/episode/tokens": 22 / 4,
            "eval/episode/truncated": 1 / 4,
            "eval/episode/errors": 1 / 4,
        }
    )


def row(task: str, num_correct: int) -> Score:
    return Score(task=task, num_samples=4, num_correct=num_correct, sums={"reward": float(num_correct)})


def rewarded(task: str, *rewards: float, env: str = "") -> Score:
    """A row of episodes of one turn."""
    played = [turn(1, reward, ToolUse()) for reward in rewards]
    of = Task(id=task, prompt=(), data={}, env=env)
    return score(Group(task=of, trajectories=tuple(episode(of, i, (t,), "done", True) for i, t in enumerate(played))))


def test_the_deviation_of_the_reward_is_that_of_all_samples_of_all_problems_and_of_a_part_that_of_its_own() -> None:
    samples = [[0.9, 0.8], [-3.0, 0.5], [0.0, 0.1], [0.7, 0.7], [-1.0, 1.0]]
    rows = [rewarded(str(i), *each, env="ab"[i % 2]) for i, each in enumerate(samples)]
    found = figures(rows, ks=(1,), num_resamples=10)
    assert found["eval/reward_std"].value == pytest.approx(pstdev(chain(*samples)))
    assert found["eval/a/reward_std"].value == pytest.approx(pstdev(chain(*samples[::2])))
    assert 0 < found["eval/reward_std"].low < found["eval/reward_std"].value < found["eval/reward_std"].high
    halves = [rewarded(str(i), *(r / 2 for r in each), env="ab"[i % 2]) for i, each in enumerate(samples)]
    assert gains(rows, halves, ks=(1,))["gain/reward_std"].value == pytest.approx(pstdev(chain(*samples)) / 2)


def test_the_interval_of_a_deviation_holds_the_truth_about_as_often_as_it_says() -> None:
    """Of 40 problems with one sample each, from a normal distribution of deviation 2."""
    rng = Random(0)
    held = 0
    for _ in range(100):
        rows = [rewarded(str(i), rng.gauss(5.0, 2.0)) for i in range(40)]
        found = figures(rows, ks=(), num_resamples=1)["eval/reward_std"]
        held += found.low <= 2.0 <= found.high
    assert 88 <= held <= 99


@pytest.mark.parametrize("huge", [1e200, -1e300])
def test_rewards_without_a_deviation_that_is_a_number_have_none_and_the_rest(huge: float) -> None:
    found = figures([rewarded("a", huge, 0.0), rewarded("b", 1.0, 0.0)], ks=(1,), num_resamples=10)
    assert "eval/reward_std" not in found
    assert found["eval/pass@1"].value == 1.0


def test_intervals_lie_around_their_values() -> None:
    rows = [row(str(i), i % 5) for i in range(30)]
    for figure in figures(rows, ks=(1, 4), num_resamples=500).values():
        assert figure.low <= figure.value <= figure.high
    assert figures(rows, ks=(4,), num_resamples=500)["eval/pass@4"].value == pytest.approx(0.8)


def test_gains_are_paired_by_task_whatever_the_order() -> None:
    before = [row(str(i), i % 4) for i in range(20)]
    after = [row(str(i), i % 4 + 1) for i in reversed(range(20))]
    gain = gains(after, before, ks=(1, 4), num_resamples=500)
    assert 0.15 < gain["gain/pass@1"].low < gain["gain/pass@1"].value == 0.25 < gain["gain/pass@1"].high < 0.35
    assert gain["gain/reward"].low == gain["gain/reward"].high == 0.25
    assert gain["gain/pass@4"].value == pytest.approx(0.25)
    assert gain["gain/tool/calls"].value == 0.0


def drawn_runs(num: int, shift: int) -> list[list[Score]]:
    """Tables of a few problems, each run's its own."""
    return [[row(f"t{i}", (i * 7 + run + shift) % 5) for i in range(6)] for run in range(num)]


def test_gains_of_each_run_are_those_of_its_own_beside_the_same_others() -> None:
    ours, theirs = drawn_runs(3, 0), [table[::-1] for table in drawn_runs(2, 1)]
    alone = [mean_gains([table], theirs, ks=[1], noun="eval") for table in ours]
    assert gains_of_each(ours, theirs, ks=[1], noun="eval") == [mean_gains(ours, theirs, ks=[1], noun="eval"), *alone]


def test_gains_of_twice_the_runs_draw_twice_as_many_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def count(ratios: list[Ratio], num_resamples: int, seed: int) -> list[Estimate]:
        drawn.append(sum(len(ratio.top) for ratio in ratios))
        return [Estimate(value=0, low=0, high=0) for _ in ratios]

    monkeypatch.setattr("rlx.evaluation.passk.intervals", count)
    totals = []
    for num in (3, 6):
        gains_of_each(drawn_runs(num, 0), drawn_runs(num, 1), ks=[1])
        totals.append(sum(drawn))
        drawn.clear()
    assert totals[1] == 2 * totals[0]


def test_gains_refuse_other_tasks() -> None:
    with raises_naming(ValueError, "same tasks"):
        gains([row("a", 1)], [row("b", 1)], ks=(1,))


def test_what_an_environment_says_is_averaged_over_the_episodes_that_said_it() -> None:
    def walked(sample: int, *steps: float) -> Trajectory:
        turns = tuple(replace(RIGHT, metrics={"steps": step, "walked": 1.0}) for step in steps)
        return episode(TASK, sample, turns or (RIGHT,), "done", True)

    first, second = (walked(0, 2.0, 5.0), walked(1)), (walked(0, 3.0),)
    groups = [Group(task=TASK, trajectories=first), Group(task=OTHER, trajectories=second)]
    found = values(figures([score(group) for group in groups], ks=(1,), num_resamples=10))
    assert (found["eval/env/steps"], found["eval/env/walked"]) == ((2 + 5 + 3) / 2, (2 + 1) / 2)
    assert {name: measure(groups)[name] for name in ("env/steps", "env/walked")} == {
        "env/steps": 5.0,
        "env/walked": 1.5,
    }


def test_what_a_protocol_says_is_averaged_over_the_turns_that_said_it() -> None:
    def spoken(sample: int, *flags: float) -> Trajectory:
        turns = tuple(replace(RIGHT, reply={"reply/only_action": flag}) for flag in flags)
        return episode(TASK, sample, (*turns, RIGHT), "done", True)

    first, second = (spoken(0, 1.0, 0.0, 1.0), spoken(1)), (spoken(0, 0.0),)
    groups = [Group(task=TASK, trajectories=first), Group(task=OTHER, trajectories=second)]
    found = figures([score(group) for group in groups], ks=(1,), num_resamples=100)["eval/reply/only_action"]
    assert found.value == measure(groups)["reply/only_action"] == 2 / 4
    assert 0.0 <= found.low <= found.high <= 1.0


def test_the_figures_of_a_part_are_those_of_its_problems() -> None:
    mixed = [replace(row(str(i), i), env="ab"[i % 2]) for i in range(4)]
    found = values(figures(mixed, ks=(1,), num_resamples=10))
    alone = values(figures([one for one in mixed if one.env == "b"], ks=(1,), num_resamples=10))
    assert found["eval/b/pass@1"] == alone["eval/pass@1"] == 0.5
    assert found["eval/a/pass@1"] == 0.25
    assert found["eval/pass@1"] == 0.375
    assert found["eval/b/reward"] == alone["eval/reward"]
    assert not any("a/b" in name or "b/a/" in name for name in found)


def test_a_part_that_never_says_a_thing_has_no_figure_of_it() -> None:
    silent, told = (
        replace(row("a", 1), env="silent"),
        replace(row("b", 1), env="told", reports={"env/steps": (3.0, 5.0)}),
    )
    found = figures([silent, told], ks=(1,), num_resamples=10)
    assert found["eval/env/steps"].value == found["eval/told/env/steps"].value == 4.0
    assert "eval/silent/env/steps" not in found
    assert found["eval/silent/tool/failed_rate"].value == 0.0, "no calls, none of them failed"


def test_what_is_said_by_0_or_1_is_a_share_and_lies_between_them() -> None:
    def said(*told: tuple[float, ...]) -> dict[str, Any]:
        rows = [replace(row(str(i), 1), reports={"env/met": one} if one else {}) for i, one in enumerate(told)]
        return figures(rows, ks=(1,), num_resamples=500)

    few = said((1.0,), (1.0, 0.0), (1.0,), (), ())["eval/env/met"]
    assert few.value == 0.75
    assert 0.2 < few.low < 0.75 < few.high < 1.0
    counted = said((1.0,), (2.0, 0.0), (1.0,), (), ())["eval/env/met"]
    assert counted.low == -inf, "one of three, who all say the same"


def test_a_mean_over_runs_is_of_what_all_of_them_say() -> None:
    said = [replace(row("a", 1), reports={"env/steps": (3.0,)})]
    assert "env/steps" in mean_ratios([said, said], (1,))
    assert "env/steps" not in mean_ratios([said, [row("a", 1)]], (1,))


def test_a_group_without_samples_is_refused_by_name() -> None:
    with raises_naming(ValueError, "'a'"):
        score(Group(task=TASK, trajectories=()))


def test_intervals_stay_within_what_can_be() -> None:
    bounds = attainable((-1.0, 1.0), 8)
    rows = [
        Score(task=str(i), num_samples=1, num_correct=0, sums={"reward": r, "tool/calls": c}, bounds=bounds)
        for i, (r, c) in enumerate([(1.0, 8.0), (-0.9, 1.0), (1.0, 8.0)])
    ]
    found = figures(rows, ks=[1])
    assert (found["eval/reward"].low, found["eval/reward"].high) == (-1.0, 1.0)
    assert (found["eval/tool/calls"].low, found["eval/tool/calls"].high) == (0.0, 8.0)
    loose = figures([replace(row, bounds={}) for row in rows], ks=[1])
    assert loose["eval/reward"].high > 1.0
    assert loose["eval/tool/calls"].high > 8.0
    none = [replace(row, sums={"reward": -1.0 + i / 9, "tool/calls": i / 9}) for i, row in enumerate(rows)]
    gain = gains(rows, none, ks=[1])
    assert -2.0 <= gain["gain/reward"].low <= gain["gain/reward"].high <= 2.0
    assert -8.0 <= gain["gain/tool/calls"].low <= gain["gain/tool/calls"].high <= 8.0


def test_a_value_that_was_seen_is_possible_whatever_was_said() -> None:
    rows = [
        Score(task=str(i), num_samples=1, num_correct=0, sums={"reward": 2.0 + i}, bounds={"reward": (0.0, 1.0)})
        for i in range(3)
    ]
    assert figures(rows, ks=[1])["eval/reward"].high == 4.0


def parts_scores(counts: dict[str, tuple[int, int]], flip: int = 0) -> list[Score]:
    """Return so many right of so many tasks of each part; `flip` more tasks of each are wrong."""
    return [
        Score(task=f"{part}{i}", env=part, num_samples=1, num_correct=int(i < right - flip), sums={"reward": i < right})
        for part, (right, num) in counts.items()
        for i in range(num)
    ]


UNEVEN = {"arithmetic": (30, 40), "countdown": (20, 40), "gsm8k": (1, 8)}


def test_overall_is_the_mean_of_the_parts_however_many_tasks_each_has() -> None:
    found = figures(parts_scores(UNEVEN), ks=(1,))
    parts = [found[f"eval/{part}/pass@1"] for part in UNEVEN]
    mean = (30 / 40 + 20 / 40 + 1 / 8) / 3
    overall = found["eval/overall/pass@1"]
    assert overall.value == pytest.approx(mean)
    assert found["eval/overall/reward"].value == pytest.approx(mean)
    assert found["eval/pass@1"].value == pytest.approx(51 / 88)
    down, up = sum((p.value - p.low) ** 2 for p in parts), sum((p.high - p.value) ** 2 for p in parts)
    assert overall.low == pytest.approx(mean - down**0.5 / 3)
    assert overall.high == pytest.approx(mean + up**0.5 / 3)
    assert 0 < overall.low < overall.value < overall.high < 1
    even = figures(parts_scores({"a": (9, 10), "b": (1, 10)}), ks=(1,))
    assert even["eval/overall/pass@1"].value == pytest.approx(even["eval/pass@1"].value) == 0.5
    assert not [name for name in figures(parts_scores({"a": (3, 10)}), ks=(1,)) if "overall" in name]


def test_the_interval_of_overall_is_that_of_stratified_tasks() -> None:
    """Parts that are all right or all wrong leave nothing of the difference between parts to chance."""
    found = figures(parts_scores({"easy": (200, 200), "hard": (0, 200)}), ks=(1,))
    plain, overall = found["eval/pass@1"], found["eval/overall/pass@1"]
    assert plain.high - plain.low > 0.09
    assert overall.high - overall.low < 0.02


def test_a_gain_of_overall_is_the_mean_of_the_parts_gains() -> None:
    ours, theirs = parts_scores(UNEVEN), parts_scores(UNEVEN, flip=1)
    found = gains(ours, theirs, ks=(1,))
    parts = [found[f"gain/{part}/pass@1"] for part in UNEVEN]
    assert found["gain/overall/pass@1"].value == pytest.approx((1 / 40 + 1 / 40 + 1 / 8) / 3)
    assert found["gain/overall/pass@1"].low == pytest.approx(
        found["gain/overall/pass@1"].value - sum((p.value - p.low) ** 2 for p in parts) ** 0.5 / 3
    )
    for each in gains_of_each([ours], [theirs], ks=(1,)):
        assert each["gain/overall/pass@1"].value == pytest.approx(found["gain/overall/pass@1"].value)


def test_parts_that_bound_nothing_leave_overall_without_an_interval() -> None:
    rows = [Score(task=part, env=part, num_samples=1, num_correct=1, sums={"reward": 1.0}) for part in ("a", "b")]
    found = figures(rows, ks=(1,))["eval/overall/reward"]
    assert (found.value, found.low, found.high) == (1.0, -inf, inf)
