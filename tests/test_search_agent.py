"""CARL on a search agent whose turns stand alone: trained, stored and replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.evaluation.replay import replay
from rlx.run.trainee import build_policy
from rlx.runs.store import load, step_path
from rlx.runs.track import read_metrics
from rlx.training import train

WORDS = (
    *("env=search_qa", "env.reads=true", "env.thoughts=true", "env.max_rounds=3", "protocol=standalone"),
    *("env.hops=[1]", "env.result_characters=300"),
    *("algo=carl", "algo.num_prompts=2", "algo.num_fresh=2", "algo.num_forks=3", "steps=2", "warm_start=none"),
    *("sampling.max_new_tokens=12", "evaluate.num_tasks=1", "evaluate.num_samples=1", "evaluate.ks=[1]"),
    *("evaluate.max_new_tokens=12", "checkpoint.interval=1", "checkpoint.trajectories_interval=1"),
)
REPLACED = ("env.", "env=", "algo", "sampling", "evaluate.", "checkpoint")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, small_run: Callable[..., Any]) -> Path:
    place = tmp_path_factory.mktemp("search") / "run"
    assert train(small_run(place, *WORDS, without=REPLACED), Screen(silent=True)).status == "finished"
    return place


def test_every_turn_is_a_sample_of_its_own(folder: Path) -> None:
    played = [one for group in load(step_path(folder, 1)) for one in group.trajectories]
    assert len(played) == 2 * (2 + 3)
    assert any(one.fork is not None for one in played)
    pairs = [(a, b) for one in played for a, b in zip(one.turns, one.turns[1:], strict=False)]
    assert pairs
    for before, after in pairs:
        said = before.prompt_ids + before.completion.token_ids
        assert after.prompt_ids[: len(said)] != said, "no turn continues the text of the one before"


def test_what_was_played_replays(folder: Path, small_run: Callable[..., Any]) -> None:
    run = small_run(folder, *WORDS, without=REPLACED)
    policy = build_policy(run, run.model)
    report = replay(folder, run.env, speech=policy.speech)
    assert report.ok, report


def test_the_trees_have_the_turns_that_the_algorithm_says(folder: Path) -> None:
    lines = read_metrics(folder / "metrics.jsonl")
    assert len(lines) == 2
    for line in lines:
        assert 2 + 3 <= line["tree/critical"] <= 2 + 2 * 3
        assert line["tree/edges"] * 2 == line["batch/turns"]
        assert line["update/turns"] <= line["update/selected_turns"] == line["tree/critical"] * 2
