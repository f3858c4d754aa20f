"""What a run takes from the size of its model, as it reaches the keys that are used."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rlx.settings.check import ConfigError
from rlx.settings.compose import build_run, build_value, compose
from rlx.settings.folders import shipped_options
from tests.errors import raises_naming
from tests.loops import for_each


def rates(tree: dict[str, Any]) -> tuple[float, float]:
    return tree["algo"]["optimizer"]["lr"], tree["warm_start"]["algo"]["optimizer"]["lr"]


def test_nano_has_a_recipe_of_its_own() -> None:
    tree = compose(["model=nano", "algo=tool_rloo_best2"])
    assert rates(tree) == (2e-4, 1e-3)
    assert (tree["steps"], tree["warm_start"]["steps"]) == (40, 30)
    loss = tree["algo"]["loss"]
    assert (tree["algo"]["num_prompts"], loss["kl"], loss["entropy"]) == (8, 0.02, 0.003)
    assert (tree["sampling"]["max_new_tokens"], tree["sampling"]["max_context"]) == (128, 2048)
    text = compose(["model=nano", "algo=rloo"])
    assert (text["sampling"]["max_new_tokens"], text["warm_start"]["steps"]) == (512, 200)


def test_a_large_model_is_not_trained_at_nanos_rates_and_lengths() -> None:
    tree = compose(["model=qwen2_5_7b", "algo=tool_rloo_best2"])
    assert rates(tree) == (1e-6, 1e-5)
    assert tree["steps"] == 200
    assert tree["algo"]["num_prompts"] == 64
    assert tree["sampling"]["max_new_tokens"] == 4096
    assert tree["sampling"]["max_context"] == tree["model"]["max_context"] == 8192
    assert compose(["model=qwen2_5_7b", "algo=ipo"])["algo"]["optimizer"]["lr"] == 5e-7


def test_the_papers_settings_come_with_the_papers_model() -> None:
    tree = compose(["algo=tool_rloo", "model=qwen2_5_0_5b"])
    algo = tree["algo"]
    assert algo["optimizer"]["lr"] == 1e-5
    assert (algo["num_prompts"], algo["num_samples"], algo["best_of"], algo["clip"]) == (32, 8, 1, None)
    assert (algo["loss"]["kl"], algo["loss"]["entropy"], tree["steps"]) == (0.001, 0.001, 100)
    assert tree["warm_start"]["steps"] * tree["warm_start"]["algo"]["num_prompts"] == 10_240
    assert tree["sampling"]["max_context"] >= 3072
    judged = compose(["algo=tool_rloo", "model=qwen2_5_0_5b", "evaluate=paper"])["evaluate"]
    assert (judged["num_tasks"], judged["num_samples"], judged["max_rounds"]) == (50, 16, [8, 5])


@pytest.mark.parametrize("adapters", [["+model/lora=r32"], ["model.lora={_target_: rlx.model.load.Lora, rank: 4}"]])
def test_adapters_learn_faster_however_they_are_chosen(adapters: list[str]) -> None:
    assert rates(compose(["model=qwen2_5_7b", *adapters])) == (1e-5, 1e-4)
    assert rates(compose(["model=nano", *adapters])) == (2e-4, 1e-3)


def test_a_key_given_by_itself_wins_over_the_recipe() -> None:
    words = ["algo.optimizer.lr=2e-6", "warm_start.algo.optimizer.lr=3e-6", "steps=7", "sampling.max_new_tokens=9"]
    tree = compose(["model=qwen2_5_7b", *words])
    assert rates(tree) == (2e-6, 3e-6)
    assert (tree["steps"], tree["sampling"]["max_new_tokens"]) == (7, 9)


def test_a_recipe_can_be_chosen_and_changed() -> None:
    assert compose(["model=nano", "model/recipe=3b", "algo=grpo"])["algo"]["num_prompts"] == 64
    assert compose(["model.recipe.reinforce_lr=1e-4"])["algo"]["optimizer"]["lr"] == 1e-4
    with raises_naming(ConfigError, "'model.recipe.reinforce'", "reinforce_lr"):
        compose(["+model.recipe.reinforce=1"])


@for_each(
    "word, place",
    [
        ("reinforce_lr=0", "reinforce_lr=0"),
        ("num_prompts=0", "num_prompts=0"),
        ("kl=-1", "kl=-1"),
        ("sft_steps=-1", "sft_steps=-1"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_with_its_place(word: str, place: str) -> None:
    with raises_naming(ConfigError, f"model.recipe.{place}"):
        build_value(compose([f"model.recipe.{word}"])["model"], "model")


@for_each(
    "word",
    [
        *(
            f"{key}={value}"
            for key in ("reinforce_lr", "imitate_lr", "critic_lr")
            for value in ("abc", "null", "[1,2]", "nan", "1e20")
        ),
        *(f"{key}={value}" for key in ("tool_seconds", "tool_memory_mb") for value in ("null", "nan", "'\u2603'", "0")),
        "steps=abc",
        "turn_tokens=null",
        "lora_factor=abc +model/lora=r32",
    ],
)
def test_a_value_of_a_recipe_is_refused_by_the_key_that_was_typed(word: str) -> None:
    key = word.partition("=")[0]
    with raises_naming(ConfigError, f"model.recipe.{key}="):
        build_run(compose([f"model.recipe.{word.split()[0]}", *word.split()[1:]]), Path())


@for_each("name", shipped_options("model/recipe"))
def test_every_recipe_composes_and_is_whole(name: str) -> None:
    recipe = build_value(compose([f"model/recipe={name}"])["model"]["recipe"], "model.recipe")
    assert recipe.turn_tokens <= recipe.max_context
    assert recipe.answer_tokens <= recipe.max_context
    assert recipe.imitate_lr >= recipe.reinforce_lr > 0


@for_each("model, algo", product(["nano", "qwen3_4b"], ["nested_ppo", "ppo", "a2c"]))
def test_a_critics_head_is_learned_at_its_own_rate_of_the_recipe_and_never_slower_than_the_policy(
    algo: str, model: str
) -> None:
    tree = compose([f"algo={algo}", f"model={model}"])
    assert tree["algo"]["critic"]["lr"] == {"nano": 2e-4, "qwen3_4b": 1e-5}[model]
    assert tree["algo"]["critic"]["lr"] >= tree["algo"]["optimizer"]["lr"]


def test_larger_models_never_learn_faster() -> None:
    found = sorted(shipped_options("model/recipe").values(), key=lambda option: option["num_parameters"])
    for name in ("reinforce_lr", "prefer_lr", "imitate_lr"):
        values = [float(option[name]) for option in found]
        assert values == sorted(values, reverse=True), name


def test_a_model_of_ones_own_that_names_no_recipe_is_told_how(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("# Mine\n_target_: rlx.model.load.Model\npath: nano\nlora: null\n")
    with raises_naming(ConfigError, "defaults: [recipe: 3b, _self_]"):
        compose(["-cd", str(tmp_path), "model=mine"])


def test_tools_have_the_limits_that_suit_the_model() -> None:
    small, large = (
        compose(["env=lend", "protocol=tags", f"model={name}"])["env"]["tool"] for name in ("nano", "qwen3_4b")
    )
    assert (small["max_characters"], small["output_characters"], small["seconds"], small["memory_mb"]) == (
        300,
        300,
        1,
        32,
    )
    assert large["max_characters"] >= 10_000
    assert large["output_characters"] >= 4_000
    assert large["memory_mb"] >= 256
    pages = compose(["env=lend_search", "protocol=tags", "model=qwen3_4b"])["env"]["tool"]["max_characters"]
    assert pages > compose(["env=lend_search", "protocol=tags"])["env"]["tool"]["max_characters"] == 300
