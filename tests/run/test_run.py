"""A run refuses what none of its parts can see alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlx.config.compose import ConfigError
from rlx.env.countdown.countdown import Countdown

SPLIT = ["hardware.engine=vllm", "hardware.device=cuda", "hardware.tensor_parallel=2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["seed=-1"], "seed=-1: expected an integer from 0 to"),
        (["steps=-1"], "steps=-1: expected an integer from 0 to 1000000000"),
        (["max_error_share=2"], "max_error_share=2: expected a number from 0 to 1"),
        (["max_error_share=-1"], "max_error_share=-1: expected a number from 0 to 1"),
        (["sampling.temperature=0"], "sampling.temperature=0: expected a number from 0.01 to 1000"),
        (["sampling.temperature=1e-38"], "sampling.temperature=1e-38: expected a number from 0.01 to 1000"),
        (["sampling.max_context=4096"], "sampling.max_context=4096: expected an integer up to model.max_context=2048"),
        (["sampling.max_context=30"], "sampling.max_new_tokens=40: expected an integer below sampling.max_context=30"),
        (["evaluate.max_new_tokens=3000"], "evaluate.max_new_tokens=3000: expected an integer below sampling.max_con"),
        (["algo=earl", "protocol=tags"], "algo.space=expanded: expected protocol=expa"),
        (["algo=earl", "env=math"], "algo.space=expanded: expected another algo"),
        (["algo=cpo", "env=math"], "algo forces a policy to enter a tool or an action: expected another algo, as the"),
        (["algo=cpo", "protocol=answer"], "algo forces a policy to enter a tool or an action: expected protocol=tags"),
        (["algo=arpo", "algo.num_fresh=2", "algo.num_samples=4", *SPLIT], "hardware.tensor_parallel=2: expected 1"),
        (["warm_start=none", "warm_start.steps=2"], "warm_start.steps=2 needs an algo: leave it out, or choose"),
        (["warm_start=sft", "warm_start.seed=-1"], "warm_start.seed=-1: expected an integer from 0 to"),
        (["checkpoint.minutes=0"], "checkpoint.minutes=0: expected a number above 0"),
        (
            ["model.lora={_target_:rlx.model.load.Lora,rank:0}"],
            "model.lora.rank=0: expected an integer",
        ),
        (["env.python.seconds=0"], "env.python.seconds=0: expected a number above 0 and at most 3600"),
        (
            [*SPLIT, "sampling.temperature=3"],
            "sampling.temperature=3: expected 0 or a number from 0.01 to 2 with hardware",
        ),
        ([*SPLIT, "evaluate.temperature=0.001"], "evaluate.temperature=0.001: expected 0 or a number from 0.01 to 2"),
        (
            ["hardware.engine=vllm", "hardware.tensor_parallel=2"],
            "hardware.tensor_parallel=2 needs engine=vllm and dev",
        ),
        (["hardware.engine_memory=1.5"], "hardware.engine_memory=1.5: expected a number above 0 and at most 1"),
    ],
)
def test_a_run_that_cannot_be_is_refused_with_the_key_to_change(
    small_run: Callable[..., Any], tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        small_run(tmp_path, *words, without=("warm_start",) if any("warm" in word for word in words) else ())
    assert str(error.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_an_algorithm_whose_action_space_is_no_key_is_refused_without_naming_that_key(
    small_run: Callable[..., Any], tmp_path: Path
) -> None:
    run = small_run(tmp_path, "algo=earl", "protocol=answer", "steps=0")
    config = {**run.config, "algo": {key: value for key, value in run.config["algo"].items() if key != "space"}}
    with pytest.raises(ValueError, match=r"^algo acts beyond the vocabulary, .*: expected protocol=expa beside it$"):
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
    message = "^env: Unrepeatable does not replay, and algo forks its episodes"
    with pytest.raises(ValueError, match=message):
        replace(run, env=Unrepeatable())
    assert replace(run, env=Unrepeatable(), steps=0).steps == 0


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("algo.num_fresh=0", "algo.num_fresh=0: expected an integer from 1 to"),
        ("algo.num_fresh=-1", "algo.num_fresh=-1: expected an integer from 1 to"),
        ("algo.num_forks=-1", "algo.num_forks=-1: expected an integer from 0 to"),
        ("algo.num_live=0", "algo.num_live=0: expected an integer from 1 to"),
        ("algo.fork_order=best", "algo.fork_order=best is not an option"),
        ("algo.update=some", "algo.update=some is not an option"),
        ("algo.num_samples=4", "algo.num_samples"),
    ],
)
def test_wrong_values_of_carl_are_refused_by_their_key(
    small_run: Callable[..., Any], tmp_path: Path, word: str, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        small_run(tmp_path, "algo=carl", word, without=("algo", "warm_start"))
    assert message in str(error.value)
