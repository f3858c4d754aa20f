"""A preset, its arms and other options beside it: each run is what its words say."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlx.run.run import Run
from rlx.runs.folder import flatten
from rlx.settings.arms import PaperArm, arms_of, read_papers
from rlx.settings.auto import AutoLoader
from rlx.settings.compose import ConfigError, choices_of, complete, compose, launch, open_loader
from rlx.settings.explain import ROOT, check_tree, to_tree
from rlx.settings.folders import list_options
from rlx.settings.papers import read_presets
from tests.errors import raises_naming

ARMS = {preset: arms_of([preset]) for paper in read_papers().values() for preset in paper["arms"]}
ALGOS = sorted(list_options("algo"))
PRESETS = sorted(list_options("paper"))


@pytest.fixture(scope="module")
def loader() -> Iterator[AutoLoader]:
    with open_loader() as opened:
        yield opened


def load(loader: AutoLoader, *words: str) -> DictConfig:
    return loader.load_configuration(ROOT, list(words), RunMode.RUN)


def as_written(config: DictConfig) -> dict[str, Any]:
    """Return a configuration with its references as text."""
    tree = OmegaConf.to_container(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}


def at(tree: Any, place: Sequence[str]) -> Any:
    for name in place:
        tree = tree[name]
    return tree


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    at(tree, above)[last] = value


def declared(loader: AutoLoader, arm: PaperArm, main: DictConfig, protocol: str) -> dict[str, Any]:
    """Return the main run's configuration with the changes that the arm's declaration states, and no others."""
    tree = copy.deepcopy(as_written(main))
    pairs = [(key, value) for key, _, value in (word.partition("=") for word in arm.words)]
    options = {key: value for key, value in pairs if key.partition("@")[0] in main.hydra.runtime.choices}
    if protocol != main.hydra.runtime.choices.protocol:
        options.setdefault("protocol", protocol)  # the one that suits the arm, where the preset leaves it open
    for root in dict.fromkeys(key.partition("@")[2].partition(".")[0] or key for key in options):
        words = [f"{root}={main.hydra.runtime.choices[root]}"] if root not in options else []
        words += [f"{key}={value}" for key, value in options.items() if key == root or f"@{root}." in key]
        tree[root] = as_written(load(loader, *words))[root]
    for key in arm.keeps:
        put(tree, key, at(as_written(main), key.split(".")))
    for key, value in pairs:
        if key not in options:
            put(tree, key, yaml.safe_load(value.strip("'")))
    return tree


@pytest.mark.parametrize("preset", ARMS)
def test_an_arm_differs_from_the_main_run_in_what_it_declares_and_in_nothing_else(
    loader: AutoLoader, preset: str
) -> None:
    main = load(loader, f"+paper={preset}")
    for name, arm in ARMS[preset].items():
        config = load(loader, f"+paper={preset}", f"+arm={name}")
        check_tree(to_tree(config))
        there = declared(loader, arm, main, config.hydra.runtime.choices.protocol)
        assert flatten(as_written(config)) == flatten(there), name
        assert name == "main" or as_written(config) != as_written(main), name
        assert list(config.hydra.overrides.task)[:2] == [f"+arm={name}", f"+paper={preset}"], "as they were typed"


def test_every_preset_has_arms_with_a_title_and_a_source(loader: AutoLoader) -> None:
    for preset in PRESETS:
        arms = loader.list_arms([f"+paper={preset}"])
        assert "main" in arms, preset
        assert all(arm.title and arm.source for arm in arms.values())
        assert arms["main"].words == ()
    assert loader.list_arms(["+paper=gem_game_released"]) == ARMS["gem_game"], "a preset has those of its base"
    assert set(ARMS) <= set(read_presets())


def pairs_of(presets: Sequence[str], algos: Sequence[str]) -> list[tuple[str, str]]:
    """Return each algorithm beside one preset, in turn."""
    return [(presets[number % len(presets)], algo) for number, algo in enumerate(algos)]


A1 = [
    *(("carl_4b_reasoning", algo) for algo in ("carl_lite", "carl_random", "carl_all", "grpo")),
    *(("babyai", algo) for algo in ("bandit_ppo", "nested_ppo_printed")),
    *(("tool_rloo", algo) for algo in ("rloo", "ipo", "sft", "tool_sft", "tool_rloo_best2")),
    *(("gem_game", "grpo"), ("carl_3b", "grpo"), ("gem_math", "grpo"), ("earl_calc", "sft_grpo")),
]
"""Algorithms beside the presets that they would be compared with."""


def require_own(loader: AutoLoader, pairs: Sequence[tuple[str, str]]) -> None:
    """Require that an algorithm that replaces a preset's has its own values alone."""
    mains = {preset: load(loader, f"+paper={preset}") for preset in dict(pairs)}
    own = {algo: as_written(load(loader, f"algo={algo}"))["algo"] for algo in {algo for _, algo in pairs}}
    for preset, algo in pairs:
        main, config = mains[preset], load(loader, f"+paper={preset}", f"algo={algo}")
        is_same = main.hydra.runtime.choices.algo == algo
        assert as_written(config)["algo"] == (as_written(main)["algo"] if is_same else own[algo]), (preset, algo)
        assert config.hydra.runtime.choices.algo == algo


