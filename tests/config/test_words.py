"""Sweepers that optimise: what is refused before a job begins, and what they get from a job that ends."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.run.run import Run
from rlx.settings.compose import ConfigError, build_part, compose, launch
from rlx.settings.words import (
    check_sweeper,
    drop_training,
    one_line,
    parse_overrides,
    spell_mixtures,
    values_of,
)
from tests.errors import raises_naming
from tests.loops import for_each

STUB = '''
from dataclasses import dataclass
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper

@dataclass
class HalvingConfig:
    _target_: str = "hydra_plugins.halving.Halving"
    direction: str = "minimize"

ConfigStore.instance().store(group="hydra/sweeper", name="halving", node=HalvingConfig, provider="test")

class Halving(Sweeper):
    """Two jobs with the ends of each interval."""
    def __init__(self, direction): self.direction = direction
    def setup(self, *, hydra_context, task_function, config):
        self.launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)
    def sweep(self, arguments):
        key = arguments[-1].split("=")[0]
        jobs = self.launcher.launch([[*arguments[:-1], f"{key}={value}"] for value in (0.1, 0.2)], initial_job_idx=0)
        print("GOT", [float(job.return_value) for job in jobs])
'''


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A folder on the path with a sweeper plug-in."""
    (tmp_path / "hydra_plugins").mkdir()
    (tmp_path / "hydra_plugins" / "halving.py").write_text(STUB)
    return tmp_path


