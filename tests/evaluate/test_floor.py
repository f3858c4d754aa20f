"""Floors of whole random episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from rlx.base.console import Screen
from rlx.env.babyai.babyai import BabyAI
from rlx.environment import Environment, Episode
from rlx.environment.random_play import has_random_episodes, random_act
from rlx.evaluation.compare import find_gains, floor_in, gain_tables
from rlx.evaluation.evaluate import Evaluate
from rlx.evaluation.floor import FloorError, floor, floor_figures, random_episode
from rlx.evaluation.tables import tool_table
from rlx.lab.reproduce.figures import row_figures
from rlx.run.report import named_rows
from rlx.runs.run import read_run
from rlx.runs.summary import Estimate, Summary, read_summary, write_summary
from rlx.training import train
from rlx.types import Action, Start, Step, Task, Text, Verb
from tests.errors import raises_naming
from tests.loops import for_each


@dataclass
class Coins(Episode):
    """Three coins, each called by an action; the third right call in a row wins, a wrong one ends the episode."""

    env: Any
    num_right: int = 0

    def opening(self) -> Step:
        return Step(observation=(Text("call"),), legal=self.env.legal)

    def step(self, action: Action) -> Step:
        if action.name == "wait":
            return Step(legal=self.env.legal)
        self.num_right += action.name == "heads"
        is_over = action.name != "heads" or self.num_right == 3
        return Step(
            done=is_over,
            reward=0.5 if action.name == "heads" else 0.0,
            success=self.num_right == 3 if is_over else None,
            legal=None if is_over else self.env.legal,
            metrics={"called": 1.0},
        )


@dataclass(frozen=True, kw_only=True)
class Calling(Environment):
    """Random calls win one of 8 episodes, after 3 turns: the mean reward is 1/4 + 2/8 + 3/16 - ... = 7/16."""

    actions: ClassVar[tuple[Verb, ...]] = (
        Verb(name="heads", description="call heads"),
        Verb(name="tails", description="call tails"),
        Verb(name="wait", description="wait"),
    )
    pace: str = "inline"
    max_rounds: int | None = None
    legal: tuple[str, ...] | None = ("heads", "tails")
    num_test: int = 200

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter([Task(id=f"{split}-{number}", prompt=(), data={}) for number in range(self.num_test)])

    def start(self, task: Task) -> Coins:
        return Coins(self)


MANY = Evaluate(num_tasks=200, num_samples=16, ks=(1, 4, 16), num_resamples=200)
FEW = replace(MANY, num_tasks=5, num_samples=2, ks=(1, 2))


def test_random_episodes_have_the_success_the_reward_and_the_turns_that_are_known_by_hand() -> None:
    """Success: 1/8; reward: .5 (1/2 + 1/4 + 1/8) = 7/16; turns: 1 + 1/2 + 1/4 = 7/4; pass@4: 1 - (7/8)^4."""
    found = floor(MANY, Calling())
    expected = {
        "random/pass@1": 1 / 8,
        "random/pass@4": 1 - (7 / 8) ** 4,
        "random/pass@16": 1 - (7 / 8) ** 16,
        "random/reward": 7 / 16,
        "random/reward_std": 0.5 * (15 / 8 - (7 / 8) ** 2) ** 0.5,
        "random/episode/turns": 7 / 4,
        "random/episode/truncated": 0.0,
        "random/env/called": 7 / 4,
    }
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=0.05), name
        assert found[name].low <= found[name].value <= found[name].high
    assert found["random/reward"].low < 7 / 16 < found["random/reward"].high


def test_only_legal_actions_are_drawn_and_all_of_them_where_nothing_is_said() -> None:
    task, rng = Task(id="1", prompt=(), data={}), Random(0)
    drawn = [random_act(Calling(), task, legal, rng) for legal in [("heads", "wait")] * 50 + [None] * 50]
    assert {one.name for one in drawn[:50] if one} == {"heads", "wait"}
    assert {one.name for one in drawn[50:] if one} == {"heads", "tails", "wait"}
    assert random_act(Calling(), task, (), rng) is None


def test_random_episodes_end_at_the_evaluations_limit_of_turns() -> None:
    waits = Calling(legal=("wait",), max_rounds=9)
    found = floor(replace(FEW, max_rounds=(6, 2)), waits)
    assert (found["random/episode/turns"].value, found["random@2/episode/turns"].value) == (7, 3)
    assert found["random/episode/truncated"].value == 1
    assert floor(FEW, waits)["random/episode/turns"].value == 10
    assert floor(FEW, Calling(legal=("wait",)))["random/episode/turns"].value == 1001


def test_a_smaller_limit_cuts_the_same_episodes() -> None:
    both, small = (floor(replace(MANY, max_rounds=rounds), Calling()) for rounds in ((3, 1), (1,)))
    assert both["random@1/reward"] == small["random/reward"]
    assert both["random@1/pass@1"].value == 0.0


def test_episodes_are_seeded_by_the_task_and_the_sample() -> None:
    first, second = (floor(replace(FEW, seed=seed), Calling()) for seed in (0, 1))
    assert first == floor(FEW, Calling()) != second
    starts = [Start(task=task, sample=n) for task in Calling().tasks("test", 0) for n in range(2)]
    told = [[turn.action.name for turn in random_episode(Calling(), start, None, 0).turns] for start in starts[:20]]
    again = [random_episode(Calling(), start, None, 0).turns for start in reversed(starts[:20])]
    assert [[turn.action.name for turn in turns] for turns in reversed(again)] == told
    assert len(set(map(tuple, told))) > 2


@dataclass(frozen=True, kw_only=True)
class Lending(Calling):
    """The same, where `heads` needs an argument."""

    actions: ClassVar[tuple[Verb, ...]] = (
        Verb(name="heads", description="call heads", argument="coin"),
        *Calling.actions[1:],
    )


def test_an_action_that_needs_an_argument_is_played_where_the_environment_gives_random_ones() -> None:
    class Giving(Lending):
        def random_argument(self, task: Task, name: str, seed: int) -> str:
            return f"{name} {task.id} {seed % 2}"

    assert (has_random_episodes(Lending()), has_random_episodes(Giving())) == (False, True)
    assert floor(FEW, Lending()) == {}
    assert floor(MANY, Giving())["random/pass@1"].value == pytest.approx(1 / 8, abs=0.05)
    rng, task = Random(0), Task(id="1", prompt=(), data={})
    drawn = [random_act(Giving(), task, ("heads",), rng) for _ in range(30)]
    assert {one.text for one in drawn if one} == {"heads 1 0", "heads 1 1"}


def test_no_random_episodes_are_played_without_tries_or_at_a_pace_that_no_seed_repeats() -> None:
    assert floor(replace(FEW, num_tries=0), Calling()) == {}
    assert floor(FEW, Calling(pace="live")) == {}


def test_random_tries_of_an_environment_are_its_floor_whatever_actions_it_declares() -> None:
    class Trying(Calling):
        def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
            return [Action(kind="act", name="heads", text="")] * num

    assert set(floor(FEW, Trying())) == {"random/pass@1", "random/pass@2"}
    assert floor_figures(FEW, Trying()) == ["pass@1", "pass@2"]
    assert floor_figures(FEW, Calling()) == [
        "pass@1",
        "pass@2",
        "reward",
        "reward_std",
        "episode/turns",
        "episode/truncated",
    ]


@dataclass(frozen=True, kw_only=True)
class Both(Environment):
    """A mixture of two parts, as rlx.environment.world reads it."""

    components: Any = field(
        default_factory=lambda: {
            "fair": SimpleNamespace(env=Calling(), protocol=None, weight=1.0),
            "sure": SimpleNamespace(env=Calling(legal=("heads",)), protocol=None, weight=1.0),
        }
    )

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return (replace(task, env=name) for task in Calling(num_test=50).tasks(split, seed) for name in self.components)

    def start(self, task: Task) -> Coins:
        return self.components[task.env].env.start(task)


def test_parts_of_a_mixture_have_floors_of_their_own() -> None:
    found = floor(MANY, Both())
    assert found["random/sure/pass@1"].value == 1
    assert found["random/sure/reward"].value == 1.5
    assert found["random/fair/pass@1"].value == pytest.approx(1 / 8, abs=0.05)
    assert found["random/overall/pass@1"].value == pytest.approx(9 / 16, abs=0.05)


def test_a_mixture_of_tries_and_episodes_has_pass_at_k_alone() -> None:
    class Trying(Calling):
        def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
            return [Action(kind="answer", text="")] * num

    both = Both()
    both.components["sure"].env = Trying()
    found = floor(MANY, both)
    assert set(found) == {"random/pass@1", "random/pass@4", "random/pass@16"}
    assert found["random/pass@1"].value == pytest.approx(1 / 16, abs=0.03)


def test_a_failing_episode_is_no_floor_of_zero() -> None:
    class Failing(Calling):
        def start(self, task: Task) -> Any:
            raise RuntimeError("stuck\nfast")

    with raises_naming(FloorError, "env:", "random episode", "'test-0'", "RuntimeError", "stuck"):
        floor(FEW, Failing())


def test_the_rows_of_tables_name_random_episodes() -> None:
    figures = floor(FEW, Calling())
    run: Any = SimpleNamespace(
        evaluate=FEW,
        env=Calling(),
        model=SimpleNamespace(path="nano"),
        config={"algo": {"_target_": "a.Sft"}, "warm_start": {"algo": None}},
        steps=0,
        warm_start=SimpleNamespace(steps=0),
    )
    rows = named_rows(run, figures)
    assert list(rows) == ["random episodes"]
    assert tool_table(rows).header == ("run", "Turns", "Called", "Reward")


def test_a_comparison_reads_the_floor_of_the_same_limit(tmp_path: Path) -> None:
    point = {"value": 0.5, "low": 0.4, "high": 0.6}
    named = ("random/reward", "random/pass@1", "random@2/reward", "eval/reward")
    metrics = {name: {**point, "value": 0.41 + number / 100} for number, name in enumerate(named)}
    store(tmp_path, metrics)
    assert {name: one.value for name, one in floor_in(read_run(tmp_path), "own").items()} == pytest.approx(
        {"eval/reward": 0.41, "eval/pass@1": 0.42}
    )
    assert {name: one.value for name, one in floor_in(read_run(tmp_path), "2").items()} == pytest.approx(
        {"eval/reward": 0.43}
    )
    store(tmp_path, {"random/pass@1": point, "eval/reward": point})
    assert floor_in(read_run(tmp_path), "own") == {}
    assert floor_in(read_run(tmp_path / "none"), "own") == {}


def store(folder: Path, metrics: dict[str, Any]) -> None:
    figures = {name: Estimate(**point) for name, point in metrics.items()}
    write_summary(folder / "summary.json", Summary(status="finished", seed=0, metrics=figures))


def test_random_walks_in_babyai_win_as_often_as_the_docs_say() -> None:
    """docs/babyai.md: 0.27 of GoTo without distractors, with a reward of 0.17 in 54 turns."""
    pytest.importorskip("minigrid")
    settings = Evaluate(num_tasks=40, num_samples=4, ks=(1,), num_resamples=100)
    found = floor(settings, BabyAI(num_distractors=0))
    assert found["random/pass@1"].value == pytest.approx(0.27, abs=0.08)
    assert found["random/reward"].value == pytest.approx(0.174, abs=0.06)
    assert found["random/episode/turns"].value == pytest.approx(53.6, abs=4)
    assert found["random/env/invalid"].value == 0


@for_each(
    "option",
    ["game/sokoban", "game/fifteen_puzzle", "game/game_2048", "game/sudoku", "game/tower_of_hanoi", "bifurcation"],
)
def test_shipped_games_of_moves_have_random_episodes(option: str) -> None:
    from rlx.gym.named import build_env

    env: Any = build_env(option, {})
    found = floor(replace(FEW, num_tasks=2), env)
    assert found["random/episode/turns"].value >= 1


def test_a_run_a_comparison_and_a_reproduction_show_random_episodes(
    small_run: Callable[..., Any], tmp_path: Path
) -> None:
    words = ("env=bifurcation", "algo=grpo", "protocol=direct", "steps=1", "evaluate.max_rounds=[4,2]")
    train(small_run(tmp_path / "own", *words, without=("env", "algo.num_samples")), Screen(silent=True))
    metrics = read_summary(tmp_path / "own" / "summary.json").metrics
    assert {"random/pass@2", "random/reward", "random@2/episode/turns", "eval/reward"} <= set(metrics)
    results = (tmp_path / "own" / "results.md").read_text()
    assert "| random episodes |" in results
    assert "| random episodes, 2 rounds |" in results
    for gain in find_gains(tmp_path / "own"):
        noun = "random" if gain.max_rounds == "4" else "random@2"
        assert gain.floor["eval/reward"] == metrics[f"{noun}/reward"]
        assert all(table.rows[0][0] == "random episodes" for table in gain_tables(gain))
    what: Any = SimpleNamespace(ks=(1, 2))
    row = row_figures(what, "own random", {"own": [tmp_path / "own"]}, {})
    assert row["eval/episode/turns"] == metrics["random/episode/turns"]