def test_an_algorithm_beside_a_preset_has_its_own_values_and_none_of_the_presets(loader: AutoLoader) -> None:
    require_own(loader, [*pairs_of(PRESETS, ALGOS), *A1])


@pytest.mark.slow
def test_every_algorithm_beside_every_preset_has_its_own_values(loader: AutoLoader) -> None:
    require_own(loader, [(preset, algo) for preset in PRESETS for algo in ALGOS])


def test_an_option_of_any_group_beside_a_preset_has_its_own_values(loader: AutoLoader) -> None:
    cases = [
        ("babyai", "env=babyai/open", "env", "env=babyai/open"),
        ("babyai", "model=nano", "model", "model=nano"),
        ("babyai", "+model/lora=r8", "model.lora", "+model/lora=r8"),
        ("gem_math", "env@env.parts.train.env.env=math/gsm8k", "env.parts.train.env.env.hub", "env=math/gsm8k"),
        ("gem_game", "protocol=tags", "protocol", "protocol=tags"),
        ("gem_game", "evaluate=quick", "evaluate", "evaluate=quick"),
        ("gem_game", "sampling=long", "sampling", "sampling=long"),
        ("gem_game", "algo/loss=default", "algo.loss.constant", None),
        ("tool_rloo", "warm_start=sft", "warm_start", "warm_start=sft"),
        ("earl_calc_released", "protocol=tags", "protocol", "protocol=tags"),
    ]
    for preset, word, place, alone in cases:
        there = as_written(load(loader, f"+paper={preset}", word))
        wanted = as_written(load(loader, alone if alone else f"+paper={preset}"))
        path = place.split(".")
        own = wanted["env"]["hub"] if place.endswith("hub") else at(wanted, path)
        assert at(there, path) == own, word


def test_a_preset_keeps_its_algorithm_beside_another_model(loader: AutoLoader) -> None:
    main, there = (as_written(load(loader, "+paper=carl_4b_reasoning", *more)) for more in ([], ["model=nano"]))
    assert there["algo"] == main["algo"]
    assert there["sampling"] == main["sampling"]


def test_a_replaced_algorithm_brings_the_warm_start_that_it_chooses(loader: AutoLoader) -> None:
    choices = load(loader, "+paper=earl_calc", "algo=sft_grpo").hydra.runtime.choices
    assert (choices.algo, choices.warm_start, choices.protocol) == ("sft_grpo", "sft", "tags")
    named = load(loader, "+paper=earl_calc", "algo=sft_grpo", "warm_start=none").hydra.runtime.choices
    assert named.warm_start == "none"
    assert load(loader, "+paper=tool_rloo", "warm_start=earl_order").hydra.runtime.choices.algo == "tool_rloo"