def sweep(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`rlx train -m` with a job that gives twice its kl."""
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\nfrom rlx.settings.compose import ConfigError, launch\n"
        f"try: launch({['-m', 'hydra/sweeper=halving', f'hydra.sweep.dir={folder}/runs', *words]!r}, "
        "lambda run: 2 * run.config['algo']['loss']['kl'])\nexcept ConfigError as error: print('REFUSED', error)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)


def test_a_sweeper_gets_a_number_from_each_job(stub: Path) -> None:
    done = sweep(stub, "objective=eval/tokens", "algo.loss.kl=interval(0.1,0.2)")
    assert "GOT [0.2, 0.4]" in done.stdout, done.stderr


def test_without_an_objective_no_job_begins(stub: Path) -> None:
    done = sweep(stub, "algo.loss.kl=interval(0.1,0.2)")
    assert "REFUSED hydra/sweeper=halving optimises, and has nothing to go by" in done.stdout, done.stderr
    assert not (stub / "runs").exists()


@for_each(
    "objective, direction, names",
    [
        (None, "maximize", ("hydra/sweeper=optuna", "objective=eval/reward")),
        ("eval/reward", "minimize", ("objective=eval/reward", "minimised")),
        ("eval@5/pass@16", "minimize", ("eval@5/pass@16", "minimised")),
        ("success/mean", ["minimize"], ("success/mean", "minimised")),
        (["eval/reward", "eval/tokens"], "maximize", ("names 2", "hydra.sweeper.direction", 1)),
        ("eval/reward", ["maximize", "minimize"], ("names 1", "hydra.sweeper.direction", 2)),
    ],
)
def test_a_sweeper_that_would_go_the_wrong_way_is_refused(
    objective: Any, direction: Any, names: tuple[object, ...]
) -> None:
    with raises_naming(ConfigError, *names):
        check_sweeper("optuna", {"direction": direction}, objective)


def test_sweepers_with_what_they_need_pass() -> None:
    check_sweeper("basic", {}, None)
    check_sweeper("optuna", {"direction": "maximize"}, "eval/reward")
    check_sweeper("optuna", {"direction": "minimize"}, "eval/tokens")
    check_sweeper("optuna", {"direction": ["maximize", "minimize"]}, ["eval/reward", "eval/tokens"])
    check_sweeper("own", {}, "eval/reward")


@for_each(
    "word, values",
    [
        ("seed=3", ["seed=3"]),
        ("seed=1,2", ["seed=1", "seed=2"]),
        ("seed=choice(1,2)", ["seed=1", "seed=2"]),
        ("algo.loss.kl=interval(0.1,1)", ["algo.loss.kl=0.1", "algo.loss.kl=1.0"]),
        ("seed=int(interval(1,4))", ["seed=1", "seed=4"]),
        ("algo.optimizer.lr=tag(log,interval(1e-5,1e-3))", ["algo.optimizer.lr=1e-05", "algo.optimizer.lr=0.001"]),
    ],
)
def test_an_interval_is_tried_at_its_ends(word: str, values: list[str]) -> None:
    assert values_of(parse_overrides([word])[0]) == values


@pytest.mark.parametrize(
    ("word", "name"),
    [("algo.loss.kl=interval(-1,1)", "algo.loss.kl=-1.0"), ("algo.num_prompts=interval(1,2)", "algo.num_prompts=1.0")],
)
def test_an_interval_that_holds_wrong_values_is_refused_before_its_first_job(word: str, name: str) -> None:
    with raises_naming(ConfigError, name):
        launch(["-m", word], lambda run: pytest.fail("a job began"))


@for_each(
    "word", ["env=(", 'protocol.instruction=say "a", b', "algo.optimizer.betas=[1,2", "track.name=it's", "seed=$x{"]
)
def test_a_word_that_cannot_be_read_is_shown_as_one_that_can(word: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_overrides([word])
    told, _, suggested = str(error.value).partition(", as in ")
    assert told == f"cannot read {word!r}: close its brackets and quotes, or quote the value whole"
    [read] = parse_overrides(shlex.split(suggested))
    assert f"{read.key_or_group}={read.value()}" == word


@for_each("word", ["countdown", "a b=3", "--=(", "algo.kl interval"])
def test_what_is_no_override_is_told_how_one_looks(word: str) -> None:
    with raises_naming(ConfigError, repr(word), "key=value"):
        parse_overrides([word])


@for_each(
    "word, added",
    [
        ("algo=grpo", ["steps=0", "warm_start=none"]),
        ("steps_done=3", ["steps=0", "warm_start=none"]),
        ("+warm_start_too.steps=3", ["steps=0", "warm_start=none"]),
        ("algo.steps=3", ["steps=0", "warm_start=none"]),
        *((word, ["warm_start=none"]) for word in ("steps=3", "+steps=3", "++steps=3", "~steps", "steps=3,4")),
        *((word, ["steps=0"]) for word in ("warm_start=sft", "warm_start.steps=3", "++warm_start.steps=3")),
        ("+algo@warm_start.algo=sft", ["steps=0"]),
    ],
)
def test_a_model_as_it_stands_is_trained_by_what_is_named_alone(word: str, added: list[str]) -> None:
    found = drop_training(["-m", "model.path=nano", word])
    assert found[: len(added)] == added
    assert [one.partition("{hydra")[0] for one in found[len(added) :]] == [
        "hydra.run.dir=outputs/$",
        "hydra.sweep.dir=outputs/sweeps/$",
    ]


def test_pages_of_hydras_are_not_sent_for() -> None:
    told = "In 'x': no such thing\nSee https://hydra.cc/docs/1.2/a_b/c for more information\nand more"
    assert one_line(ValueError(told)) == "In 'x': no such thing and more"


def test_optuna_finds_the_best_of_what_jobs_give(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="without the extra `sweep`")
    seen: list[float] = []

    def job(run: Run) -> float:
        seen.append(run.config["algo"]["loss"]["kl"])
        return -((seen[-1] - 0.5) ** 2)

    words = ["objective=eval/reward", "hydra.sweeper.direction=maximize", "hydra.sweeper.n_trials=6"]
    launch(["-m", "hydra/sweeper=optuna", f"hydra.sweep.dir={tmp_path}", *words, "algo.loss.kl=interval(0,1)"], job)
    found = yaml.safe_load((tmp_path / "optimization_results.yaml").read_text())
    assert len(seen) == 6
    assert found["best_params"]["algo.loss.kl"] == min(seen, key=lambda kl: abs(kl - 0.5))


def test_several_environments_are_a_mixture_of_parts_named_after_them() -> None:
    tree = compose(["env=[countdown, game/guess_the_number_hard]", "env.parts.countdown.weight=2.0"])
    parts = tree["env"]["parts"]
    assert list(parts) == ["countdown", "game_guess_the_number_hard"]
    for part, option in zip(parts.values(), ("countdown", "game/guess_the_number_hard")):
        assert part["env"] == compose([f"env={option}"])["env"]
    assert [part["weight"] for part in parts.values()] == [2.0, 1.0]
    assert spell_mixtures(["env=countdown", "seed=1"]) == ["env=countdown", "seed=1"]


@for_each(
    "words, names",
    [
        (["env=[countdown,countdown]"], ("env=", "different")),
        (["env=[]"], ("env=", "different")),
        (["env=[countdown,countdwn]"], ("env", "'countdwn'", "countdown")),
        (
            ["env=[countdown]", "env.parts.countdown.wait=1"],
            ("'env.parts.countdown.wait'", "weight"),
        ),
        (["env=[mixture,countdown]"], ("env.parts=mixture", "mixtures")),
    ],
)
def test_what_is_no_mixture_is_refused_as_any_configuration(words: list[str], names: tuple[str, ...]) -> None:
    with raises_naming(ConfigError, *names):
        build_part(compose(words), "env")
