"""A run refuses what none of its parts can see alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlx.env.countdown.countdown import Countdown
from rlx.settings.compose import ConfigError
from tests.errors import raises_naming

SPLIT = ["hardware.engine=vllm", "hardware.device=cuda", "hardware.tensor_parallel=2"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["seed=-1"], ("seed=-1",)),
        (["steps=-1"], ("steps=-1", "0", "1000000000")),
        (["max_error_share=2"], ("max_error_share=2",)),
        (["max_error_share=-1"], ("max_error_share=-1",)),
        (["sampling.temperature=0"], ("sampling.temperature=0", "0.01", "1000")),
        (["sampling.temperature=1e-38"], ("sampling.temperature=1e-38", "0.01", "1000")),
        (["sampling.max_context=4096"], ("sampling.max_context=4096", "model.max_context=2048")),
        (["sampling.max_context=30"], ("sampling.max_new_tokens=40", "sampling.max_context=30")),
        (["evaluate.max_new_tokens=3000"], ("evaluate.max_new_tokens=3000", "sampling.max_context")),
        (["algo=earl", "protocol=tags"], ("algo.space=expanded", "protocol=expa")),
        (["algo=earl", "env=math"], ("algo.space=expanded", "another algo")),
        (["algo=cpo", "env=math"], ("algo forces", "another algo")),
        (["algo=cpo", "protocol=answer"], ("algo forces", "protocol=tags")),
        (["algo=arpo", "algo.num_fresh=2", "algo.num_samples=4", *SPLIT], ("hardware.tensor_parallel=2",)),
        (["warm_start=none", "warm_start.steps=2"], ("warm_start.steps=2", "algo")),
        (["warm_start=sft", "warm_start.seed=-1"], ("warm_start.seed=-1",)),
        (["checkpoint.minutes=0"], ("checkpoint.minutes=0",)),
        (
            ["model.lora={_target_:rlx.model.load.Lora,rank:0}"],
            ("model.lora.rank=0",),
        ),
        (["env.python.seconds=0"], ("env.python.seconds=0", "0", "3600")),
        (
            [*SPLIT, "sampling.temperature=3"],
            ("sampling.temperature=3", "0", "0.01", "2"),
        ),
        ([*SPLIT, "evaluate.temperature=0.001"], ("evaluate.temperature=0.001", "0", "0.01", "2")),
        (
            ["hardware.engine=vllm", "hardware.tensor_parallel=2"],
            ("hardware.tensor_parallel=2", "engine=vllm"),
        ),
        (["hardware.engine_memory=1.5"], ("hardware.engine_memory=1.5",)),
    ],
)
def test_a_run_that_cannot_be_is_refused_with_the_key_to_change(
    small_run: Callable[..., Any], tmp_path: Path, words: list[str], names: tuple[str, ...]
) -> None:
    with raises_naming(ConfigError, *names):
        small_run(tmp_path, *words, without=("warm_start",) if any("warm" in word for word in words) else ())
    assert not list(tmp_path.iterdir())


def test_an_algorithm_whose_action_space_is_no_key_is_refused_without_naming_that_key(
    small_run: Callable[..., Any], tmp_path: Path
) -> None:
    run = small_run(tmp_path, "algo=earl", "protocol=answer", "steps=0")
    config = {**run.config, "algo": {key: value for key, value in run.config["algo"].items() if key != "space"}}
    with raises_naming(ValueError, "algo acts", "protocol=expa"):
        replace(run, config=config, steps=1)


def test_what_an_algorithm_asks_of_an_environment_is_nothing_to_a_run_that_trains_nothing(
    small_run: Callable[..., Any], tmp_path: Path
) -> None:
    assert small_run(tmp_path, "algo=earl", "protocol=answer", "steps=0").algo.space == "expanded"


@dataclass(frozen=True, kw_only=True)
class Unrepeatable(Countdown):
    replayable: ClassVar[bool] = False


@pytest.mark.parametrize("algo", ["carl", "carl_lite", "cpo", "vineppo"])
def test_an_algorithm_that_forks_needs_an_environment_that_replays(
    small_run: Callable[..., Any], tmp_path: Path, algo: str
) -> None:
    without = ("warm_start",) if algo == "cpo" else ("algo", "warm_start")
    run = small_run(tmp_path, f"algo={algo}", "algo.num_prompts=2", "warm_start=none", without=without)
    with raises_naming(ValueError, "env:", "Unrepeatable", "algo"):
        replace(run, env=Unrepeatable())
    assert replace(run, env=Unrepeatable(), steps=0).steps == 0


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("algo.num_fresh=0", ("algo.num_fresh=0",)),
        ("algo.num_fresh=-1", ("algo.num_fresh=-1",)),
        ("algo.num_forks=-1", ("algo.num_forks=-1",)),
        ("algo.num_live=0", ("algo.num_live=0",)),
        ("algo.fork_order=best", ("algo.fork_order=best",)),
        ("algo.update=some", ("algo.update=some",)),
        ("algo.num_samples=4", ("algo.num_samples",)),
    ],
)
def test_wrong_values_of_carl_are_refused_by_their_key(
    small_run: Callable[..., Any], tmp_path: Path, word: str, names: tuple[str, ...]
) -> None:
    with raises_naming(ConfigError, *names):
        small_run(tmp_path, "algo=carl", word, without=("algo", "warm_start"))