def test_words_beside_an_arm_win_wherever_they_stand(loader: AutoLoader) -> None:
    for words in (["+paper=carl_3b", "+arm=grpo", "algo.num_samples=5"], ["algo.num_samples=5", "+arm=grpo"]):
        tree = as_written(load(loader, "+paper=carl_3b", *[word for word in words if word != "+paper=carl_3b"]))
        assert (tree["algo"]["num_samples"], tree["algo"]["drop_equal"]) == (5, True)
    other = as_written(load(loader, "+paper=carl_3b", "+arm=grpo", "algo=ppo"))
    assert other["algo"] == as_written(load(loader, "algo=ppo"))["algo"]


def test_a_modifier_that_names_no_option_is_kept_beside_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "mine").mkdir(parents=True)
    (tmp_path / "conf" / "mine" / "small.yaml").write_text("# @package _global_\n# Small\nalgo: {num_prompts: 3}\n")
    (tmp_path / "conf" / "paper").mkdir()
    base = "# @package _global_\n# Mine\ndefaults: [carl_3b, _self_]\nsteps: 7\n"
    (tmp_path / "conf" / "paper" / "own.yaml").write_text(base)
    monkeypatch.chdir(tmp_path)
    assert compose(["+mine=small", "algo=carl"])["algo"]["num_prompts"] == 3
    tree = compose(["+paper=own", "+arm=grpo"])
    assert (tree["steps"], tree["algo"]["_target_"], tree["algo"]["num_prompts"]) == (7, "rlx.algo.grpo.grpo", 128)


def test_an_unknown_arm_is_refused_with_the_nearest_names() -> None:
    with raises_naming(ConfigError, "+arm=lit", "+paper=carl_4b_reasoning", "lite"):
        compose(["+paper=carl_4b_reasoning", "+arm=lit"])
    with raises_naming(ConfigError, "+arm=lite", "+paper=carl_3b"):
        compose(["+arm=lite"])
    with raises_naming(ConfigError, "+arm=[a,b]", "+paper=carl_3b"):
        compose(["+paper=carl_3b", "+arm=[a,b]"])
    with raises_naming(ConfigError, "+arm=grpo", "+arm=main"):
        compose(["+paper=carl_3b", "+arm=grpo", "+arm=main"])
    with raises_naming(ConfigError, "+arm=grp", "grpo"):
        compose(["+paper=carl_3b", "+arm=grp"])


def test_a_plan_names_the_options_that_replace_a_presets() -> None:
    replaced = {choice.word: choice.reason for choice in choices_of(["+paper=babyai", "algo=bandit_ppo", "seed=1"])}
    assert set(replaced) == {"algo=bandit_ppo"}
    assert "nested_ppo" in replaced["algo=bandit_ppo"]
    assert choices_of(["+paper=babyai", "algo=nested_ppo"]) == []


def test_a_sweep_over_arms_runs_each_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs: list[Run] = []
    launch(["-m", "+paper=babyai", "+arm=main,bandit", "model=nano", "hardware=cpu"], runs.append)
    assert [run.config["algo"]["worth"] for run in runs] == ["nested", "final"]
    assert len({run.folder for run in runs}) == 2
    assert [[word for word in run.words if "arm" in word] for run in runs] == [["+arm=main"], ["+arm=bandit"]]
    launch(["-m", "+paper=babyai,carl_3b", "+arm=main", "model=nano", "hardware=cpu"], runs.append)
    assert [run.config["algo"]["_target_"].rpartition(".")[2] for run in runs[2:]] == ["nested_ppo", "carl"]


def test_arms_complete_beside_their_preset() -> None:
    assert set(complete(["+paper=carl_4b_reasoning"], "+arm=")) == {
        f"+arm={name}" for name in ARMS["carl_4b_reasoning"]
    }
    assert complete(["+paper=carl_4b_reasoning"], "+arm=li") == ["+arm=lite"]
    assert complete(["+paper=carl_4b_reasoning"], "+ar") == ["+arm="]
    assert complete([], "+arm=") == []


def test_the_configuration_of_a_preset_is_shown_on_any_machine(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(run: Run, here: bool) -> None:
        raise ConfigError("this machine has no GPU")

    with raises_naming(ConfigError, "GPU"):
        launch(["+paper=babyai"], lambda run: None, refuse)
    launch(["+paper=babyai", "+arm=bandit", "--cfg", "job"], lambda run: None, refuse)
    assert "worth: final" in capsys.readouterr().out
