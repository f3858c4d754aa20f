"""Choose the protocol, the lengths and the warm start of a run: the table of rules, and an answer for every pair."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rlx.environment import Environment
from rlx.environment.expert import demonstration
from rlx.environment.world import dialect_of, parts_of
from rlx.run.choose import Case, choose_protocols, choose_sampling, choose_warm_start
from rlx.settings.build import build_value
from rlx.settings.compose import build_run, choices_of, compose
from rlx.settings.folders import list_options, read_option
from tests.loops import for_each

MODELS = {"nano": [], "base": ["model=qwen3_4b"], "instruct": ["model=qwen3_4b_instruct"]}
"""A model too small to reason, one that reasons, and one that follows instructions too."""
ALGOS = sorted(list_options("algo"))
ENVS = [name for name in list_options("env") if "/" not in name]
ENVS += [
    "game/sokoban",
    "game/guess_the_number",
    "game/minesweeper",
    "game/wordle",
    "sorting/sort",
    "calc/countdown_small",
]


def chosen(*words: str) -> dict[str, str]:
    """Return the option chosen for each group."""
    return {choice.key: choice.option for choice in choices_of(words)}


@for_each(
    "words, protocol, sampling, warm_start",
    [
        # Tools: tags, and demonstrations of their use; a model that reasons is shown them by Tool-RLOO alone.
        ("env=countdown algo=tool_rloo", "tags", "default", "tool_sft"),
        ("env=countdown algo=grpo", "tags", "default", "tool_sft"),
        ("env=countdown algo=tool_rloo model=qwen3_4b", "tags", "default", "tool_sft"),
        ("env=countdown algo=grpo model=qwen3_4b", "tags", "default", "none"),
        ("env=countdown algo=tool_rloo model=qwen3_4b_instruct", "tags", "default", "none"),
        # The paper's baselines in text.
        ("env=countdown algo=rloo", "answer", "long", "sft"),
        ("env=countdown algo=ipo", "answer", "long", "sft"),
        ("env=countdown algo=sft", "answer", "long", "none"),
        ("env=countdown algo=tool_sft", "tags", "default", "none"),
        # EARL and its baselines start from the pretrained model.
        ("env=countdown algo=earl", "expa", "default", "none"),
        ("env=sorting/sort algo=prompt_grpo", "tags", "default", "none"),
        ("env=countdown algo=sft_grpo", "tags", "default", "sft"),
        # Questions and games: one line from a small model, reasoning and a box from another.
        ("env=math algo=grpo", "direct", "default", "brief"),
        ("env=math algo=grpo model=qwen3_4b", "boxed", "long", "none"),
        ("env=game/sokoban algo=rloo", "direct", "default", "brief"),
        ("env=game/guess_the_number algo=rebn", "direct", "default", "brief"),
        ("env=game/guess_the_number algo=rebn model=qwen3_4b_instruct", "boxed", "default", "none"),
        # Programs have several lines.
        ("env=code algo=grpo", "tags", "default", "sft"),
        ("env=code algo=grpo model=qwen3_4b_instruct", "fenced", "long", "none"),
        # An environment of another package parses turns itself.
        ("env=gem algo=rebn", "whole", "default", "none"),
    ],
)
def test_the_choice_suits_environment_algorithm_and_model(
    words: str, protocol: str, sampling: str, warm_start: str
) -> None:
    expected = {"protocol": protocol, "sampling": sampling, "warm_start": warm_start}
    assert expected | chosen(*words.split()) == expected


def test_an_option_on_the_command_line_wins() -> None:
    assert chosen("env=math", "algo=grpo", "protocol=tags", "warm_start=none") == {"sampling": "default"}
    assert compose(["env=math", "algo=grpo", "protocol=tags"])["protocol"]["_target_"] == "rlx.protocol.tags.Tags"


def test_auto_can_be_written_out() -> None:
    assert compose(["protocol=auto"]) == compose([])


def test_keys_of_the_chosen_options_can_be_set() -> None:
    tree = compose(["env=math", "model=qwen3_4b", 'protocol.stops_at=["###"]'])
    assert tree["protocol"]["stops_at"] == ["###"]
    assert compose(["env=countdown", "warm_start.algo.num_prompts=4"])["warm_start"]["algo"]["num_prompts"] == 4


def test_parts_of_a_mixture_have_protocols_of_their_own() -> None:
    found = chosen("env=[countdown,code,math]", "model=qwen3_4b", "algo=grpo")
    assert found == {
        "protocol": "tags",
        "+protocol@env.parts.code.protocol": "fenced",
        "+protocol@env.parts.math.protocol": "boxed",
        "sampling": "default",
        "warm_start": "none",
    }
    assert build_run(compose(["env=[countdown,code,math]", "model=qwen3_4b", "algo=grpo"]), Path()).dialects


def test_the_discount_is_the_environments() -> None:
    values = {name: compose([f"env={name}", "algo=rebn"])["algo"]["gamma"] for name in ("game/wordle", "qa", "math")}
    assert values == {"game/wordle": 0.9, "qa": 0.9, "math": 1.0}
    assert compose(["env=[game/wordle,math]", "algo=ppo"])["algo"]["gamma"] == 1.0
    assert compose(["env=lend", "algo=a2c"])["algo"]["gamma"] == 0.9


@pytest.fixture(scope="module")
def algorithms() -> dict[str, Any]:
    trees = {name: compose([f"algo={name}"])["algo"] for name in ALGOS}
    return {name: build_value(tree, "algo") for name, tree in trees.items()}


@pytest.fixture(scope="module")
def facts() -> dict[str, dict[str, bool]]:
    models = {name: compose(words)["model"] for name, words in MODELS.items()}
    return {name: {"reasoning": tree["recipe"]["reasoning"], "chat": tree["chat"]} for name, tree in models.items()}


@pytest.mark.parametrize("name", ENVS)
def test_every_algorithm_and_model_has_a_protocol_in_which_the_expert_can_speak(
    name: str, algorithms: dict[str, Any], facts: dict[str, dict[str, bool]]
) -> None:
    env: Environment = build_value(compose([f"env={name}", "protocol=tags", "warm_start=none"])["env"], "env")
    spoken: set[tuple[str, str]] = set()
    for algo, model in product(algorithms.values(), facts.values()):
        case = Case(env=env, algo=algo, **model)
        protocols = choose_protocols(case)
        options = {choice.key: choice.option for choice in protocols}
        for part, inner in parts_of(env).items():
            option = options.get(f"+protocol@env.parts.{part}.protocol", options.get("protocol", "tags"))
            dialect = build_value(read_option("protocol", option) | {"reasoning": model["reasoning"]}, "protocol")
            assert dialect.bind(inner.tools, inner.actions).stops is not None
            warm = choose_warm_start(case, option, dialect)
            assert choose_sampling(case, option).reason
            assert warm.reason
            if (warm.option != "none" or algo.imitates) and inner.has_expert and (part, option) not in spoken:
                spoken.add((part, option))
                speak(env, part, inner, dialect)


def speak(env: Environment, part: str, inner: Environment, dialect: Any) -> None:
    """Have the expert play a task in the protocol; it raises where it cannot say a move."""
    if inner.is_remote:
        return
    task = next(iter(inner.tasks("train", 0)))
    assert demonstration(inner, dialect_of(env, dialect, part), task, 0)[1]
