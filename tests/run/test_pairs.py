"""Train every environment and algorithm in pairs with the embedded model, as the command line would choose the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.base.console import Screen
from rlx.environment.world import parts_of
from rlx.runs.folder import METRICS
from rlx.runs.track import read_metrics
from rlx.settings.compose import build_run, compose
from rlx.settings.folders import list_options
from rlx.training import train
from tests.test_repeat_adapters import SIZES

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


ALGOS = ("grpo", "tool_rloo", "ppo")
OTHERS = {
    "a2c": ("calc_bench", "mixture"),
    "aepo": ("lend_search", "game/sokoban"),
    "arpo": ("math_python", "game/minesweeper"),
    "at2po": ("lend_search", "game/sokoban"),
    "branpo": ("lend", "game/guess_the_number"),
    "carl": ("search_qa", "lend_search", "game/sokoban"),
    "carl_all": ("lend", "game/wordle"),
    "carl_lite": ("countdown", "sudoku_and_rg"),
    "carl_outcome": ("math_python", "game/minesweeper"),
    "carl_random": ("lend_search", "sudoku_and_rg"),
    "bandit_ppo": ("gem", "game/sokoban"),
    "bilevel_ppo": ("countdown", "babyai/go_to"),
    "cpo": ("calc_bench_small", "game/sokoban"),
    "earl": ("lend", "sorting_any"),
    "earl_released": ("countdown", "lend_search"),
    "expa_grpo": ("countdown_4digit", "sorting/sort"),
    "g2po": ("calc_bench", "game/sokoban"),
    "gigpo": ("gem", "game/sokoban"),
    "ipo": ("countdown_4to5", "sudoku_and_rg"),
    "nested_ppo": ("lend_search", "babyai/go_to_and_pick_up"),
    "nested_ppo_printed": ("countdown", "babyai/pick_up"),
    "prompt_cpo": ("countdown_hard", "game/minesweeper"),
    "prompt_grpo": ("code", "textarena"),
    "rebn": ("countdown_product", "verifiers"),
    "reinforce": ("gem", "reasoning_gym"),
    "rloo": ("lend", "game/guess_the_number"),
    "sft": ("lend_search", "game/minesweeper"),
    "sft_grpo": ("logic", "game/wordle"),
    "tool_rloo_best2": ("math", "game/crosswords"),
    "tree_grpo": ("lend_search", "sudoku_and_rg"),
    "treerl": ("math", "game/wordle"),
    "turn_ppo": ("math_python", "babyai/go_to"),
    "turn_grpo": ("countdown", "qa"),
    "vineppo": ("lend_search", "game/wordle"),
    "tool_sft": ("math_python", "qa"),
}
"""Environments of every other algorithm, which have what it needs: tools or actions, or an expert."""


def take_two_steps(env: str, algo: str, folder: Path, request: pytest.FixtureRequest) -> None:
    words = [f"env={env}", f"algo={algo}", *TINY]
    if env in ("gem", "textarena"):
        words += [f"env.python={request.getfixturevalue('python_of')(env)}"]
    if env == "verifiers":
        words += [f"env.python={request.getfixturevalue('sums_python')}", *SUMS]
    tree = compose(words)
    words += SIZES.get(algo) or (["algo.num_samples=2"] if "num_samples" in tree["algo"] else [])
    if tree["warm_start"]["steps"]:
        words += ["warm_start.steps=1", "warm_start.algo.num_prompts=2"]
    run = build_run(compose(words), folder)
    if any(part.is_remote for part in parts_of(run.env).values()):
        pytest.skip(f"{env} reads a data set from a hub")
    train(run, Screen(silent=True))
    assert [row["step"] for row in read_metrics(run.folder / METRICS)] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("env", ENVS)
def test_every_environment_takes_two_steps(env: str, algo: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    take_two_steps(env, algo, tmp_path / "run", request)


@pytest.mark.slow
@pytest.mark.parametrize(("env", "algo"), [(env, algo) for algo, envs in OTHERS.items() for env in envs])
def test_every_other_algorithm_takes_two_steps(
    env: str, algo: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    take_two_steps(env, algo, tmp_path / "run", request)


def test_every_algorithm_is_paired() -> None:
    assert {*ALGOS, *OTHERS} == set(list_options("algo"))
