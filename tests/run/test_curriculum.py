"""Runs whose next tasks depend on what was solved: what they play, what they say, and how they go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlx.base.console import Screen
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.environment import Environment, Episode
from rlx.hardware.interrupt import InterruptedRunError
from rlx.protocol.direct import Direct
from rlx.run import curriculum
from rlx.run.warm import warm_config
from rlx.runs.store import load as load_groups
from rlx.runs.store import step_path
from rlx.runs.track import is_clock
from rlx.training import train
from rlx.types import Action, Step, Task, Text
from tests.errors import raises_naming

Build = Callable[..., Any]
QUIET = Screen(silent=True)
WORDS = ("algo=grpo", "steps=6", "algo.num_prompts=4", "sampling.max_new_tokens=4", "evaluate.max_new_tokens=4")
FEW = ("algo=", "steps", "algo.num_prompts", "sampling.max_new_tokens", "evaluate.max_new_tokens")


@dataclass(frozen=True, kw_only=True)
class Fated(Environment):
    """Whatever is said: of ten tasks in a row so many are solved."""

    solved: int
    num_train: int | None = None
    pace: ClassVar = "inline"

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        numbers = count() if self.num_train is None else iter(range(self.num_train))
        for number in numbers if split == "train" else range(4):
            yield Task(
                id=f"{split}-{number}", prompt=(Text("Say something."),), data={"solved": number % 10 < self.solved}
            )

    def start(self, task: Task) -> FatedEpisode:
        return FatedEpisode(task.data["solved"])


@dataclass
class FatedEpisode(Episode):
    solved: bool

    def step(self, action: Action) -> Step:
        return Step(done=True, success=self.solved, reward=float(self.solved))


def mix(floor: float | None = 0.05, **more: Environment) -> Mixture:
    parts = {"always": Fated(solved=10), "never": Fated(solved=0), "half": Fated(solved=5), **more}
    portions = {name: Portion(env=env, protocol=Direct()) for name, env in parts.items()}
    return Mixture(parts=portions, curriculum_floor=floor, curriculum_decay=0.8)


def told(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def played(folder: Path) -> list[list[str]]:
    """The tasks of each step."""
    return [[group.task.key for group in load_groups(step_path(folder, step))] for step in range(1, 7)]


@pytest.fixture
def build(small_run: Build) -> Build:
    return lambda folder, *words: replace(small_run(folder, *WORDS, *words, without=FEW), env=mix())


@pytest.fixture(scope="module")
def whole(small_run: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("curriculum") / "run"
    train(replace(small_run(folder, *WORDS, without=FEW), env=mix()), QUIET)
    return folder


def test_what_is_solved_and_what_never_is_gives_way(whole: Path) -> None:
    first, *_, last = told(whole)
    assert [first[f"{part}/known/share"] for part in ("always", "never", "half")] == pytest.approx([1 / 3] * 3)
    assert last["always/known/success"] > 0.75 > 0.5 > 0.25 > last["never/known/success"]
    assert last["half/known/share"] > 0.5 > 2 * max(last["always/known/share"], last["never/known/share"])
    for part in ("always", "never", "half"):
        mine = [task for step in played(whole) for task in step if task.startswith(part)]
        assert mine == [f"{part}/train-{number}" for number in range(len(mine))]  # its own, in their order
    assert all(len(step) == 4 for step in played(whole))
    for line, step in zip(told(whole), played(whole), strict=True):
        for part, num in Counter(task.split("/")[0] for task in step).items():
            assert abs(num - 4 * line[f"{part}/known/share"]) < 1


@pytest.mark.parametrize("cut", [1, 4])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(whole: Path, build: Build, tmp_path: Path, cut: int) -> None:
    train(build(tmp_path, f"steps={cut}"), QUIET)
    train(build(tmp_path), QUIET)
    assert (told(tmp_path), played(tmp_path)) == (told(whole), played(whole))


def test_a_step_that_was_begun_and_not_learned_from_is_played_again(
    whole: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise InterruptedRunError(15)

    train(build(tmp_path, "steps=3"), QUIET)
    with monkeypatch.context() as patch:
        patch.setattr("rlx.run.step.refuse_errors", interrupted)  # its tasks were taken and played
        with pytest.raises(InterruptedRunError):
            train(build(tmp_path), QUIET)
    train(build(tmp_path), QUIET)
    assert (told(tmp_path), played(tmp_path)) == (told(whole), played(whole))


def test_without_a_floor_tasks_come_as_they_did(build: Build, tmp_path: Path) -> None:
    run = replace(build(tmp_path), env=mix(floor=None))
    assert (curriculum.begin(run), curriculum.adapt(run, {}, []), curriculum.tell(run, {})) == ({}, {}, {})
    tasks = curriculum.open_tasks(run, 2, {2: []}, dict)
    assert [*tasks(3), *tasks(4)] == list(islice(run.env.tasks("train", run.seed), 3 * 4, 5 * 4))


def test_where_an_expert_plays_nothing_is_chosen_and_a_warm_start_is_shared(small_run: Build, tmp_path: Path) -> None:
    words = ("env=mixture", "algo=sft", "env.curriculum_floor=0.5")
    run = small_run(tmp_path, *words, without=("env", "algo"))
    assert run.env.curriculum is not None
    assert curriculum.begin(run) == {}
    other = small_run(tmp_path, *words, "env.curriculum_floor=null", without=("env", "algo"))
    assert warm_config(run) == warm_config(other)


def test_train_tasks_that_end_say_so_and_how_many_there_were(build: Build, tmp_path: Path) -> None:
    run = replace(build(tmp_path), env=Fated(solved=0, num_train=6))
    tasks = curriculum.open_tasks(run, 0, {}, dict)
    assert len(tasks(0)) == 4
    with raises_naming(ValueError, "env:", "2 are left", "step 2", "has 4"):
        tasks(1)


def test_a_part_whose_tasks_end_says_so(build: Build, tmp_path: Path) -> None:
    run = replace(build(tmp_path), env=mix(never=Fated(solved=0, num_train=1)))
    known = curriculum.begin(run)
    tasks = curriculum.open_tasks(run, 0, {}, lambda: known)
    with raises_naming(ValueError, "env.parts.never.env:", "ended"):
        [tasks(step) for step in range(9)]
