"""Train every environment with three algorithms and the embedded model, as the command line would choose the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.config.compose import build_run, compose
from rlx.config.folders import list_options
from rlx.console import Screen
from rlx.record.folder import METRICS
from rlx.record.track import read_metrics
from rlx.train import train
from rlx.world import parts_of

TINY = (
    "algo.num_prompts=2",
    "steps=2",
    "sampling.max_new_tokens=24",
    "evaluate.num_tasks=1",
    "evaluate.num_samples=1",
    "evaluate.ks=[1]",
    "evaluate.num_tries=0",
    "evaluate.num_resamples=10",
    "track=disabled",
)
GAMES = [f"game/{name}" for name in ("sokoban", "guess_the_number", "minesweeper", "wordle", "crosswords")]
ENVS = [*(name for name in list_options("env") if "/" not in name), *GAMES, "sorting/sort", "calc/countdown_small"]

SUMS = ("env.task=sums_taskset", "env.num_test=5", "env.num_tasks=50")


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["grpo", "tool_rloo", "ppo"])
@pytest.mark.parametrize("env", ENVS)
def test_every_environment_takes_two_steps(env: str, algo: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    words = [f"env={env}", f"algo={algo}", "algo.num_samples=2", *TINY]
    if env in ("gem", "textarena"):
        words += [f"env.python={request.getfixturevalue('python_of')(env)}"]
    if env == "verifiers":
        words += [f"env.python={request.getfixturevalue('sums_python')}", *SUMS]
    if compose(words)["warm_start"]["steps"]:
        words += ["warm_start.steps=1", "warm_start.algo.num_prompts=2"]
    run = build_run(compose(words), tmp_path / "run")
    if any(getattr(part, "fetches", False) for part in parts_of(run.env).values()):
        pytest.skip(f"{env} reads a data set from a hub")
    train(run, Screen(silent=True))
    assert [row["step"] for row in read_metrics(run.folder / METRICS)] == [1, 2]
